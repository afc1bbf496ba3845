"""Sizes of the cache tiers, and what tenants may keep in the shared one: `cache` of a deployment file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hypertier.catalog.cache_nodes import DEFAULT_FAMILY, FAMILIES
from hypertier.errors import ConfigError
from hypertier.spec.access import SECRET_NAME, TENANT, TENANT_FORM
from hypertier.spec.endpoint import L2_BACKENDS
from hypertier.spec.instance_group import KMS_KEY
from hypertier.spec.quantities import parse_bytes, parse_bytes_per_second, parse_seconds
from hypertier.spec.unique import check_unique
from hypertier.tier.address import parse_l2_url
from hypertier.tier.gate import MODES
from hypertier.tier.settings import MOST_CONNECTIONS, TierSettings
from hypertier.tier.tenants import LONGEST_TTL_SECONDS

SECRET_ARN = re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[!-~]{1,512}-\w{6}")
USUAL_MEMORY_PERCENT = 20
SMALLEST_QUOTA_BYTES = 64 * 2**20
LONGEST_TTL = "ten years at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class L1:
    """Host memory for KV cache per node: an amount, or `auto` for half of what the node has left."""

    size: str = "auto"

    def __post_init__(self) -> None:
        if self.size_bytes == 0:
            raise ConfigError(
                "cache.l1.size", self.size, "more than 0; a manifest that wants no L1 does not enable it"
            )

    @property
    def size_bytes(self) -> int | None:
        """Bytes per node, or None for `auto`."""
        return None if self.size == "auto" else parse_bytes("cache.l1.size", self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Tenant:
    """What one tenant may keep in L2 for each endpoint: `quota` of bytes, each for `ttl` since its last use.

    Without `quota` it shares what there is, without `ttl` it has the store's. The name `*` stands for every
    tenant without an entry, `-` for requests without a `cache_salt`.
    """

    name: str
    quota: str | None = None
    ttl: str | None = None

    def __post_init__(self) -> None:
        if not TENANT.fullmatch(self.name):
            raise ConfigError("cache.l2.tenants.name", self.name, TENANT_FORM)
        if self.quota_bytes is not None and 0 < self.quota_bytes < SMALLEST_QUOTA_BYTES:
            raise ConfigError(
                f"cache.l2.tenants.{self.name}.quota",
                self.quota,
                "64Mi or more, room for a few chunks, or 0 to store nothing",
            )
        if self.ttl_seconds == 0:
            raise ConfigError(
                f"cache.l2.tenants.{self.name}.ttl", self.ttl, "more than 0; to store nothing, quota: 0"
            )
        if (self.ttl_seconds or 0) > LONGEST_TTL_SECONDS:
            raise ConfigError(f"cache.l2.tenants.{self.name}.ttl", self.ttl, LONGEST_TTL)

    @property
    def quota_bytes(self) -> int | None:
        """The quota in bytes, None for no limit."""
        return None if self.quota is None else parse_bytes(f"cache.l2.tenants.{self.name}.quota", self.quota)

    @property
    def ttl_seconds(self) -> int | None:
        """The time to live in seconds, None for the store's."""
        return None if self.ttl is None else parse_seconds(f"cache.l2.tenants.{self.name}.ttl", self.ttl)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingStore:
    """A Valkey store that exists already, at `url`; its user and password lie in the secret `secret_arn`.

    `key_arn` is the customer key of the secret, where it has one. Its owner lets the nodes in.
    """

    url: str
    secret_arn: str
    key_arn: str | None = None

    def __post_init__(self) -> None:
        if parse_l2_url(self.url, "cache.l2.existing.url").is_daemon:
            raise ConfigError("cache.l2.existing.url", self.url, "rediss://HOST:PORT or redis://HOST:PORT")
        for key, arn, form, like in (
            ("secretArn", self.secret_arn, SECRET_ARN, "secretsmanager:REGION:ACCOUNT:secret:NAME-SUFFIX"),
            ("keyArn", self.key_arn, KMS_KEY, "kms:REGION:ACCOUNT:key/ID"),
        ):
            if arn is not None and not form.fullmatch(arn):
                raise ConfigError(f"cache.l2.existing.{key}", arn, f"the whole ARN, arn:aws:{like}")


