"""AWS's `JumpStartModel` v1 as frozen typed values: a model of the JumpStart hub, served as it comes.

Schema: `jumpstartmodels.inference.sagemaker.aws.amazon.com`, operator 3.2
(https://github.com/aws/sagemaker-hyperpod-cli, helm_chart/HyperPodHelmChart, read 2026-12-01).
"""

from dataclasses import dataclass, field
from typing import Any, Self

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.about import about, optional
from hypertier.spec.endpoint import (
    API_VERSION,
    AutoScalingSpec,
    DataCapture,
    DnsConfig,
    InferenceGateway,
    IntelligentRoutingSpec,
    KvCacheSpec,
    LoadBalancer,
    Metadata,
    Metrics,
    Raw,
    TlsConfig,
)

KIND = "JumpStartModel"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameValue:
    """A name and its value, both text."""

    name: str = field(metadata=about("The name."))
    value: str = field(metadata=about("The value, as text."))
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartHubModel:
    """The model in its hub, and whether its licence was accepted."""

    model_id: str = field(
        metadata=about(
            "ID of the model in its hub.",
            max_length=63,
            pattern="^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
            like="letters, digits and hyphens",
        )
    )
    accept_eula: bool | None = optional("Whether you accept the model's licence; false by default.")
    model_hub_name: str | None = optional(
        "The hub; SageMakerPublicHub by default.",
        max_length=63,
        pattern="^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
        like="letters, digits and hyphens",
    )
    model_version: str | None = optional(
        "Version of the model.",
        max_length=14,
        pattern="^\\d{1,4}.\\d{1,4}.\\d{1,4}$",
        like="a version such as 1.0.0",
    )
    gated_model_download_role: str | None = optional(
        "Role that downloads a gated model.",
        max_length=2048,
        pattern="^arn:aws[a-z\\-]*:iam::\\d{12}:role/?[a-zA-Z_0-9+=,.@\\-_/]+$",
        like="the ARN of an IAM role",
    )
    additional_configs: tuple[NameValue, ...] | None = optional(
        "Further settings of the model.", max_items=10
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validations:
    """Which of the operator's own checks are on."""

    accelerator_partition_validation: bool | None = optional(
        "Whether the partition is checked; true by default."
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The machine that serves the model."""

    instance_type: str = field(
        metadata=about("The instance type.", pattern="^ml\\..*", like="an instance type that begins with ml.")
    )
    execution_role: str | None = optional(
        "Role of the server.",
        max_length=2048,
        pattern="^arn:aws[a-z\\-]*:iam::\\d{12}:role/?[a-zA-Z_0-9+=,.@\\-_/]+$",
        like="the ARN of an IAM role",
    )
    accelerator_partition_type: str | None = optional(
        "MIG profile of the GPU.", alpha=False, pattern="^mig-.*$", like="a profile such as mig-3g.40gb"
    )
    validations: Validations | None = optional("The operator's own checks.", alpha=False)
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerEndpoint:
    """The SageMaker endpoint to create; none where the name is empty."""

    name: str | None = optional(
        "Name of the endpoint.",
        max_length=63,
        pattern="^$|^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
        like="letters, digits and hyphens",
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartModelSpec:
    """`spec` of a JumpStartModel."""

    model: JumpStartHubModel = field(metadata=about("The model in its hub."))
    server: Server = field(metadata=about("The machine that serves it."))
    sage_maker_endpoint: SageMakerEndpoint | None = optional("SageMaker endpoint to create.")
    environment_variables: tuple[NameValue, ...] | None = optional(
        "Environment of the engine.", max_items=100
    )
    replicas: int | None = optional("Engine pods; 1 by default.")
    max_deploy_time_in_seconds: int | None = optional(
        "Seconds until a deployment counts as failed; 3600 by default."
    )
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
    inference_gateway: InferenceGateway | None = optional(
        "The inference gateway, instead of intelligent routing.", since="3.6", alpha=False
    )
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartModel:
    """One endpoint that serves a JumpStart model; reads and writes like `InferenceEndpointConfig`."""

    metadata: Metadata = field(metadata=about("Name and place of the object.", open_ended=True))
    spec: JumpStartModelSpec = field(metadata=about("The model and its server."))
    api_version: str = field(default=API_VERSION, metadata=about("Version of the kind."))
    kind: str = field(default=KIND, metadata=about("The kind of this document."))
    status: Raw | None = optional("What the operator reports; not written by hand.")
    unknown: Raw = field(default_factory=dict)

    @classmethod
    def from_manifest(cls, manifest: Any) -> Self:
        """Read a manifest of kind `JumpStartModel`.

        Raises:
            ConfigError: for another kind, or the first field of a wrong type, by its path.
        """
        kind = manifest.get("kind") if isinstance(manifest, dict) else None
        if kind != KIND:
            raise ConfigError("kind", kind, KIND)
        return codec.decode_or_raise(cls, manifest)

    def to_manifest(self) -> dict[str, Any]:
        """The manifest that this value was read from, or would be written as."""
        encoded: dict[str, Any] = codec.encode(self)
        return {"apiVersion": encoded.pop("apiVersion"), "kind": encoded.pop("kind")} | encoded
