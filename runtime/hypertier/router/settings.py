"""What an operator can set on the router, checked before anything is opened."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hypertier.errors import ConfigError

if TYPE_CHECKING:
    from hypertier.router.tls import EngineTls

STRATEGIES = ("roundrobin", "prefixaware", "session", "kvaware")
BY_PROMPT = ("prefixaware", "kvaware")
MIB = 1024 * 1024
PREFILL_TOKENS = 4096
SAMPLE_RATIO = 0.01
# What is more is a slip of the hand: a router that never gives up, or one that no node has memory for.
MAX_SECONDS = 86_400
MAX_BYTES = 2**40
MAX_WORKERS = 64
MAX_GATHER_SECONDS = 0.01
GATHER = f"0 to {MAX_GATHER_SECONDS} seconds; 0 sends on each piece of a stream as it comes"

CLAIM = "jwt:"
# Names of Kubernetes: a namespace, a Service, and a port by its number or its name (RFC 6335).
_SERVICE = re.compile(
    r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/([a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)"
    r":([0-9]{1,5}|(?=[0-9-]*[a-z])[a-z0-9](?:[a-z0-9-]{0,13}[a-z0-9])?)"
)
_MODEL = re.compile(r"[A-Za-z0-9._:/@+-]{1,200}")
_GUARDRAIL = re.compile(r"http://([^/?#\s@]+)(/[!-~]*)?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; `host` is a name or an IP address, without brackets.

    `tls` is how TLS is spoken there; None where it is not.
    """

    host: str
    port: int
    tls: EngineTls | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Service:
    """A Kubernetes Service and a port of its pods: a number, or the name that the Service gives it."""

    namespace: str
    name: str
    port: int | str

    def __str__(self) -> str:
        return f"k8s://{self.namespace}/{self.name}:{self.port}"


def parse_listen(setting: str, text: str) -> Address:
    """Read `HOST:PORT`; port 0 lets the system choose. Raises ConfigError naming `setting`."""
    expected = "HOST:PORT, such as 0.0.0.0:8000; port 0 takes a free one"
    address = _split_address(text)
    if address is None:
        raise ConfigError(setting, text, expected)
    return address


def parse_replica(text: str) -> Address:
    """Read a replica's `http://HOST:PORT`. Raises ConfigError naming `--replica`."""
    expected = "http://HOST:PORT of an engine, without a path; the router speaks plain HTTP to engines"
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ConfigError("--replica", text, expected) from error
    address = _split_address(parts.netloc)
    if parts.scheme != "http" or address is None or address.port == 0:
        raise ConfigError("--replica", text, expected)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError("--replica", text, expected)
    return address


def parse_discover(text: str) -> Address | Service:
    """Read where engines are listed: `k8s://NAMESPACE/SERVICE:PORT` or `dns://HOST:PORT`.

    Raises ConfigError."""
    return _parse_list("--discover", text, "engines'")


def parse_prefill_discover(text: str) -> Address | Service:
    """Read where engines that prefill are listed, in the same two forms. Raises ConfigError."""
    return _parse_list("--prefill-discover", text, "engines'")


def parse_prefill_replica(text: str) -> Address:
    """Read `http://HOST:PORT` of an engine that prefills. Raises ConfigError."""
    try:
        return parse_replica(text)
    except ConfigError as error:
        raise ConfigError("--prefill-replica", text, error.expected) from error


def parse_peers(text: str) -> Address | Service:
    """Read where routers are listed, in the same two forms. Raises ConfigError."""
    return _parse_list("--peers", text, "routers'")


def _parse_list(setting: str, text: str, whose: str) -> Address | Service:
    scheme, separator, rest = text.partition("://")
    if scheme == "k8s" and separator:
        service = _SERVICE.fullmatch(rest)
        if service is None or (service[3].isdigit() and not 1 <= int(service[3]) <= 65535):
            raise ConfigError(
                setting, text, "k8s://NAMESPACE/SERVICE:PORT, PORT being a number or the name of the port"
            )
        port = int(service[3]) if service[3].isdigit() else service[3]
        return Service(service[1], service[2], port)
    address = _split_address(rest)
    if scheme != "dns" or not separator or address is None or address.port == 0:
        raise ConfigError(
            setting,
            text,
            "k8s://NAMESPACE/SERVICE:PORT, or dns://HOST:PORT, HOST being a headless Service whose addresses "
            f"are the {whose}",
        )
    return address


def parse_alias(text: str) -> tuple[str, str]:
    """Read `NAME=MODEL`. Raises ConfigError naming `--model-alias`."""
    name, separator, model = text.partition("=")
    if not separator or not _MODEL.fullmatch(name) or not _MODEL.fullmatch(model) or name == model:
        raise ConfigError(
            "--model-alias", text, "NAME=MODEL, NAME being another name for what engines call MODEL"
        )
    return name, model


def parse_peer(text: str) -> Address:
    """Read another router's `HOST:PORT`. Raises ConfigError naming `--peer`."""
    address = _split_address(text)
    if address is None or address.port == 0:
        raise ConfigError("--peer", text, "HOST:PORT of another router's --peer-listen")
    return address