@dataclass(frozen=True, slots=True, kw_only=True)
class L2:
    """The shared tier: an ElastiCache Valkey store of `bandwidth` and `size`, or HyperPod's tiered storage.

    `memory_percent` (tiered storage) is the share of each node's memory that HyperPod's daemon takes,
    `memory` an amount instead. With `kv_events` engines announce what they store there, beside what their GPU
    and L1 hold. They encrypt it with the `key` of `encryption_secret`, a Secret beside the endpoint, or with
    what a secret of Secrets Manager holds, by its ARN: 32 bytes in base64. An `existing` store is taken as it
    is, whatever its size. Raise `epoch` when weights change under an old name. `gate` says when engines ask
    it: `auto` where that is faster than computing, `open` always, `closed` never; a request waits
    `lookup_deadline_ms` for its answer. `connections` are how many each engine loads and stores by.
    """

    backend: str = "redis"
    bandwidth: str = "8GB/s"
    size: str = "1Ti"
    ttl: str = "24h"
    memory_percent: int = USUAL_MEMORY_PERCENT
    memory: str | None = None
    node_family: str = DEFAULT_FAMILY
    tenants: tuple[L2Tenant, ...] = ()
    kv_events: bool = False
    encryption_secret: str | None = None
    existing: ExistingStore | None = None
    epoch: int = 0
    gate: str = "auto"
    lookup_deadline_ms: int = 200
    connections: int = TierSettings.connections

    def __post_init__(self) -> None:
        if self.existing is not None and self.backend != "redis":
            raise ConfigError("cache.l2.existing", self.existing.url, f"none with backend {self.backend}")
        if self.epoch < 0:
            raise ConfigError("cache.l2.epoch", self.epoch, "0 or more; one more with each change of weights")
        if self.gate not in MODES:
            raise ConfigError("cache.l2.gate", self.gate, " or ".join(MODES))
        if not 1 <= self.lookup_deadline_ms <= 60_000:
            raise ConfigError("cache.l2.lookupDeadlineMs", self.lookup_deadline_ms, "1 to 60000 milliseconds")
        if not 1 <= self.connections <= MOST_CONNECTIONS:
            expected = f"1 to {MOST_CONNECTIONS}; each is a thread beside the engine's scheduler"
            raise ConfigError("cache.l2.connections", self.connections, expected)
        secret = self.encryption_secret
        if secret is not None and not (SECRET_NAME.fullmatch(secret) or self.encryption_secret_arn):
            raise ConfigError(
                "cache.l2.encryptionSecret",
                secret,
                "the name of a Secret in the endpoint's namespace, or the whole ARN of one of Secrets "
                "Manager, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-SUFFIX",
            )
        names = [tenant.name for tenant in self.tenants]
        check_unique("cache.l2.tenants", names)
        if names and self.backend == "tieredstorage":
            raise ConfigError(
                "cache.l2.tenants",
                names,
                "no tenants with backend tieredstorage: HyperPod's daemon removes no value when asked and "
                "knows no time to live",
            )
        if self.backend not in L2_BACKENDS:
            raise ConfigError("cache.l2.backend", self.backend, " or ".join(L2_BACKENDS))
        if self.node_family not in FAMILIES:
            raise ConfigError("cache.l2.nodeFamily", self.node_family, " or ".join(FAMILIES))
        if not 0 < self.memory_percent <= 100:
            raise ConfigError(
                "cache.l2.memoryPercent", self.memory_percent, "1 to 100, percent of a node's memory"
            )
        if self.memory is not None and self.memory_percent != USUAL_MEMORY_PERCENT:
            raise ConfigError("cache.l2.memory", self.memory, "no such key beside cache.l2.memoryPercent")
        if self.memory_bytes == 0:
            expected = "more than 0; a manifest that wants no L2 does not enable it"
            raise ConfigError("cache.l2.memory", self.memory, expected)
        for setting, written, amount in (
            ("cache.l2.bandwidth", self.bandwidth, self.bandwidth_bytes_per_second),
            ("cache.l2.size", self.size, self.size_bytes),
            ("cache.l2.ttl", self.ttl, self.ttl_seconds),
        ):
            if amount == 0:
                raise ConfigError(
                    setting, written, "more than 0; a manifest that wants no L2 does not enable it"
                )

        if self.ttl_seconds > LONGEST_TTL_SECONDS:
            raise ConfigError("cache.l2.ttl", self.ttl, LONGEST_TTL)

    @property
    def encryption_secret_arn(self) -> str | None:
        """The secret of Secrets Manager that holds the key, None where none of those does."""
        secret = self.encryption_secret
        return secret if secret is not None and SECRET_ARN.fullmatch(secret) else None

    @property
    def bandwidth_bytes_per_second(self) -> int:
        """What the store must deliver to all engines together, in bytes per second."""
        return parse_bytes_per_second("cache.l2.bandwidth", self.bandwidth)

    @property
    def size_bytes(self) -> int:
        """What the store must hold, in bytes."""
        return parse_bytes("cache.l2.size", self.size)

    @property
    def memory_bytes(self) -> int | None:
        """What tiered storage is to have of each node, in bytes; None where a percentage says so."""
        return None if self.memory is None else parse_bytes("cache.l2.memory", self.memory)

    @property
    def ttl_seconds(self) -> int:
        """How long an entry lives without being read, in seconds."""
        return parse_seconds("cache.l2.ttl", self.ttl)


def check_tenants_of(l2: L2, serving: str, *, shared_cache: bool) -> None:
    """Refuse what would be without effect where requests are served so.

    Raises:
        ConfigError: names the key of the deployment file.
    """
    names = [tenant.name for tenant in l2.tenants]
    if serving == "operator" and names:
        raise ConfigError("cache.l2.tenants", names, "none with serving: operator, whose engines run LMCache")
    if serving == "operator" and l2.kv_events:
        raise ConfigError(
            "cache.l2.kvEvents", True, "false with serving: operator, whose engines run LMCache"
        )
    if serving == "operator" and l2.encryption_secret is not None:
        raise ConfigError(
            "cache.l2.encryptionSecret",
            l2.encryption_secret,
            "none with serving: operator, whose engines run LMCache",
        )
    if serving == "operator" and l2.existing is not None:
        raise ConfigError(
            "cache.l2.existing",
            l2.existing.url,
            "none with serving: operator, which can't be handed a password: its store stands in the manifest",
        )
    usual = L2()
    for key, got, default in (
        ("epoch", l2.epoch, usual.epoch),
        ("gate", l2.gate, usual.gate),
        ("lookupDeadlineMs", l2.lookup_deadline_ms, usual.lookup_deadline_ms),
        ("connections", l2.connections, usual.connections),
    ):
        if serving == "operator" and got != default:
            expected = "no such key with serving: operator, whose engines run LMCache"
            raise ConfigError(f"cache.l2.{key}", got, expected)
    if shared_cache and set(names) - {"-"}:
        raise ConfigError(
            "cache.l2.tenants",
            names,
            "none but `-` with access.sharedCache: true, by which no request has a cache_salt",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTiers:
    """The sizes of both tiers; which of them an endpoint uses is said by its manifest."""

    l1: L1 = field(default_factory=L1)
    l2: L2 = field(default_factory=L2)
