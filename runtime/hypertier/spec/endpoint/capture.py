"""What is kept of requests and responses."""

from dataclasses import dataclass, field

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint.manifest import Part, Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOption(Part):
    """What is captured: the request or the response."""

    capture_mode: str = field(metadata=about("Input or Output.", choices=["Input", "Output"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureContentTypes(Part):
    """Which content types are taken as CSV and which as JSON."""

    csv_content_types: tuple[str, ...] | None = optional("Content types taken as CSV.", max_items=10)
    json_content_types: tuple[str, ...] | None = optional("Content types taken as JSON.", max_items=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledCapture(Part):
    """What a tier that captures a share of the requests is told."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerCapture(SampledCapture):
    """Data capture at the SageMaker endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureBuffer(Part):
    """How captured records are batched."""

    batch_size: int | None = optional("Records in a batch; 10 by default.", minimum=1, maximum=1000)
    flush_interval_seconds: int | None = optional(
        "Seconds between two writes; 60 by default.", minimum=10, maximum=300
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePayload(Part):
    """How much of a payload is captured."""

    max_payload_size_kb: int | None = optional(
        "KB of a payload; 0, the default, is all of it.",
        manifest="maxPayloadSizeKB",
        minimum=0,
        maximum=10240,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPodCapture(SampledCapture):
    """Data capture at the model's pod."""

    buffer_config: CaptureBuffer | None = optional("Batching of records.")
    payload_config: CapturePayload | None = optional("Limit of payloads.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerCapture(Part):
    """Access logs of the load balancer."""

    enabled: bool = field(metadata=about("Whether access logs are written."))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCapture(Part):
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