def parse_kv_events(text: str) -> Address:
    """Read `HOST:PORT` of an engine's KV events. Raises ConfigError naming `--kv-events`."""
    address = _split_address(text)
    if address is None or not 1 <= address.port <= 65534:
        raise ConfigError(
            "--kv-events", text, "HOST:PORT of an engine's events; the port after sends replays"
        )
    return address


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


def _split_address(text: str) -> Address | None:
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not separator or not host or "@" in host or "/" in host or any(c.isspace() for c in host):
        return None
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        return None
    return Address(host, int(port))


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
    explain: bool = False
    explain_on_request: bool = False
    guardrail_url: str | None = None
    guardrail_on_failure: str | None = None
    guardrail_timeout_seconds: float = 1.0
    hold_seconds: float = 0.0
    hold_requests: int = 1024
    retries: int = 2
    retry_budget: float = 0.2
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
    slow_start_seconds: float = 10.0
    gather_seconds: float = 0.001
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
        self._check_numbers()

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
    def guardrail(self) -> Guardrail | None:
        """The service that looks at each request; None where none does."""
        if self.guardrail_url is None:
            return None
        match = _GUARDRAIL.fullmatch(self.guardrail_url)
        address = _split_address(match[1]) if match is not None else None
        if match is None or address is None or address.port == 0:
            raise ConfigError("--guardrail-url", self.guardrail_url, "http://HOST:PORT/PATH of the service")
        open_ = self.guardrail_on_failure == "open"
        return Guardrail(address, match[2] or "/", self.guardrail_timeout_seconds, open_)

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

    def _check_numbers(self) -> None:
        at_least: tuple[tuple[str, float, float, str], ...] = (
            ("--retries", self.retries, 0, "0 or more further replicas to try"),
            ("--retry-budget", self.retry_budget, 0, "0 or more retries for each request, such as 0.2"),
            ("--stall-timeout-seconds", self.stall_timeout_seconds, 0, "0 or more seconds; 0 is never"),
            ("--slow-start-seconds", self.slow_start_seconds, 0, "0 or more seconds"),
            ("--gather-seconds", self.gather_seconds, 0, GATHER),
            (
                "--max-body-bytes",
                self.max_body_bytes,
                1024,
                "1024 or more bytes, to let a short prompt through",
            ),
            (
                "--max-head-bytes",
                self.max_head_bytes,
                1024,
                "1024 or more bytes, to let common headers through",
            ),
            (
                "--max-buffered-bytes",
                self.max_buffered_bytes,
                self.max_body_bytes,
                "at least --max-body-bytes, or no request of that size could be read",
            ),
            (
                "--index-bytes",
                self.index_bytes,
                64 * 1024,
                "65536 or more bytes of memory for the prefix index",
            ),
            ("--l1-tokens", self.l1_tokens, 0, "0 or more tokens that one engine's L1 keeps"),
            ("--drain-seconds", self.drain_seconds, 0, "0 or more seconds"),
            ("--lameduck-seconds", self.lameduck_seconds, 0, "0 or more seconds"),
            ("--hold-seconds", self.hold_seconds, 0, "0 or more seconds; 0 holds no request"),
            ("--hold-requests", self.hold_requests, 1, "1 or more requests"),
        )
        for setting, got, minimum, expected in at_least:
            if not got >= minimum:  # NaN, too, is not
                raise ConfigError(setting, got, expected)
        for setting, got, *_ in at_least:
            if setting.endswith("-bytes") and got > MAX_BYTES:
                raise ConfigError(setting, got, f"at most {MAX_BYTES} bytes, 1 TiB")
            if setting.endswith("-seconds") and got > MAX_SECONDS:
                raise ConfigError(setting, got, f"0 to {MAX_SECONDS} seconds, a day")
        if self.hold_seconds > self.response_timeout_seconds:
            raise ConfigError(
                "--hold-seconds",
                self.hold_seconds,
                f"at most --response-timeout, {self.response_timeout_seconds:g}, which ends a request before",
            )
        if self.gather_seconds > MAX_GATHER_SECONDS:
            raise ConfigError("--gather-seconds", self.gather_seconds, GATHER)
        positive = (
            ("--connect-timeout", self.connect_timeout_seconds),
            ("--response-timeout", self.response_timeout_seconds),
            ("--guardrail-timeout-seconds", self.guardrail_timeout_seconds),
            ("--read-timeout", self.read_timeout_seconds),
            ("--idle-timeout", self.idle_timeout_seconds),
            ("--health-interval", self.health_interval_seconds),
            ("--health-timeout", self.health_timeout_seconds),
            ("--discover-interval", self.discover_interval_seconds),
        )
        for setting, seconds in positive:
            if not 0 < seconds <= MAX_SECONDS:
                raise ConfigError(setting, seconds, f"more than 0 and at most {MAX_SECONDS} seconds, a day")

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
        return "" if self.workers is None else f"; {self.workers} worker process(es)"

    def _access_plan(self) -> str:
        return "" if self.access is None and self.api_keys is None else "; asks who asks, and how much"

    def _peers_plan(self) -> str:
        source = self.peers or ", ".join(self.peer)
        return f"; tells {source}, hears on {self.peer_listen}" if source else ""
