"""AWS's `JumpStartModel` v1 as frozen typed values: a model of the JumpStart hub, served as it comes.

Schema: `jumpstartmodels.inference.sagemaker.aws.amazon.com`, operator 3.2
(https://github.com/aws/sagemaker-hyperpod-cli, helm_chart/HyperPodHelmChart, read 2026-12-01).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.endpoint import (
    API_VERSION,
    AutoScalingSpec,
    DnsConfig,
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

    name: str
    value: str
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartHubModel:
    """The model in its hub, and whether its licence was accepted."""

    model_id: str
    accept_eula: bool
    model_hub_name: str | None = None
    model_version: str | None = None
    gated_model_download_role: str | None = None
    additional_configs: tuple[NameValue, ...] | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validations:
    """Which of the operator's own checks are on."""

    accelerator_partition_validation: bool | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The machine that serves the model."""

    instance_type: str
    execution_role: str | None = None
    accelerator_partition_type: str | None = None
    validations: Validations | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerEndpoint:
    """The SageMaker endpoint to create; none where the name is empty."""

    name: str | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartModelSpec:
    """`spec` of a JumpStartModel."""

    model: JumpStartHubModel
    server: Server
    sage_maker_endpoint: SageMakerEndpoint | None = None
    environment_variables: tuple[NameValue, ...] | None = None
    replicas: int | None = None
    max_deploy_time_in_seconds: int | None = None
    kv_cache_spec: KvCacheSpec | None = None
    intelligent_routing_spec: IntelligentRoutingSpec | None = None
    auto_scaling_spec: AutoScalingSpec | None = None
    metrics: Metrics | None = None
    load_balancer: LoadBalancer | None = None
    tls_config: TlsConfig | None = None
    dns_config: DnsConfig | None = None
    data_capture: Raw | None = None
    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStartModel:
    """One endpoint that serves a JumpStart model; reads and writes like `InferenceEndpointConfig`."""

    metadata: Metadata
    spec: JumpStartModelSpec
    api_version: str = API_VERSION
    kind: str = KIND
    status: Raw | None = None
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
