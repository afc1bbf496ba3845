"""AWS's `InferenceEndpointConfig` v1 as frozen typed values.

Fields carry the manifest's names in snake_case and hold what was written: None means that the manifest
does not have the field. What then holds is said by the properties (`kv_cache.l1_enabled`).
Fields of operators after 3.2 and what `v1alpha1` lacks are marked so.
Schema: `inferenceendpointconfigs.inference.sagemaker.aws.amazon.com`, operator 3.2
(https://github.com/aws/sagemaker-hyperpod-cli, helm_chart/HyperPodHelmChart, read 2026-12-01).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.about import about, optional

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

    name: str = field(metadata=about("The object's name, unique in its namespace."))
    namespace: str | None = optional("The namespace; default where none is written.")
    labels: Raw | None = optional("Labels of the object.")
    annotations: Raw | None = optional("Annotations of the object.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class L2CacheSpec:
    """The shared tier: `l2_cache_backend` is `tieredstorage` or `redis`; the URL goes with `redis` alone."""

    l2_cache_backend: str | None = optional(
        "redis or tieredstorage.", pattern="(?i)redis|tieredstorage", like="redis or tieredstorage"
    )
    l2_cache_local_url: str | None = optional(
        "Address of the Redis or Valkey store, such as rediss://HOST:6379; with redis alone."
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCacheSpec:
    """Which tiers of KV cache an endpoint has beside the GPU's own."""

    enable_l1_cache: bool | None = optional(
        "Host memory of the node; on by default once kvCacheSpec is there."
    )
    enable_l2_cache: bool | None = optional("A store that all replicas share; off by default.")
    l2_cache_spec: L2CacheSpec | None = optional("The shared store.")
    cache_config_file: str | None = optional(
        "Path of an LMCache configuration; overrides everything else here."
    )
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

    name: str = field(metadata=about("Name of the dimension, such as EndpointName."))
    value: str = field(metadata=about("Value of the dimension."))
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudWatchTrigger:
    """KEDA's CloudWatch trigger. Periods in seconds."""

    name: str | None = optional("Name of the trigger.")
    namespace: str | None = optional("CloudWatch namespace of the metric.")
    metric_name: str | None = optional("The metric.")
    dimensions: tuple[CloudWatchDimension, ...] | None = optional("Dimensions that select the series.")
    metric_stat: str | None = optional("Statistic of the metric; Average by default.")
    metric_type: str | None = optional(
        "Value, or Average a pod, which is the default.", choices=["Value", "Average"]
    )
    metric_collection_period: int | None = optional("Period of the query in seconds; 300 by default.")
    metric_collection_start_time: int | None = optional(
        "How far the query looks back, in seconds; 300 by default."
    )
    min_value: float | None = optional("Value taken where CloudWatch returns none; 0 by default.")
    target_value: float | None = optional("Value that the autoscaler steers to.")
    activation_target_value: float | None = optional(
        "Value that wakes an endpoint of zero pods; 0 by default."
    )
    use_cached_metrics: bool | None = optional(
        "Whether values are kept for a polling interval; true by default."
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusTrigger:
    """KEDA's Prometheus trigger, against Amazon Managed Service for Prometheus alone."""

    name: str | None = optional("Name of the trigger.")
    server_address: str | None = optional(
        "Address of the AMP workspace.",
        pattern="^https:\\/\\/aps-workspaces\\.[a-zA-Z0-9-]+(?:\\.[a-zA-Z0-9-]+)*\\.amazonaws\\.com\\/workspaces\\/ws-[a-zA-Z0-9-]+$|^$",
        like="https://aps-workspaces.REGION.amazonaws.com/workspaces/ws-ID",
    )
    query: str | None = optional("PromQL query of the metric.")
    target_value: float | None = optional("Value that the autoscaler steers to.")
    metric_type: str | None = optional(
        "Value, or Average a pod, which is the default.", choices=["Value", "Average"]
    )
    namespace: str | None = optional("Namespace of the query.")
    custom_headers: str | None = optional("Headers of the query.")
    activation_target_value: float | None = optional(
        "Value that wakes an endpoint of zero pods; 0 by default."
    )
    use_cached_metrics: bool | None = optional(
        "Whether values are kept for a polling interval; true by default."
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoScalingSpec:
    """How many pods, by which signal. Periods in seconds."""

    min_replica_count: int | None = optional("Least pods; 1 by default.", minimum=0)
    max_replica_count: int | None = optional("Most pods; 5 by default.", minimum=0)
    polling_interval: int | None = optional("Seconds between reads of a trigger; 30 by default.", minimum=0)
    cooldown_period: int | None = optional(
        "Seconds from the last active trigger to zero pods; 300 by default.", minimum=0
    )
    initial_cooldown_period: int | None = optional(
        "Seconds before the first cooldown; 300 by default.", minimum=0
    )
    scale_down_stabilization_time: int | None = optional(
        "Seconds a lower need must last; 300 by default.", minimum=0
    )
    scale_up_stabilization_time: int | None = optional(
        "Seconds a higher need must last; 0 by default.", minimum=0
    )
    cloud_watch_trigger: CloudWatchTrigger | None = optional("One CloudWatch metric.")
    cloud_watch_trigger_list: tuple[CloudWatchTrigger, ...] | None = optional(
        "Several CloudWatch metrics; wins over the single one.", alpha=False, max_items=100
    )
    prometheus_trigger: PrometheusTrigger | None = optional("One query to AMP.")
    prometheus_trigger_list: tuple[PrometheusTrigger, ...] | None = optional(
        "Several queries to AMP; wins over the single one.", alpha=False, max_items=100
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelligentRoutingSpec:
    """Whether a router stands in front, and how it chooses a replica."""

    enabled: bool | None = optional(
        "Whether a router stands in front; off by default and fixed once deployed."
    )
    routing_strategy: str | None = optional(
        "How a replica is chosen; prefixaware by default.", choices=ROUTING_STRATEGIES
    )
    auto_scaling_spec: AutoScalingSpec | None = optional("How the router itself scales.")
    unknown: Raw = field(default_factory=dict)

    @property
    def strategy(self) -> str | None:
        """The strategy in force: `prefixaware` unless another is named, None while routing is off."""
        return (self.routing_strategy or "prefixaware") if self.enabled else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetrics:
    """Where the engine serves its Prometheus metrics."""

    path: str | None = optional(
        "Path of the metrics; /metrics by default.",
        pattern="^/[a-zA-Z0-9\\-_.\\/]*$",
        like="a path such as /metrics",
    )
    port: int | None = optional(
        "Port of the metrics; 8080 by default, which vLLM does not listen on.", minimum=1024, maximum=65535
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Scraping of the engine's metrics; on by default, every 15 seconds, port 8080."""

    enabled: bool | None = optional("Whether metrics are collected; true by default.")
    metrics_scrape_interval_seconds: int | None = optional(
        "Seconds between two reads; 15 by default.", minimum=5, maximum=300
    )
    model_metrics: ModelMetrics | None = optional("Where the engine serves its metrics.")
    metrics_sidecar_resources: Raw | None = optional(
        "Requests and limits of the metrics sidecar.", since="3.4"
    )
    metrics_collector_resources: Raw | None = optional(
        "Requests and limits of the metrics collector.", since="3.4"
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancer:
    """The load balancer's health check (default `/ping`) and algorithm."""

    health_check_path: str | None = optional(
        "Path that the load balancer asks; /ping by default.",
        pattern="^/.*",
        like="a path that begins with /",
    )
    routing_algorithm: str | None = optional(
        "How the load balancer chooses; least_outstanding_requests by default.",
        choices=["least_outstanding_requests", "round_robin"],
    )
    idle_timeout_seconds: int | None = optional(
        "Silence in seconds after which a connection is cut; 60 by default.",
        since="3.3",
        minimum=1,
        maximum=4000,
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCertificateConfig:
    """A certificate of one's own."""

    acm_arn: str = field(
        metadata=about(
            "ARN of the certificate in ACM.",
            pattern="^arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+$",
            like="arn:aws:acm:REGION:ACCOUNT:certificate/ID",
        )
    )
    domain_name: str = field(
        metadata=about(
            "A domain of the certificate, in lower case and no wildcard.",
            max_length=253,
            pattern="^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
            like="a domain in lower case, without a wildcard",
        )
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Where the operator's certificate is written, or which one is used instead."""

    tls_certificate_output_s3_uri: str | None = optional(
        "Where the operator writes its certificate.",
        manifest="tlsCertificateOutputS3Uri",
        pattern="^s3://([^/]+)/?(.*)$",
        like="s3://BUCKET/PREFIX",
    )
    custom_certificate_config: CustomCertificateConfig | None = optional(
        "A certificate of one's own, instead.", alpha=False
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsConfig:
    """The Route 53 zone for the endpoint's domain."""

    hosted_zone_id: str = field(
        metadata=about(
            "ID of the hosted zone.", pattern="^Z[A-Z0-9]+$", like="a zone ID such as Z0123456789ABC"
        )
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Storage:
    """The bucket of the weights."""

    bucket_name: str = field(metadata=about("The bucket."))
    region: str = field(metadata=about("The bucket's region."))
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FsxStorage:
    """The FSx for Lustre file system of the weights."""

    file_system_id: str = field(metadata=about("The file system, fs-…."))
    dns_name: str | None = optional("Its DNS name.")
    mount_name: str | None = optional("Its mount name.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """A key of a Kubernetes Secret in the endpoint's namespace."""

    name: str | None = optional("The Secret.")
    key: str = field(metadata=about("The key inside it."))
    optional: bool | None = optional("Whether the Secret may be missing.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceModel:
    """A repository on Hugging Face, pinned to a commit of 40 hex digits."""

    model_id: str = field(
        metadata=about(
            "The repository, org/model.",
            pattern="^[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+$",
            like="org/model, such as meta-llama/Llama-3.1-8B-Instruct",
        )
    )
    commit_sha: str | None = optional(
        "The commit, 40 hex digits; main where none is written.",
        manifest="commitSHA",
        pattern="^[0-9a-f]{40}$",
        like="a commit of 40 lower-case hex digits",
    )
    token_secret_ref: SecretRef | None = optional("The Secret with the token.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSourceConfig:
    """Where the weights come from: `model_source_type` is s3, fsx, huggingface or kubernetesVolume."""

    model_source_type: str = field(
        metadata=about(
            "Where the weights come from.", choices=["fsx", "s3", "huggingface", "kubernetesVolume"]
        )
    )
    model_location: str | None = optional("Folder of the weights in the bucket or file system.")
    prefetch_enabled: bool | None = optional(
        "Whether the weights are copied to host memory first; off by default."
    )
    s3_storage: S3Storage | None = optional("The bucket, for s3.")
    fsx_storage: FsxStorage | None = optional("The file system, for fsx.")
    hugging_face_model: HuggingFaceModel | None = optional("The repository, for huggingface.", alpha=False)
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """One variable of the engine: a value, or where it comes from."""

    name: str = field(metadata=about("Name of the variable."))
    value: str | None = optional("Its value, as text.")
    value_from: Raw | None = optional("Where it comes from: a Secret, a ConfigMap, a field.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInvocationPort:
    """The port that the engine listens on."""

    container_port: int = field(
        metadata=about("Port that the engine listens on; 8000 for vLLM.", minimum=1, maximum=65535)
    )
    name: str | None = optional("http, the default, or grpc.", choices=["http", "grpc"])
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVolumeMount:
    """Where the weights appear inside the container; /opt/ml/model by default."""

    name: str = field(metadata=about("Name of the volume."))
    mount_path: str | None = optional("Where it is mounted; /opt/ml/model by default.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the engine's container asks for, as Kubernetes quantities."""

    requests: Raw | None = optional("What the scheduler sets aside.")
    limits: Raw | None = optional("What the container may take; GPUs stand here.")
    claims: tuple[Raw, ...] | None = optional("Claims on dynamic resources.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How much the pod's proxy lets in before it answers `overflow_status_code`."""

    max_concurrent_requests: int | None = optional("Requests at once.", minimum=1)
    max_queue_size: int | None = optional("Requests that wait.", minimum=0)
    overflow_status_code: int | None = optional(
        "What the rest is told; 429 by default.", minimum=400, maximum=599
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Kubernetes probes of the engine's container."""

    liveness_probe: Raw | None = optional("Restarts the container when it fails.")
    readiness_probe: Raw | None = optional("Takes the pod out of the load balancer when it fails.")
    startup_probe: Raw | None = optional("Holds the other probes back until it succeeds.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The engine's container."""

    image: str = field(metadata=about("The engine's image."))
    model_invocation_port: ModelInvocationPort = field(metadata=about("The port that the engine listens on."))
    model_volume_mount: ModelVolumeMount = field(metadata=about("Where the weights appear."))
    resources: Resources = field(metadata=about("What the container asks for."))
    args: tuple[str, ...] | None = optional("Arguments of the container.", alpha=False)
    command: tuple[str, ...] | None = optional("Entry point of the container.", alpha=False)
    working_dir: str | None = optional("Working directory of the container.", alpha=False)
    environment_variables: tuple[EnvironmentVariable, ...] | None = optional("Environment of the container.")
    probes: Probes | None = optional("Probes of the container.", alpha=False)
    request_limits: RequestLimits | None = optional("How much is let in at once.", alpha=False)
    unknown: Raw = field(default_factory=dict)

    def environment_value(self, name: str) -> str | None:
        """The plain value of an environment variable, or None."""
        return next((entry.value for entry in self.environment_variables or () if entry.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """An AWS tag."""

    name: str = field(metadata=about("Key of the tag."))
    value: str = field(metadata=about("Value of the tag."))
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOption:
    """What is captured: the request or the response."""

    capture_mode: str = field(metadata=about("Input or Output.", choices=["Input", "Output"]))
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureContentTypes:
    """Which content types are taken as CSV and which as JSON."""

    csv_content_types: tuple[str, ...] | None = optional("Content types taken as CSV.", max_items=10)
    json_content_types: tuple[str, ...] | None = optional("Content types taken as JSON.", max_items=10)
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerCapture:
    """Data capture at the SageMaker endpoint."""

    enabled: bool = field(metadata=about("Whether this tier captures."))
    initial_sampling_percentage: int | None = optional(
        "Share of requests in percent; 100 by default.", minimum=0, maximum=100
    )
    capture_options: tuple[CaptureOption, ...] | None = optional(
        "Requests, responses or both, which is the default.", max_items=32
    )
    kms_key_id: str | None = optional(
        "KMS key of the captured data.",
        max_length=2048,
        pattern="^[a-zA-Z0-9:/_-]*$",
        like="a KMS key ID, alias or ARN",
    )
    capture_content_type_header: CaptureContentTypes | None = optional("How content types are read.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureBuffer:
    """How captured records are batched."""

    batch_size: int | None = optional("Records in a batch; 10 by default.", minimum=1, maximum=1000)
    flush_interval_seconds: int | None = optional(
        "Seconds between two writes; 60 by default.", minimum=10, maximum=300
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePayload:
    """How much of a payload is captured."""

    max_payload_size_kb: int | None = optional(
        "KB of a payload; 0, the default, is all of it.",
        manifest="maxPayloadSizeKB",
        minimum=0,
        maximum=10240,
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPodCapture:
    """Data capture at the model's pod."""

    enabled: bool = field(metadata=about("Whether this tier captures."))
    initial_sampling_percentage: int | None = optional(
        "Share of requests in percent; 100 by default.", minimum=0, maximum=100
    )
    capture_options: tuple[CaptureOption, ...] | None = optional(
        "Requests, responses or both, which is the default.", max_items=32
    )
    kms_key_id: str | None = optional(
        "KMS key of the captured data.",
        max_length=2048,
        pattern="^[a-zA-Z0-9:/_-]*$",
        like="a KMS key ID, alias or ARN",
    )
    capture_content_type_header: CaptureContentTypes | None = optional("How content types are read.")
    buffer_config: CaptureBuffer | None = optional("Batching of records.")
    payload_config: CapturePayload | None = optional("Limit of payloads.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerCapture:
    """Access logs of the load balancer."""

    enabled: bool = field(metadata=about("Whether access logs are written."))
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCapture:
    """What is kept of requests and responses, and where."""

    s3_uri: str | None = optional(
        "Where captured data goes; the TLS bucket by default.",
        manifest="s3Uri",
        max_length=512,
        pattern="^s3://([^/]+)(/[^,=]*)?$",
        like="s3://BUCKET/PREFIX",
    )
    sagemaker_endpoint: SageMakerCapture | None = optional("At the SageMaker endpoint.")
    model_pod: ModelPodCapture | None = optional("At the model's pod.")
    load_balancer: LoadBalancerCapture | None = optional("At the load balancer.")
    s3_uploader_resources: Raw | None = optional("Requests and limits of the uploader.", since="3.4")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """What is added to the pod; subtrees are Kubernetes' own."""

    init_containers: tuple[Raw, ...] | None = optional("Containers that run before the engine.")
    scheduler_name: str | None = optional(
        "Scheduler of the pod.",
        max_length=253,
        pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        like="a DNS name in lower case",
    )
    service_account_name: str | None = optional(
        "Service account of the pod.",
        max_length=253,
        pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        like="a DNS name in lower case",
    )
    volumes: tuple[Raw, ...] | None = optional("Volumes of the pod.")
    pod_template_annotations: Raw | None = optional("Annotations of the pod.", since="3.6")
    tolerations: tuple[Raw, ...] | None = optional("Tolerations of the pod.", since="3.7")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PdRole:
    """One side of disaggregated serving: its pods."""

    replicas: int | None = optional("Pods; 1 by default.", minimum=1)
    args: tuple[str, ...] | None = optional("Arguments of the engine.")
    node_selector: Raw | None = optional("Labels of the nodes.")
    resources: Resources | None = optional("What each pod asks for.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PdAutoScaling:
    """How the two sides scale."""

    prefill_auto_scaling: AutoScalingSpec | None = optional("Of the prefill pods.")
    decoding_auto_scaling: AutoScalingSpec | None = optional("Of the decode pods.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PdTopology:
    """Where the two sides stand."""

    same_az: bool | None = optional("Whether both stand in one zone; true by default.", manifest="sameAZ")
    availability_zone: str | None = optional("The zone.")
    placement_group: str | None = optional("The placement group.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PdSpec:
    """Disaggregated prefill and decode: separate pods for each."""

    prefill_spec: PdRole = field(metadata=about("The pods that read prompts."))
    decoding_spec: PdRole = field(metadata=about("The pods that write answers."))
    auto_scaling_spec: PdAutoScaling | None = optional("How the two sides scale.")
    routing_threshold: int | None = optional(
        "Prompts of as many tokens go through prefill pods; 4096 by default.", minimum=0
    )
    topology_spec: PdTopology | None = optional("Where the pods stand.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsCache:
    """Weights kept on the node's disks."""

    enabled: bool | None = optional("Whether weights are kept.")
    host_path: str | None = optional("Where; /opt/dlami/nvme by default.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCache:
    """Images kept on the node."""

    enabled: bool | None = optional("Whether images are kept.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCacheConfig:
    """What nodes keep for the next start."""

    weights_cache: WeightsCache | None = optional("Weights.")
    image_cache: ImageCache | None = optional("Images.")
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceGateway:
    """Whether the endpoint joins the inference gateway, instead of intelligent routing."""

    enabled: bool | None = optional("Whether it joins.")
    name: str | None = optional(
        "The gateway that it joins; AWS's operator makes one for an endpoint without."
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lmcache:
    """How LMCache runs."""

    mode: str | None = optional(
        "InProcess, or MultiProcess with a server beside the engine.", choices=["InProcess", "MultiProcess"]
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpointSpec:
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
    replicas: int | None = optional("Engine pods; 1 by default.")
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
    kv_cache_spec: KvCacheSpec | None = optional("Tiers of KV cache beside the GPU's own.", alpha=False)
    intelligent_routing_spec: IntelligentRoutingSpec | None = optional(
        "The router in front; cannot be added later.", alpha=False
    )
    auto_scaling_spec: AutoScalingSpec | None = optional("How the engine pods scale.")
    metrics: Metrics | None = optional("Scraping of metrics.")
    load_balancer: LoadBalancer | None = optional("The load balancer in front.")
    tls_config: TlsConfig | None = optional("Certificates.")
    dns_config: DnsConfig | None = optional(
        "The Route 53 zone; needs a certificate of one's own.", alpha=False
    )
    data_capture: Raw | None = optional(
        "What is kept of requests and responses.", alpha=False, shape=DataCapture
    )
    kubernetes: Raw | None = optional("What is added to the pod.", alpha=False, shape=Kubernetes)
    pd_spec: Raw | None = optional("Disaggregated prefill and decode.", alpha=False, shape=PdSpec)
    model_cache_config: ModelCacheConfig | None = optional(
        "What nodes keep for the next start.", since="3.3", alpha=False
    )
    inference_gateway: InferenceGateway | None = optional(
        "The inference gateway, instead of intelligent routing.", since="3.6", alpha=False
    )
    lmcache: Lmcache | None = optional("How LMCache runs.", since="3.7", alpha=False)
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEndpointConfig:
    """One endpoint as AWS documents it: a model, its engine, its cache tiers and its routing.

    >>> config = InferenceEndpointConfig.from_manifest(yaml.safe_load(text))
    >>> config.to_manifest() == yaml.safe_load(text)
    True
    """

    metadata: Metadata = field(metadata=about("Name and place of the object.", open_ended=True))
    spec: InferenceEndpointSpec = field(metadata=about("The endpoint."))
    api_version: str = field(default=API_VERSION, metadata=about("Version of the kind."))
    kind: str = field(default=KIND, metadata=about("The kind of this document."))
    status: Raw | None = optional("What the operator reports; not written by hand.")
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
