"""AWS's `JumpStartModel` v1 as frozen typed values: a model of the JumpStart hub, served as it comes.

Schema: `jumpstartmodels.inference.sagemaker.aws.amazon.com`, operator 3.2
(https://github.com/aws/sagemaker-hyperpod-cli, helm_chart/HyperPodHelmChart, read 2026-12-01).
"""

from dataclasses import dataclass, field

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint.manifest import EndpointManifest, Part
from hypertier.spec.endpoint.served import ServedSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NameValue(Part):
    """A name and its value, both text."""

    name: str = field(metadata=about("The name."))
    value: str = field(metadata=about("The value, as text."))


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartHubModel(Part):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Validations(Part):
    """Which of the operator's own checks are on."""

    accelerator_partition_validation: bool | None = optional(
        "Whether the partition is checked; true by default."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Part):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerEndpoint(Part):
    """The SageMaker endpoint to create; none where the name is empty."""

    name: str | None = optional(
        "Name of the endpoint.",
        max_length=63,
        pattern="^$|^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$",
        like="letters, digits and hyphens",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartModelSpec(ServedSpec):
    """`spec` of a JumpStartModel."""

    model: JumpStartHubModel = field(metadata=about("The model in its hub."))
    server: Server = field(metadata=about("The machine that serves it."))
    sage_maker_endpoint: SageMakerEndpoint | None = optional("SageMaker endpoint to create.")
    environment_variables: tuple[NameValue, ...] | None = optional(
        "Environment of the engine.", max_items=100
    )
    max_deploy_time_in_seconds: int | None = optional(
        "Seconds until a deployment counts as failed; 3600 by default."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartModel(EndpointManifest):
    """One endpoint that serves a JumpStart model; reads and writes like `InferenceEndpointConfig`."""

    spec: JumpStartModelSpec = field(metadata=about("The model and its server."))
    kind: str = field(default="JumpStartModel", metadata=about("The kind of this document."))
