"""Which tiers of KV cache an endpoint has."""

from dataclasses import dataclass

from hypertier.spec.about import optional
from hypertier.spec.endpoint.manifest import Part

L2_BACKENDS = ("tieredstorage", "redis")


@dataclass(frozen=True, slots=True, kw_only=True)
class L2CacheSpec(Part):
    """The shared tier: `l2_cache_backend` is `tieredstorage` or `redis`; the URL goes with `redis` alone."""

    l2_cache_backend: str | None = optional(
        "redis or tieredstorage.", pattern="(?i)redis|tieredstorage", like="redis or tieredstorage"
    )
    l2_cache_local_url: str | None = optional(
        "Address of the Redis or Valkey store, such as rediss://HOST:6379; with redis alone."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCacheSpec(Part):
    """Which tiers of KV cache an endpoint has beside the GPU's own."""

    enable_l1_cache: bool | None = optional(
        "Host memory of the node; on by default once kvCacheSpec is there."
    )
    enable_l2_cache: bool | None = optional("A store that all replicas share; off by default.")
    l2_cache_spec: L2CacheSpec | None = optional("The shared store.")
    cache_config_file: str | None = optional(
        "Path of an LMCache configuration; overrides everything else here."
    )

    @property
    def l1_enabled(self) -> bool:
        """On unless switched off: the CRD's default once `kvCacheSpec` is there."""
        return self.enable_l1_cache is not False

    @property
    def l2_enabled(self) -> bool:
        """Off unless switched on."""
        return self.enable_l2_cache is True

    @property
    def l2_backend(self) -> str | None:
        """`tieredstorage` or `redis`, or None where L2 is off or names no backend."""
        if not self.l2_enabled or self.l2_cache_spec is None:
            return None
        return self.l2_cache_spec.l2_cache_backend
