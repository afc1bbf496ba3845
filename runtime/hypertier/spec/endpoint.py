"""AWS's `InferenceEndpointConfig` v1 as frozen typed values.

Fields carry the manifest's names in snake_case and hold what was written: None means that the manifest
does not have the field. What then holds is said by the properties (`kv_cache.l1_enabled`).
Schema: `inferenceendpointconfigs.inference.sagemaker.aws.amazon.com`, operator 3.2
(https://github.com/aws/sagemaker-hyperpod-cli, helm_chart/HyperPodHelmChart, read 2026-12-01).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from hypertier.errors import ConfigError
from hypertier.spec import codec

API_GROUP = "inference.sagemaker.aws.amazon.com"
API_VERSION = f"{API_GROUP}/v1"
KIND = "InferenceEndpointConfig"

ROUTING_STRATEGIES = ("prefixaware", "kvaware", "roundrobin", "session")
L2_BACKENDS = ("tieredstorage", "redis")
GPU_RESOURCE = "nvidia.com/gpu"

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The Kubernetes object's name and place."""

    name: str
    namespace: str | None = None
    labels: Raw | None = None
    annotations: Raw | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class L2CacheSpec:
    """The shared tier: `l2_cache_backend` is `tieredstorage` or `redis`; the URL goes with `redis` alone."""

    l2_cache_backend: str | None = None
    l2_cache_local_url: str | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCacheSpec:
    """Which tiers of KV cache an endpoint has beside the GPU's own."""

    enable_l1_cache: bool | None = None
    enable_l2_cache: bool | None = None
    l2_cache_spec: L2CacheSpec | None = None
    cache_config_file: str | None = None
    unknown: Raw = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudWatchDimension:
    """One name and value of a CloudWatch metric's dimensions."""

    name: str
    value: str
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudWatchTrigger:
    """KEDA's CloudWatch trigger. Periods in seconds."""

    name: str | None = None
    namespace: str | None = None
    metric_name: str | None = None
    dimensions: tuple[CloudWatchDimension, ...] | None = None
    metric_stat: str | None = None
    metric_type: str | None = None
    metric_collection_period: int | None = None
    metric_collection_start_time: int | None = None
    min_value: float | None = None
    target_value: float | None = None
    activation_target_value: float | None = None
    use_cached_metrics: bool | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusTrigger:
    """KEDA's Prometheus trigger, against Amazon Managed Service for Prometheus alone."""

    name: str | None = None
    server_address: str | None = None
    query: str | None = None
    target_value: float | None = None
    metric_type: str | None = None
    namespace: str | None = None
    custom_headers: str | None = None
    activation_target_value: float | None = None
    use_cached_metrics: bool | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoScalingSpec:
    """How many pods, by which signal. Periods in seconds."""

    min_replica_count: int | None = None
    max_replica_count: int | None = None
    polling_interval: int | None = None
    cooldown_period: int | None = None
    initial_cooldown_period: int | None = None
    scale_down_stabilization_time: int | None = None
    scale_up_stabilization_time: int | None = None
    cloud_watch_trigger: CloudWatchTrigger | None = None
    cloud_watch_trigger_list: tuple[CloudWatchTrigger, ...] | None = None
    prometheus_trigger: PrometheusTrigger | None = None
    prometheus_trigger_list: tuple[PrometheusTrigger, ...] | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelligentRoutingSpec:
    """Whether a router stands in front, and how it chooses a replica."""

    enabled: bool | None = None
    routing_strategy: str | None = None
    auto_scaling_spec: AutoScalingSpec | None = None
    unknown: Raw = field(default_factory=dict)

    @property
    def strategy(self) -> str | None:
        """The strategy in force: `prefixaware` unless another is named, None while routing is off."""
        return (self.routing_strategy or "prefixaware") if self.enabled else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetrics:
    """Where the engine serves its Prometheus metrics."""

    path: str | None = None
    port: int | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Scraping of the engine's metrics; on by default, every 15 seconds, port 8080."""

    enabled: bool | None = None
    metrics_scrape_interval_seconds: int | None = None
    model_metrics: ModelMetrics | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancer:
    """The load balancer's health check (default `/ping`) and algorithm."""

    health_check_path: str | None = None
    routing_algorithm: str | None = None
    idle_timeout_seconds: int | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCertificateConfig:
    """A certificate of one's own."""

    acm_arn: str
    domain_name: str
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Where the operator's certificate is written, or which one is used instead."""

    tls_certificate_output_s3_uri: str | None = None
    custom_certificate_config: CustomCertificateConfig | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsConfig:
    """The Route 53 zone for the endpoint's domain."""

    hosted_zone_id: str
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Storage:
    """The bucket of the weights."""

    bucket_name: str
    region: str
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FsxStorage:
    """The FSx for Lustre file system of the weights."""

    file_system_id: str
    dns_name: str | None = None
    mount_name: str | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """A key of a Kubernetes Secret in the endpoint's namespace."""

    name: str | None = None
    key: str | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceModel:
    """A repository on Hugging Face, pinned to a commit of 40 hex digits."""

    model_id: str
    commit_sha: str | None = field(default=None, metadata={"manifest": "commitSHA"})
    token_secret_ref: SecretRef | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSourceConfig:
    """Where the weights come from: `model_source_type` is s3, fsx, huggingface or kubernetesVolume."""

    model_source_type: str
    model_location: str | None = None
    prefetch_enabled: bool | None = None
    s3_storage: S3Storage | None = None
    fsx_storage: FsxStorage | None = None
    hugging_face_model: HuggingFaceModel | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """One variable of the engine: a value, or where it comes from."""

    name: str
    value: str | None = None
    value_from: Raw | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInvocationPort:
    """The port that the engine listens on."""

    container_port: int
    name: str | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVolumeMount:
    """Where the weights appear inside the container; /opt/ml/model by default."""

    name: str
    mount_path: str | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the engine's container asks for, as Kubernetes quantities."""

    requests: Raw | None = None
    limits: Raw | None = None
    claims: tuple[Raw, ...] | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How much the pod's proxy lets in before it answers `overflow_status_code`."""

    max_concurrent_requests: int | None = None
    max_queue_size: int | None = None
    overflow_status_code: int | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Kubernetes probes of the engine's container."""

    liveness_probe: Raw | None = None
    readiness_probe: Raw | None = None
    startup_probe: Raw | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The engine's container."""

    image: str
    model_invocation_port: ModelInvocationPort
    model_volume_mount: ModelVolumeMount
    resources: Resources
    args: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    working_dir: str | None = None
    environment_variables: tuple[EnvironmentVariable, ...] | None = None
    probes: Probes | None = None
    request_limits: RequestLimits | None = None
    unknown: Raw = field(default_factory=dict)

    def environment_value(self, name: str) -> str | None:
        """The plain value of an environment variable, or None."""
        return next((entry.value for entry in self.environment_variables or () if entry.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """An AWS tag."""

    name: str
    value: str
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpointSpec:
    """`spec` of an InferenceEndpointConfig. Subtrees that hypertier only hands on stay as plain mappings."""

    model_name: str
    model_source_config: ModelSourceConfig
    worker: Worker
    endpoint_name: str | None = None
    initial_replica_count: int | None = field(default=None, metadata={"manifest": "InitialReplicaCount"})
    replicas: int | None = None
    model_version: str | None = None
    instance_type: str | None = None
    instance_types: tuple[str, ...] | None = None
    node_affinity: Raw | None = None
    invocation_endpoint: str | None = None
    max_deploy_time_in_seconds: int | None = None
    tags: tuple[Tag, ...] | None = None
    kv_cache_spec: KvCacheSpec | None = None
    intelligent_routing_spec: IntelligentRoutingSpec | None = None
    auto_scaling_spec: AutoScalingSpec | None = None
    metrics: Metrics | None = None
    load_balancer: LoadBalancer | None = None
    tls_config: TlsConfig | None = None
    dns_config: DnsConfig | None = None
    data_capture: Raw | None = None
    kubernetes: Raw | None = None
    pd_spec: Raw | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpointConfig:
    """One endpoint as AWS documents it: a model, its engine, its cache tiers and its routing.

    >>> config = InferenceEndpointConfig.from_manifest(yaml.safe_load(text))
    >>> config.to_manifest() == yaml.safe_load(text)
    True
    """

    metadata: Metadata
    spec: InferenceEndpointSpec
    api_version: str = API_VERSION
    kind: str = KIND
    status: Raw | None = None
    unknown: Raw = field(default_factory=dict)

    @classmethod
    def from_manifest(cls, manifest: Any) -> Self:
        """Read a manifest of kind `InferenceEndpointConfig`.

        Raises:
            ConfigError: for another kind, or the first field of a wrong type, by its path.
        """
        kind = manifest.get("kind") if isinstance(manifest, Mapping) else None
        if kind != KIND:
            raise ConfigError("kind", kind, f"{KIND}, the one kind of endpoint manifest that can be served")
        return codec.decode_or_raise(cls, manifest)

    def to_manifest(self) -> dict[str, Any]:
        """The manifest that this value was read from, or would be written as."""
        encoded: dict[str, Any] = codec.encode(self)
        return {"apiVersion": encoded.pop("apiVersion"), "kind": encoded.pop("kind")} | encoded

    @property
    def name(self) -> str:
        """The endpoint's Kubernetes name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The endpoint's Kubernetes namespace."""
        return self.metadata.namespace or "default"

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
