"""How small and how large the numbers among a router's settings may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypertier.errors import ConfigError

if TYPE_CHECKING:
    from hypertier.router.settings import RouterSettings

# What is more is a slip of the hand: a router that never gives up, or one that no node has memory for.
MAX_SECONDS = 86_400
MAX_BYTES = 2**40
MAX_GATHER_SECONDS = 0.01
GATHER = f"0 to {MAX_GATHER_SECONDS} seconds; 0 sends on each piece of a stream as it comes"


def check_numbers(settings: RouterSettings) -> None:
    """Refuse a number out of its bounds. Raises ConfigError naming its flag."""
    at_least: tuple[tuple[str, float, float, str], ...] = (
        ("--retries", settings.retries, 0, "0 or more further replicas to try"),
        ("--retry-budget", settings.retry_budget, 0, "0 or more retries for each request, such as 0.2"),
        ("--migration-limit", settings.migration_limit, 0, "0 or more further replicas; 0 is off"),
        ("--stall-timeout-seconds", settings.stall_timeout_seconds, 0, "0 or more seconds; 0 is never"),
        ("--stream-idle-timeout", settings.stream_idle_timeout_seconds, 0, "0 or more seconds; 0 is never"),
        ("--slow-start-seconds", settings.slow_start_seconds, 0, "0 or more seconds"),
        ("--gather-seconds", settings.gather_seconds, 0, GATHER),
        (
            "--max-body-bytes",
            settings.max_body_bytes,
            1024,
            "1024 or more bytes, to let a short prompt through",
        ),
        (
            "--max-head-bytes",
            settings.max_head_bytes,
            1024,
            "1024 or more bytes, to let common headers through",
        ),
        (
            "--max-buffered-bytes",
            settings.max_buffered_bytes,
            settings.max_body_bytes,
            "at least --max-body-bytes, or no request of that size could be read",
        ),
        (
            "--index-bytes",
            settings.index_bytes,
            64 * 1024,
            "65536 or more bytes of memory for the prefix index",
        ),
        ("--l1-tokens", settings.l1_tokens, 0, "0 or more tokens that one engine's L1 keeps"),
        ("--drain-seconds", settings.drain_seconds, 0, "0 or more seconds"),
        ("--lameduck-seconds", settings.lameduck_seconds, 0, "0 or more seconds"),
        ("--hold-seconds", settings.hold_seconds, 0, "0 or more seconds; 0 holds no request"),
        ("--hold-requests", settings.hold_requests, 1, "1 or more requests"),
    )
    for setting, got, minimum, expected in at_least:
        if not got >= minimum:  # NaN, too, is not
            raise ConfigError(setting, got, expected)
    for setting, got, *_ in at_least:
        if setting.endswith("-bytes") and got > MAX_BYTES:
            raise ConfigError(setting, got, f"at most {MAX_BYTES} bytes, 1 TiB")
        if setting.endswith(("-seconds", "-timeout")) and got > MAX_SECONDS:
            raise ConfigError(setting, got, f"0 to {MAX_SECONDS} seconds, a day")
    if settings.hold_seconds > settings.response_timeout_seconds:
        raise ConfigError(
            "--hold-seconds",
            settings.hold_seconds,
            f"at most --response-timeout, {settings.response_timeout_seconds:g}, which ends a request before",
        )
    if settings.gather_seconds > MAX_GATHER_SECONDS:
        raise ConfigError("--gather-seconds", settings.gather_seconds, GATHER)
    positive = (
        ("--connect-timeout", settings.connect_timeout_seconds),
        ("--response-timeout", settings.response_timeout_seconds),
        ("--guardrail-timeout-seconds", settings.guardrail_timeout_seconds),
        ("--read-timeout", settings.read_timeout_seconds),
        ("--idle-timeout", settings.idle_timeout_seconds),
        ("--health-interval", settings.health_interval_seconds),
        ("--health-timeout", settings.health_timeout_seconds),
        ("--discover-interval", settings.discover_interval_seconds),
    )
    for setting, seconds in positive:
        if not 0 < seconds <= MAX_SECONDS:
            raise ConfigError(setting, seconds, f"more than 0 and at most {MAX_SECONDS} seconds, a day")
