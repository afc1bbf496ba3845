"""What the tier can be told: the keys beside `type` and `module_path` in vLLM's `secondary_tiers`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from hypertier.errors import ConfigError
from hypertier.tier.address import URL_VARIABLE, L2Address, parse_l2_url
from hypertier.tier.gate import MODES, GateMode
from hypertier.tier.tenants import LONGEST_TTL_SECONDS, Terms, read_tenants

MoverMode = Literal["process", "threads"]
MOVERS: tuple[MoverMode, ...] = ("process", "threads")
NO_TENANTS = (
    "no tenants with HyperPod's tiered storage: its daemon removes no value when asked and knows no "
    "time to live"
)
STRIPE_BYTES = 4 * 1024 * 1024  # above, Redis 7 spends three times the CPU on a byte


@dataclass(frozen=True)
class TierSettings:
    """Checked settings of one tier. Where `url` is not given, `HYPERTIER_L2_URL` holds it.

    `connections` are threads that load and store. `lookup_deadline_ms` bounds how long a request waits to
    hear whether L2 has a chunk, `load_deadline_ms` how much longer than computing its load may take,
    `io_timeout_ms` how long one stripe may. `namespace` and `epoch` keep apart what must not be shared;
    raise the epoch when the weights change under an unchanged name. `ca_file` holds the certificates that
    `rediss://` trusts, else the system's do. `gate` is `auto`: L2 is asked while loading beats computing;
    or `open`, or `closed`. The priors stand until both have been measured; 0 when nothing is known.
    `mover` tells where chunks are moved: in a process beside the engine's scheduler, or on threads of it.
    `segment_path` is where the shared memory of HyperPod's daemon lies. `tenants` are terms by name, see
    `hypertier.tier.tenants`. With `enable_kv_events`, vLLM's word for it, what is stored in L2 is
    announced to who hears the engine's events.
    """

    url: str
    ttl_seconds: int = 86_400
    connections: int = 4
    stripe_bytes: int = STRIPE_BYTES
    lookup_deadline_ms: int = 200
    load_deadline_ms: int = 200
    io_timeout_ms: int = 1_000
    max_store_backlog_bytes: int = 256 * 1024 * 1024
    namespace: str = ""
    epoch: int = 0
    revision: str = ""
    ca_file: str = ""
    gate: GateMode = "auto"
    prior_l2_bytes_per_second: int = 0
    prior_prefill_tokens_per_second: int = 0
    mover: MoverMode = "process"
    segment_path: str = "/dev/shm/ai_toolkit_cache"
    tenants: dict[str, Terms] = field(default_factory=dict)
    enable_kv_events: bool = False

    @property
    def address(self) -> L2Address:
        """Where L2 is."""
        return parse_l2_url(self.url)


SMALLEST = {
    "ttl_seconds": 1,
    "connections": 1,
    "stripe_bytes": 64 * 1024,
    "lookup_deadline_ms": 1,
    "load_deadline_ms": 1,
    "io_timeout_ms": 1,
    "max_store_backlog_bytes": 0,
    "epoch": 0,
    "prior_l2_bytes_per_second": 0,
    "prior_prefill_tokens_per_second": 0,
}

MOST_CONNECTIONS = 64  # each is a thread, and takes turns with the others at Python's lock

LARGEST = {
    "ttl_seconds": LONGEST_TTL_SECONDS,
    "connections": MOST_CONNECTIONS,
    "stripe_bytes": 16 * 1024 * 1024,
    "lookup_deadline_ms": 60_000,
    "load_deadline_ms": 60_000,
    "io_timeout_ms": 60_000,
}

KINDS: dict[str, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "bool": (bool, "true or false"),
    "dict[str, Terms]": (dict, "an object of tenants by name"),
}


def check_range(setting: str, value: int, smallest: int, largest: int | None = None) -> None:
    """Check a number against its limits.

    Raises:
        ConfigError: it is beyond one of them.
    """
    if value < smallest or (largest is not None and value > largest):
        wanted = f"{smallest} or more" if largest is None else f"{smallest} to {largest}"
        raise ConfigError(setting, value, wanted)


def read_settings(config: Mapping[str, Any], environ: Mapping[str, str]) -> TierSettings:
    """Check a tier's configuration.

    Raises:
        ConfigError: an unknown key, a value of another type or too small, or no URL.
    """
    known = {field.name: field for field in fields(TierSettings)}
    for key, value in config.items():
        if key not in known:
            raise ConfigError(f"secondary_tiers.{key}", value, f"one of {', '.join(sorted(known))}")
        kind, words = KINDS.get(str(known[key].type), (str, "text"))
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            raise ConfigError(f"secondary_tiers.{key}", value, words)
        if isinstance(value, int):
            check_range(f"secondary_tiers.{key}", value, SMALLEST.get(key, 0), LARGEST.get(key))
    if config.get("gate", "auto") not in MODES:
        raise ConfigError("secondary_tiers.gate", config["gate"], f"one of {', '.join(MODES)}")
    if config.get("mover", "process") not in MOVERS:
        raise ConfigError("secondary_tiers.mover", config["mover"], f"one of {', '.join(MOVERS)}")
    setting, url = "secondary_tiers.url", config.get("url")
    if not url:
        setting, url = URL_VARIABLE, environ.get(URL_VARIABLE, "")
    address = parse_l2_url(url, setting)
    tenants = read_tenants(config.get("tenants", {}), "secondary_tiers.tenants")
    if tenants and address.is_daemon:
        raise ConfigError("secondary_tiers.tenants", sorted(tenants), NO_TENANTS)
    return TierSettings(**{**config, "url": url, "tenants": tenants})
