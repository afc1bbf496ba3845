"""What an operator can set on the router, checked before anything is opened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hypertier.errors import ConfigError
from hypertier.router.bounds import check_numbers
from hypertier.router.capture.settings import MODES, CaptureSettings
from hypertier.router.discovery.addresses import (
    Address,
    parse_discover,
    parse_guardrail,
    parse_kv_events,
    parse_listen,
    parse_peer,
    parse_peers,
    parse_prefill_discover,
    parse_prefill_replica,
    parse_replica,
)

STRATEGIES = ("roundrobin", "prefixaware", "session", "kvaware")
BY_PROMPT = ("prefixaware", "kvaware")
MIB = 1024 * 1024
PREFILL_TOKENS = 4096
MIGRATION_BYTES = 64 * MIB
"""What each process may keep of streams that could be migrated, at four bytes a token: 16 million."""
SAMPLE_RATIO = 0.01
MAX_WORKERS = 64

CLAIM = "jwt:"
_MODEL = re.compile(r"[A-Za-z0-9._:/@+-]{1,200}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def parse_alias(text: str) -> tuple[str, str]:
    """Read `NAME=MODEL`. Raises ConfigError naming `--model-alias`."""
    name, separator, model = text.partition("=")
    if not separator or not _MODEL.fullmatch(name) or not _MODEL.fullmatch(model) or name == model:
        raise ConfigError(
            "--model-alias", text, "NAME=MODEL, NAME being another name for what engines call MODEL"
        )
    return name, model


def check_pair(cert_flag: str, cert: str | None, key_flag: str, key: str | None) -> None:
    """Refuse a certificate without its key, and a key alone. Raises ConfigError."""
    if (key is None) != (cert is None):
        missing = key_flag if key is None else cert_flag
        raise ConfigError(missing, None, f"{cert_flag} and {key_flag} together, or neither")


def check_engine_tls(ca: str | None, cert: str | None, key: str | None, server_name: str | None) -> None:
    """Refuse half a pair, and what means nothing without `--replica-ca`. Raises ConfigError."""
    check_pair("--replica-cert", cert, "--replica-key", key)
    for setting, got in (("--replica-cert", cert), ("--replica-server-name", server_name)):
        if ca is None and got is not None:
            raise ConfigError(setting, got, "--replica-ca beside it: without that, engines get no TLS")


_CAPTURE_FLAGS: Final = {
    "capture_sampling_percentage": "--capture-sampling-percentage",
    "capture_modes": "--capture-mode",
    "capture_max_payload_kb": "--capture-max-payload-kb",
    "capture_batch_size": "--capture-batch-size",
    "capture_flush_seconds": "--capture-flush-seconds",
    "capture_spool_bytes": "--capture-spool-bytes",
    "capture_redact": "--capture-redact",
}
_HOLD_FLAGS: Final = {"hold_requests": "--hold-requests"}


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A service that is asked about each request; one that tells nothing lets all pass, or none."""

    address: Address
    path: str
    timeout_seconds: float
    fails_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """Everything the router needs to know; a wrong value raises ConfigError naming its flag.

    Times are seconds, sizes bytes. `response_timeout_seconds` is the longest silence of an engine within
    one request, before the first byte and between two; long non-streamed answers are silent while they
    are written.
    """

    listen: str = "127.0.0.1:8000"
    metrics_port: int | None = None
    strategy: str = "prefixaware"
    replicas: tuple[str, ...] = ()
    discover: str | None = None
    peers: str | None = None
    peer: tuple[str, ...] = ()
    peer_listen: str | None = None
    kv_events_port: int = 5557
    kv_events: tuple[str, ...] = ()
    session_key: str = "x-session-id"
    access: str | None = None
    api_keys: str | None = None
    salt_key: str | None = None
    otlp_endpoint: str | None = None
    trace_sample_ratio: float | None = None
    prefill_replicas: tuple[str, ...] = ()
    prefill_discover: str | None = None
    prefill_threshold: int | None = None
    model_alias: tuple[str, ...] = ()
    routes: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    replica_ca: str | None = None
    replica_cert: str | None = None
    replica_key: str | None = None
    replica_server_name: str | None = None
    workers: int | None = None
    busy_polling: bool = False
    explain: bool = False
    explain_on_request: bool = False
    guardrail_url: str | None = None
    guardrail_on_failure: str | None = None
    guardrail_timeout_seconds: float = 1.0
    capture_spool: str | None = None
    capture_sampling_percentage: int = 100
    capture_modes: tuple[str, ...] = ()
    capture_max_payload_kb: int = 0
    capture_batch_size: int = 10
    capture_flush_seconds: int = 60
    capture_spool_bytes: int = 256 * MIB
    capture_redact: bool = False
    hold_seconds: float = 0.0
    hold_requests: int = 1024
    retries: int = 2
    retry_budget: float = 0.2
    migration_limit: int = 0
    max_body_bytes: int = 64 * MIB
    max_head_bytes: int = 64 * 1024
    max_buffered_bytes: int = 1024 * MIB
    index_bytes: int = 128 * MIB
    l1_tokens: int = 0
    drain_seconds: float = 30.0
    lameduck_seconds: float = 0.0
    connect_timeout_seconds: float = 3.0
    response_timeout_seconds: float = 1800.0
    stall_timeout_seconds: float = 300.0
    stream_idle_timeout_seconds: float = 60.0
    slow_start_seconds: float = 10.0
    gather_seconds: float = 0.002
    read_timeout_seconds: float = 30.0
    idle_timeout_seconds: float = 75.0
    health_interval_seconds: float = 1.0
    health_timeout_seconds: float = 5.0
    discover_interval_seconds: float = 2.0

    def __post_init__(self) -> None:
        parse_listen("--listen", self.listen)
        if self.metrics_port is not None and not 0 <= self.metrics_port <= 65535:
            raise ConfigError(
                "--metrics-port", self.metrics_port, "a TCP port, 0 to 65535; 0 takes a free one"
            )
        self._check_strategy()
        addresses = [parse_replica(url) for url in self.replicas]
        if self.discover is not None:
            parse_discover(self.discover)
        if not self.replicas and self.discover is None:
            raise ConfigError(
                "--replica",
                None,
                "at least one engine's URL, or --discover k8s://NAMESPACE/SERVICE:PORT",
            )
        if self.replicas and self.discover is not None:
            raise ConfigError("--discover", self.discover, "either --discover or --replica, not both")
        if len(set(addresses)) != len(addresses):
            raise ConfigError(
                "--replica", list(self.replicas), "every engine once; a repeated one would count twice"
            )
        if not _HEADER_NAME.fullmatch(self.session_key.removeprefix(CLAIM)):
            raise ConfigError(
                "--session-key",
                self.session_key,
                f"the name of a request header or body field, or {CLAIM}NAME for a claim of JWTs",
            )
        if self.session_claim is not None and self.access is None:
            raise ConfigError("--session-key", self.session_key, "--access with jwt, for there to be claims")
        self._check_tls()
        self._check_kv_events()
        self._check_peers()
        self._check_workers()
        self._check_prefill()
        self._check_guardrail()
        _ = self.capture
        if self.otlp_endpoint is not None and not re.fullmatch(r"https?://[^/?#\s@]+/?", self.otlp_endpoint):
            raise ConfigError(
                "--otlp-endpoint",
                self.otlp_endpoint,
                "http://HOST:4318 of a collector that takes OTLP by HTTP",
            )
        if self.trace_sample_ratio is not None and self.otlp_endpoint is None:
            raise ConfigError(
                "--trace-sample-ratio", self.trace_sample_ratio, "--otlp-endpoint beside it, where spans go"
            )
        if not 0 <= self.sample_ratio <= 1:
            raise ConfigError("--trace-sample-ratio", self.trace_sample_ratio, "0.0 to 1.0")
        names = [parse_alias(text)[0] for text in self.model_alias]
        if len(set(names)) != len(names):
            raise ConfigError("--model-alias", list(self.model_alias), "every name once")
        check_numbers(self)
        self._check_beside()

    def _check_beside(self) -> None:
        """Refuse what says nothing without another flag."""
        defaults = RouterSettings.__dataclass_fields__
        for beside, is_set, flags in (
            ("--capture-spool", self.capture_spool is not None, _CAPTURE_FLAGS),
            ("--hold-seconds", self.hold_seconds, _HOLD_FLAGS),
        ):
            for name, flag in flags.items():
                got = getattr(self, name)
                if not is_set and got != defaults[name].default:
                    shown = list(got) if isinstance(got, tuple) else got
                    raise ConfigError(flag, shown, f"{beside} beside it, without which it says nothing")

    def _check_prefill(self) -> None:
        addresses = [parse_prefill_replica(url) for url in self.prefill_replicas]
        if self.prefill_discover is not None:
            parse_prefill_discover(self.prefill_discover)
        if self.prefill_replicas and self.prefill_discover is not None:
            raise ConfigError(
                "--prefill-discover", self.prefill_discover, "either this or --prefill-replica, not both"
            )
        if len(set(addresses)) != len(addresses):
            raise ConfigError("--prefill-replica", list(self.prefill_replicas), "every engine once")
        if self.threshold_tokens < 0:
            raise ConfigError("--prefill-threshold", self.prefill_threshold, "0 or more tokens; 0 is always")
        if self.prefill_threshold is not None and not self.splits_prefill:
            raise ConfigError(
                "--prefill-threshold",
                self.prefill_threshold,
                "--prefill-replica or --prefill-discover beside it: nothing else prefills",
            )

    def _check_guardrail(self) -> None:
        if self.guardrail_url is None and self.guardrail_on_failure is not None:
            raise ConfigError(
                "--guardrail-on-failure", self.guardrail_on_failure, "--guardrail-url beside it"
            )
        if self.guardrail_url is not None and self.guardrail_on_failure not in ("open", "closed"):
            expected = "open, to let requests pass while the service fails, or closed, to refuse them"
            raise ConfigError("--guardrail-on-failure", self.guardrail_on_failure, expected)
        _ = self.guardrail

    @property
    def capture(self) -> CaptureSettings | None:
        """What is captured of requests and answers; None where nothing is."""
        if self.capture_spool is None:
            return None
        return CaptureSettings(
            spool=self.capture_spool,
            sampling_percentage=self.capture_sampling_percentage,
            modes=self.capture_modes or MODES,
            max_payload_kb=self.capture_max_payload_kb,
            batch_size=self.capture_batch_size,
            flush_seconds=self.capture_flush_seconds,
            spool_bytes=self.capture_spool_bytes,
            redacts=self.capture_redact,
        )

    @property
    def guardrail(self) -> Guardrail | None:
        """The service that looks at each request; None where none does."""
        if self.guardrail_url is None:
            return None
        address, path = parse_guardrail(self.guardrail_url)
        fails_open = self.guardrail_on_failure == "open"
        return Guardrail(address, path, self.guardrail_timeout_seconds, fails_open)

    @property
    def threshold_tokens(self) -> int:
        """Prompts of more tokens are prefilled by other replicas."""
        return PREFILL_TOKENS if self.prefill_threshold is None else self.prefill_threshold

    @property
    def sample_ratio(self) -> float:
        """Share of the requests without a trace that get one."""
        return SAMPLE_RATIO if self.trace_sample_ratio is None else self.trace_sample_ratio

    @property
    def splits_prefill(self) -> bool:
        """Long prompts are prefilled by other replicas."""
        return bool(self.prefill_replicas) or self.prefill_discover is not None

    def _check_strategy(self) -> None:
        works = ", ".join(STRATEGIES)
        if self.strategy not in STRATEGIES:
            raise ConfigError("--strategy", self.strategy, f"one of {works}")

    def _check_tls(self) -> None:
        check_pair("--tls-cert", self.tls_cert, "--tls-key", self.tls_key)
        check_engine_tls(self.replica_ca, self.replica_cert, self.replica_key, self.replica_server_name)

    def _check_kv_events(self) -> None:
        if not 1 <= self.kv_events_port <= 65534:
            raise ConfigError(
                "--kv-events-port", self.kv_events_port, "a TCP port, 1 to 65534; the next one sends replays"
            )
        for text in self.kv_events:
            parse_kv_events(text)
        if self.kv_events and self.strategy != "kvaware":
            raise ConfigError("--kv-events", list(self.kv_events), "no such flag without --strategy kvaware")
        if self.kv_events and len(self.kv_events) != len(self.replicas):
            raise ConfigError(
                "--kv-events", list(self.kv_events), "one for each --replica, in the same order, or none"
            )

    @property
    def session_claim(self) -> str | None:
        """The claim of JWTs that names a session; None where something else does."""
        is_claim = self.session_key.startswith(CLAIM)
        return self.session_key.removeprefix(CLAIM) if is_claim else None

    def check_access(self, *, authenticates: bool, has_jwt: bool) -> None:
        """Refuse what does not go with the files of `--access` and `--api-keys`. Raises ConfigError."""
        if authenticates and self.metrics_port is None:
            raise ConfigError(
                "--metrics-port", None, "a port of its own: metrics name tenants, and need no key there"
            )
        if self.session_claim is not None and not has_jwt:
            raise ConfigError("--session-key", self.session_key, "access.jwt, for there to be claims")

    def kv_events_of(self, replica: Address) -> Address:
        """Where that engine publishes its KV events."""
        for url, text in zip(self.replicas, self.kv_events, strict=False):
            if parse_replica(url) == replica:
                return parse_kv_events(text)
        return Address(replica.host, self.kv_events_port)

    def _check_peers(self) -> None:
        if self.peers is not None:
            parse_peers(self.peers)
        for text in self.peer:
            parse_peer(text)
        if self.peer_listen is not None:
            parse_listen("--peer-listen", self.peer_listen)
        if self.peers is not None and self.peer:
            raise ConfigError("--peer", list(self.peer), "either --peers or --peer, not both")
        tells = self.peers is not None or bool(self.peer)
        if tells and self.peer_listen is None:
            raise ConfigError("--peer-listen", None, "HOST:PORT on which the other routers find this one")
        if self.peer_listen is not None and not tells:
            raise ConfigError(
                "--peers", None, "dns://HOST:PORT of the routers, or --peer for each, beside --peer-listen"
            )
        if tells and self.strategy == "roundrobin" and self.access is None and self.routes is None:
            raise ConfigError(
                "--strategy",
                self.strategy,
                "another one with --peers or --peer, or --access, whose limits routers divide: turns need no "
                "news of load",
            )

    def _check_workers(self) -> None:
        workers = self.workers
        if workers is None:
            return
        if not 1 <= workers <= MAX_WORKERS:
            raise ConfigError("--workers", workers, f"1 to {MAX_WORKERS}, about one for each core")
        if self.metrics_port is None:
            raise ConfigError(
                "--metrics-port", None, "a port of its own with --workers: one worker knows not of the others"
            )
        if self.max_buffered_bytes // workers < self.max_body_bytes:
            raise ConfigError(
                "--max-buffered-bytes",
                self.max_buffered_bytes,
                f"at least --max-body-bytes for each of {workers} workers, who divide it",
            )
        address = self.peer_address
        if address is not None and not 1 <= address.port <= 65536 - workers:
            raise ConfigError(
                "--peer-listen",
                self.peer_listen,
                f"1 to {65536 - workers}: each of {workers} workers has a port, in a row from there",
            )

    @property
    def remembers_prompts(self) -> bool:
        """The strategy looks at prompts, and at what of them replicas have cached."""
        return self.strategy in BY_PROMPT

    @property
    def address(self) -> Address:
        """Where clients connect."""
        return parse_listen("--listen", self.listen)

    @property
    def metrics_address(self) -> Address | None:
        """Where `/metrics` is served instead of on `address`; None keeps it there."""
        return None if self.metrics_port is None else Address(self.address.host, self.metrics_port)

    @property
    def peer_address(self) -> Address | None:
        """Where other routers connect; None where routers tell one another nothing."""
        return None if self.peer_listen is None else parse_listen("--peer-listen", self.peer_listen)

    def plan(self) -> str:
        """One line for the log at start: what will run, with the limits that an operator asks about first."""
        source = self.discover or f"{len(self.replicas)} replica(s) {', '.join(self.replicas)}"
        return (
            f"strategy {self.strategy}, {source}; bodies up to {self.max_body_bytes / MIB:g} MiB, "
            f"prefix index {self.index_bytes / MIB:g} MiB, {self.retries} retries before the first byte, "
            f"drain {self.drain_seconds:g} s{self._workers_plan()}{self._peers_plan()}{self._access_plan()}"
        )

    def _workers_plan(self) -> str:
        processes = "" if self.workers is None else f"; {self.workers} worker process(es)"
        return processes + ("; busy polling" if self.busy_polling else "")

    def _access_plan(self) -> str:
        return "" if self.access is None and self.api_keys is None else "; asks who asks, and how much"

    def _peers_plan(self) -> str:
        source = self.peers or ", ".join(self.peer)
        return f"; tells {source}, hears on {self.peer_listen}" if source else ""
