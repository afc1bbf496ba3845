"""Who may ask an endpoint and how much: the `access` section of a deployment file and of the router's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.quantities import parse_seconds
from hypertier.spec.source import read_documents, read_text
from hypertier.spec.unique import check_unique

# Of RFC 7518 section 3.1 and RFC 8037: those whose verifier holds no secret. HS* and none are not among them.
ASYMMETRIC = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
TENANT = re.compile(r"[!-~]([ -~]{0,126}[!-~])?")
TENANT_FORM = "1 to 128 printable characters of ASCII, none of them a space at either end"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (read 2026-12-01)
SECRET_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
MAX_LIMIT = 10**12
# A path of RFC 3986 section 3.3: `/`, and the characters of its segments.
_PATH = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantDefault:
    """What holds for a tenant without an entry of its own; None is no limit.

    `weight` is its share of the engines while requests wait, compared with the others of its `priority`.
    Lower priorities go first, as in vLLM.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None
    weight: float = 1.0
    priority: int = 0

    def __post_init__(self) -> None:
        _check_tenant("access.default", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant(TenantDefault):
    """A tenant, by the name that its keys and its JWTs carry."""

    name: str

    def __post_init__(self) -> None:
        if not TENANT.fullmatch(self.name):
            raise ConfigError("access.tenants.name", self.name, TENANT_FORM)
        _check_tenant(f"access.tenants.{self.name}", self)


def limits_of(tenant: TenantDefault) -> Iterator[tuple[str, int | None]]:
    """Each limit by its key."""
    yield "requestsPerMinute", tenant.requests_per_minute
    yield "tokensPerMinute", tenant.tokens_per_minute
    yield "concurrentRequests", tenant.concurrent_requests


def _check_tenant(setting: str, tenant: TenantDefault) -> None:
    for key, limit in limits_of(tenant):
        if limit is not None and not 1 <= limit <= MAX_LIMIT:
            raise ConfigError(f"{setting}.{key}", limit, f"1 to {MAX_LIMIT}, or no such key for no limit")
    if not 0.001 <= tenant.weight <= 1000:
        raise ConfigError(f"{setting}.weight", tenant.weight, "0.001 to 1000, the others' being 1")
    if not -1000 <= tenant.priority <= 1000:
        raise ConfigError(f"{setting}.priority", tenant.priority, "-1000 to 1000, lower ones go first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt:
    """Whose JWTs are taken, beside API keys: those of `issuer` for `audience`, signed with a key of `jwks`.

    `jwks` is an https URL, or a path, of a JWK Set. `tenant_claim` names the tenant. `leeway` is how far
    clocks may differ.
    """

    jwks: str
    issuer: str
    audience: str
    tenant_claim: str = "sub"
    algorithms: tuple[str, ...] = ASYMMETRIC
    leeway: str = "60s"

    def __post_init__(self) -> None:
        for key, text in (
            ("jwks", self.jwks),
            ("issuer", self.issuer),
            ("audience", self.audience),
            ("tenantClaim", self.tenant_claim),
        ):
            if not text:
                raise ConfigError(f"access.jwt.{key}", text, "a text that is not empty")
        self._check_jwks()
        for algorithm in self.algorithms or (None,):
            if algorithm not in ASYMMETRIC:
                raise ConfigError(
                    "access.jwt.algorithms",
                    list(self.algorithms),
                    f"some of {', '.join(ASYMMETRIC)}: whoever can check any other could also sign",
                )
        if self.leeway_seconds > 600:
            raise ConfigError("access.jwt.leeway", self.leeway, "at most 10m")

    def _check_jwks(self) -> None:
        parts = urlsplit(self.jwks)
        is_web = parts.scheme in ("http", "https")
        if (is_web and not parts.hostname) or ("://" in self.jwks and not is_web):
            raise ConfigError("access.jwt.jwks", self.jwks, "an https URL or a path of a JWK Set")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ConfigError(
                "access.jwt.jwks", self.jwks, "https: whoever changes the keys on their way signs for anyone"
            )
        if parts.username is not None:
            raise ConfigError("access.jwt.jwks", "a URL with a user", "one without: the file is no secret")

    @property
    def jwks_is_url(self) -> bool:
        """It is fetched, not read from a file."""
        return self.jwks.startswith(("http://", "https://"))

    @property
    def leeway_seconds(self) -> int:
        """How far clocks may differ."""
        return parse_seconds("access.jwt.leeway", self.leeway)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Requests wait in the router once engines have as many as they should, each tenant in a line of its own.

    `max_in_flight_per_replica` counts those of all routers together; `size` is how many may wait in one
    router for models that share replicas, and `timeout` how long.
    """

    max_in_flight_per_replica: int
    size: int = 1024
    timeout: str = "30s"

    def __post_init__(self) -> None:
        for key, number in (
            ("maxInFlightPerReplica", self.max_in_flight_per_replica),
            ("size", self.size),
        ):
            if not 1 <= number <= 1_000_000:
                raise ConfigError(f"access.queue.{key}", number, "1 to 1000000 requests")
        if not 1 <= self.timeout_seconds <= 3600:
            raise ConfigError("access.queue.timeout", self.timeout, "1s to 1h")

    @property
    def timeout_seconds(self) -> int:
        """How long a request may wait."""
        return parse_seconds("access.queue.timeout", self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may ask, how much, and when it is their turn.

    `secret_name` is the Kubernetes Secret with the files `keys` and `salt-key`: API keys, and what tenants'
    salts are made with; a router outside of Kubernetes has flags for them. With `shared_cache` tenants find
    what others have cached, and no salt is written. `paths` are paths of engines that tenants may ask beside
    those of OpenAI's API; one that ends with `/` stands for all below it.
    """

    secret_name: str | None = None
    jwt: Jwt | None = None
    tenants: tuple[Tenant, ...] = ()
    default: TenantDefault = field(default_factory=TenantDefault)
    queue: Queue | None = None
    shared_cache: bool = False
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.secret_name is not None and not SECRET_NAME.fullmatch(self.secret_name):
            raise ConfigError(
                "access.secretName", self.secret_name, "a name in Kubernetes: lower case, digits, - and ."
            )
        for path in self.paths:
            if not _PATH.fullmatch(path):
                raise ConfigError(
                    "access.paths",
                    path,
                    "a path of engines, such as /tokenizer_info: / and what RFC 3986 allows in a path, which "
                    "no client could ask for otherwise",
                )
        check_unique("access.tenants", (tenant.name for tenant in self.tenants))


def check_deployed(access: Access, serving: str) -> None:
    """Refuse what routers in Kubernetes could not keep.

    Raises:
        ConfigError: names the key of the deployment file.
    """
    if serving != "selfhosted":
        raise ConfigError("access", "a section", "none with serving: operator, whose router asks nobody")
    if access.secret_name is not None:
        return
    if access.jwt is not None and not access.shared_cache:
        raise ConfigError(
            "access.secretName",
            None,
            "a Secret with the files salt-key and keys (it may be empty), to keep tenants' cache apart; or "
            "access.sharedCache: true",
        )
    if access.tenants and access.jwt is None:
        raise ConfigError(
            "access.secretName", None, "a Secret with the files keys and salt-key, which tell tenants apart"
        )


def load_access(path: Path | str, setting: str) -> Access:
    """Read the `access` section of a file, which may be a deployment file.

    Raises:
        ManifestError: the file is missing or no YAML.
        ConfigError: a setting that cannot work, or no `access` at all, naming the flag `setting`.
    """
    documents = read_documents(read_text(str(path)), str(path))
    data: Any = documents[0].data if len(documents) == 1 else None
    if not isinstance(data, dict) or "access" not in data:
        raise ConfigError(setting, str(path), "a YAML file with the section access:")
    written = {} if data["access"] is None else data["access"]
    return codec.decode_or_raise(Access, written, "access")
