"""How the routers of a deployment run: the `routing` section, what the endpoint manifest has no field for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypertier.errors import ConfigError
from hypertier.guardrail_url import read_guardrail_url
from hypertier.spec.access import SECRET_NAME
from hypertier.spec.quantities import parse_bytes, parse_seconds

# As the router's own flags have them: `hypertier router --help`.
OTLP_ENDPOINT = re.compile(r"https?://([^/?#\s@:\[\]]+|\[[0-9a-fA-F:.]+\])(:(?P<port>[0-9]{1,5}))?/?")
MODEL = re.compile(r"[A-Za-z0-9._:/@+-]{1,200}")
KIND = re.compile(r"[A-Za-z]{1,63}")
MAX_CPUS = 64
BALANCER_IDLE_SECONDS = 1800
"""Silence after which a load balancer before routers cuts, where a manifest does not say: the routers' own
patience with a silent engine. AWS's default is 60."""
ENGINE_TLS_ARGUMENTS = frozenset(
    {
        "--ssl-certfile",
        "--ssl-keyfile",
        "--ssl-ca-certs",
        "--ssl-cert-reqs",
        "--ssl-ciphers",
        "--enable-ssl-refresh",
        "--no-enable-ssl-refresh",
    }
)
"""vLLM's own (0.32), which `engineTls` sets for all that speak to engines as well."""
MIN_REPLICAS = 2  # one may go at any time


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """Routers serve clients by TLS, with `tls.crt` and `tls.key` of a Secret beside the endpoint.

    cert-manager makes such Secrets, AWS Private CA's issuer among its issuers, and so can whatever else.
    """

    secret_name: str

    def __post_init__(self) -> None:
        check_secret("routing.tls.secretName", self.secret_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerRef:
    """Who signs, as cert-manager names it: an Issuer of the endpoint's namespace, or a ClusterIssuer."""

    name: str
    kind: str = "Issuer"
    group: str = "cert-manager.io"

    def __post_init__(self) -> None:
        written = {"name": self.name, "kind": self.kind, "group": self.group}
        for key, text in written.items():
            if not (KIND if key == "kind" else SECRET_NAME).fullmatch(text):
                raise ConfigError(
                    f"routing.engineTls.issuerRef.{key}",
                    text,
                    "an issuer of cert-manager's, such as {name: internal-ca, kind: ClusterIssuer}",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTls:
    """Engines serve routers and the exporter by TLS, with `tls.crt`, `tls.key` and `ca.crt` of a Secret.

    The Secret is NAME-engine-tls of the endpoint's namespace, unless `secret_name` says otherwise, and in its
    certificate stands NAME-engine.NAMESPACE.svc, or `server_name`. With `mutual` engines ask for one in turn,
    that of the Secret NAME-client-tls, or `client_secret_name`. With `issuer_ref` cert-manager makes the
    Secrets; without, they are there.
    """

    secret_name: str | None = None
    server_name: str | None = None
    mutual: bool = False
    client_secret_name: str | None = None
    issuer_ref: IssuerRef | None = None

    def __post_init__(self) -> None:
        names = (("secretName", self.secret_name), ("clientSecretName", self.client_secret_name))
        for key, name in names:
            if name is not None:
                check_secret(f"routing.engineTls.{key}", name)
                if self.issuer_ref is not None:
                    expected = (
                        "no such key with issuerRef, by which each endpoint's Secrets get names of their own"
                    )
                    raise ConfigError(f"routing.engineTls.{key}", name, expected)
        if self.client_secret_name is not None and not self.mutual:
            raise ConfigError(
                "routing.engineTls.clientSecretName", self.client_secret_name, "mutual: true beside it"
            )
        if self.server_name is not None and not SECRET_NAME.fullmatch(self.server_name):
            raise ConfigError("routing.engineTls.serverName", self.server_name, "a DNS name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """Where OpenTelemetry traces go, by HTTP; `sample_ratio` of requests that bring no trace get one."""

    endpoint: str
    sample_ratio: float = 0.01

    def __post_init__(self) -> None:
        match = OTLP_ENDPOINT.fullmatch(self.endpoint)
        if match is None or not 1 <= int(match["port"] or 80) <= 65535:
            raise ConfigError(
                "routing.tracing.endpoint",
                self.endpoint,
                "http://HOST:4318 of a collector that takes OTLP by HTTP",
            )
        if not 0 <= self.sample_ratio <= 1:
            raise ConfigError("routing.tracing.sampleRatio", self.sample_ratio, "0.0 to 1.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """A service of the operator's that routers ask about each request, and what holds while it fails."""

    url: str
    on_failure: str
    timeout: str = "1s"

    def __post_init__(self) -> None:
        read_guardrail_url("routing.guardrail.url", self.url)
        if self.on_failure not in ("open", "closed"):
            expected = "open, to let requests pass while the service fails, or closed, to refuse them"
            raise ConfigError("routing.guardrail.onFailure", self.on_failure, expected)
        if not 1 <= self.timeout_seconds <= 60:
            raise ConfigError(
                "routing.guardrail.timeout", self.timeout, "1s to 60s, which each request may wait"
            )

    @property
    def timeout_seconds(self) -> int:
        """How long it may take to answer."""
        return parse_seconds("routing.guardrail.timeout", self.timeout)

    @property
    def port(self) -> int:
        """Where it listens."""
        return read_guardrail_url("routing.guardrail.url", self.url)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The most that a router takes and keeps: a request's body and head, all bodies together, the index."""

    max_body: str = "64Mi"
    max_head: str = "64Ki"
    max_buffered: str = "1Gi"
    index: str = "128Mi"

    def __post_init__(self) -> None:
        least = (("maxBody", 1024), ("maxHead", 1024), ("maxBuffered", self.bytes_of("maxBody")))
        for key, minimum in (*least, ("index", 64 * 1024)):
            if self.bytes_of(key) < minimum:
                raise ConfigError(f"routing.sizes.{key}", self._written(key), f"{minimum} bytes or more")

    def bytes_of(self, key: str) -> int:
        """One of them in bytes, by its key in the file."""
        return parse_bytes(f"routing.sizes.{key}", self._written(key))

    def _written(self, key: str) -> str:
        written = {
            "maxBody": self.max_body,
            "maxHead": self.max_head,
            "maxBuffered": self.max_buffered,
            "index": self.index,
        }
        return written[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long a router waits: for engines, for clients (`read`, `idle`), and to leave (`drain`)."""

    connect: str = "3s"
    response: str = "30m"
    stall: str = "5m"
    stream_idle: str = "1m"
    slow_start: str = "10s"
    read: str = "30s"
    idle: str = "75s"
    drain: str = "5m"
    health: str = "5s"
    health_interval: str = "1s"

    def __post_init__(self) -> None:
        for key, written, least in self._rows():
            if not least <= parse_seconds(f"routing.timeouts.{key}", written) <= 86_400:
                raise ConfigError(f"routing.timeouts.{key}", written, f"{least}s to 24h")

    def _rows(self) -> tuple[tuple[str, str, int], ...]:
        return (
            ("connect", self.connect, 1),
            ("response", self.response, 1),
            ("stall", self.stall, 0),
            ("streamIdle", self.stream_idle, 0),
            ("slowStart", self.slow_start, 0),
            ("read", self.read, 1),
            ("idle", self.idle, 1),
            ("drain", self.drain, 0),
            ("health", self.health, 1),
            ("healthInterval", self.health_interval, 1),
        )

    def seconds(self, key: str) -> int:
        """One of them in seconds, by its key in the file."""
        (written,) = [text for name, text, _ in self._rows() if name == key]
        return parse_seconds(f"routing.timeouts.{key}", written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a request is sent again before its first byte, and how many are for each of the last 10 s.

    A stream that breaks off after it is gone on with elsewhere `migrations` times at most.
    """

    per_request: int = 2
    budget: float = 0.2
    migrations: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.per_request <= 100:
            raise ConfigError("routing.retries.perRequest", self.per_request, "0 to 100 further replicas")
        if not 0 <= self.budget <= 100:
            raise ConfigError(
                "routing.retries.budget", self.budget, "0 to 100 retries a request, such as 0.2"
            )
        if not 0 <= self.migrations <= 100:
            raise ConfigError(
                "routing.retries.migrations", self.migrations, "0 to 100 further replicas; 0 is off"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The routers of each endpoint: how many, on how many CPUs (a process on each), and with which flags.

    `model_aliases` are other names by which clients may ask for a model: name -> model, for the endpoint that
    serves it. With `busy_polling` they never sleep while clients are connected, and use all of those CPUs.
    With `explain_on_request` answers to requests with `x-hypertier-explain` tell the choice. With
    `redact_captures` a manifest's `dataCapture` captures lengths in place of what people and models said.
    """

    replicas: int = MIN_REPLICAS
    cpus: int = 1
    busy_polling: bool = False
    tls: ClientTls | None = None
    engine_tls: EngineTls | None = None
    tracing: Tracing | None = None
    guardrail: Guardrail | None = None
    model_aliases: Mapping[str, str] = field(default_factory=dict)
    explain_on_request: bool = False
    redact_captures: bool = False
    sizes: Sizes = field(default_factory=Sizes)
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)

    def __post_init__(self) -> None:
        if not MIN_REPLICAS <= self.replicas <= 64:
            expected = f"{MIN_REPLICAS} to 64: one may go at any time"
            raise ConfigError("routing.replicas", self.replicas, expected)
        if not 1 <= self.cpus <= MAX_CPUS:
            raise ConfigError("routing.cpus", self.cpus, f"1 to {MAX_CPUS} CPUs of each router")
        if self.sizes.bytes_of("maxBuffered") < self.sizes.bytes_of("maxBody") * self.cpus:
            raise ConfigError(
                "routing.sizes.maxBuffered",
                self.sizes.max_buffered,
                f"routing.sizes.maxBody for each of {self.cpus} processes, one a CPU, who divide it",
            )
        for name, model in self.model_aliases.items():
            named = isinstance(model, str) and MODEL.fullmatch(name) and MODEL.fullmatch(model)
            if not named or name == model:
                raise ConfigError(
                    f"routing.modelAliases.{name}",
                    model,
                    "a model that is served, by another name than its own",
                )


def check_secret(setting: str, name: str) -> None:
    """Refuse what no Secret can be called. Raises ConfigError naming `setting`."""
    if not SECRET_NAME.fullmatch(name):
        raise ConfigError(setting, name, "the name of a Secret in the endpoint's namespace")


def check_routing(routing: Routing, serving: str) -> None:
    """Refuse settings of routers that are not ours. Raises ConfigError."""
    if serving == "operator" and routing != Routing():
        raise ConfigError(
            "routing",
            "a section",
            "none with serving: operator, whose router takes no settings but the manifest's",
        )
