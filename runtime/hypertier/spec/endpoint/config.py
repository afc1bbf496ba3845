"""The endpoint as a whole."""

from dataclasses import dataclass, field

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint.kv_cache import KvCacheSpec
from hypertier.spec.endpoint.manifest import EndpointManifest, Part, Raw
from hypertier.spec.endpoint.pods import Kubernetes, PdSpec
from hypertier.spec.endpoint.served import ServedSpec
from hypertier.spec.endpoint.weights import ModelCacheConfig, ModelSourceConfig
from hypertier.spec.endpoint.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag(Part):
    """An AWS tag."""

    name: str = field(metadata=about("Key of the tag."))
    value: str = field(metadata=about("Value of the tag."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lmcache(Part):
    """How LMCache runs."""

    mode: str | None = optional(
        "InProcess, or MultiProcess with a server beside the engine.", choices=["InProcess", "MultiProcess"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpointSpec(ServedSpec):
    """`spec` of an InferenceEndpointConfig. Subtrees that are handed on as they are stay plain mappings."""

    model_name: str = field(
        metadata=about(
            "Name of the model in SageMaker and in metrics.",
            max_length=63,
            pattern="^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}",
            like="letters, digits and hyphens, a letter or digit first",
        )
    )
    model_source_config: ModelSourceConfig = field(metadata=about("Where the weights come from."))
    worker: Worker = field(metadata=about("The engine's container."))
    endpoint_name: str | None = optional(
        "SageMaker endpoint to create; none where empty.",
        max_length=63,
        pattern="^$|^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
        like="letters, digits and hyphens",
    )
    initial_replica_count: int | None = optional(
        "Has no effect; replicas does.", manifest="InitialReplicaCount"
    )
    model_version: str | None = optional("Version of the model in the SageMaker endpoint.")
    instance_type: str | None = optional(
        "The one instance type; else instanceTypes or nodeAffinity.",
        pattern="^ml\\..*",
        like="an instance type that begins with ml.",
    )
    instance_types: tuple[str, ...] | None = optional("Instance types in order of preference.", alpha=False)
    node_affinity: Raw | None = optional("Kubernetes' node affinity, instead of instance types.", alpha=False)
    invocation_endpoint: str | None = optional(
        "Path of the engine that requests go to, such as v1/chat/completions; invocations by default."
    )
    max_deploy_time_in_seconds: int | None = optional(
        "Seconds until a deployment counts as failed; 3600 by default.", alpha=False
    )
    tags: tuple[Tag, ...] | None = optional("Tags of the SageMaker endpoint.")
    kubernetes: Raw | None = optional("What is added to the pod.", alpha=False, shape=Kubernetes)
    pd_spec: Raw | None = optional("Disaggregated prefill and decode.", alpha=False, shape=PdSpec)
    model_cache_config: ModelCacheConfig | None = optional(
        "What nodes keep for the next start.", since="3.3", alpha=False
    )
    lmcache: Lmcache | None = optional("How LMCache runs.", since="3.7", alpha=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpointConfig(EndpointManifest):
    """One endpoint as AWS documents it: a model, its engine, its cache tiers and its routing.

    >>> config = InferenceEndpointConfig.from_manifest(yaml.safe_load(text))
    >>> config.to_manifest() == yaml.safe_load(text)
    True
    """

    spec: InferenceEndpointSpec = field(metadata=about("The endpoint."))
    kind: str = field(default="InferenceEndpointConfig", metadata=about("The kind of this document."))

    @property
    def kv_cache(self) -> KvCacheSpec:
        """The cache tiers asked for; L1 and L2 are both off where the manifest has no `kvCacheSpec`."""
        return self.spec.kv_cache_spec or KvCacheSpec(enable_l1_cache=False, enable_l2_cache=False)

    @property
    def routing_strategy(self) -> str | None:
        """The router's strategy, or None where intelligent routing is off."""
        routing = self.spec.intelligent_routing_spec
        return routing.strategy if routing else None

    @property
    def replicas(self) -> int:
        """Engine pods asked for: `replicas`, else the autoscaler's minimum, else 1."""
        if self.spec.replicas is not None:
            return self.spec.replicas
        scaling = self.spec.auto_scaling_spec
        return (scaling.min_replica_count if scaling else None) or 1

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Instance types in order of preference; empty where `nodeAffinity` chooses."""
        if self.spec.instance_type is not None:
            return (self.spec.instance_type,)
        return self.spec.instance_types or ()
