"""AWS's `InferenceEndpointConfig` v1 as frozen typed values.

Fields carry the manifest's names in snake_case and hold what was written: None means that the manifest
does not have the field. What then holds is said by the properties (`kv_cache.l1_enabled`).
Fields of operators after 3.2 and what `v1alpha1` lacks are marked so.
Schema: `inferenceendpointconfigs.inference.sagemaker.aws.amazon.com`, operator 3.2
(https://github.com/aws/sagemaker-hyperpod-cli, helm_chart/HyperPodHelmChart, read 2026-12-01).
"""

from hypertier.spec.endpoint.config import InferenceEndpointConfig
from hypertier.spec.endpoint.kv_cache import L2_BACKENDS
from hypertier.spec.endpoint.manifest import API_GROUP
from hypertier.spec.endpoint.scaling import (
    AutoScalingSpec,
    CloudWatchDimension,
    CloudWatchTrigger,
    PrometheusTrigger,
)
from hypertier.spec.endpoint.traffic import CustomCertificateConfig, InferenceGateway, TlsConfig
from hypertier.spec.endpoint.weights import ModelSourceConfig
from hypertier.spec.endpoint.worker import GPU_RESOURCE

__all__ = [
    "API_GROUP",
    "GPU_RESOURCE",
    "L2_BACKENDS",
    "AutoScalingSpec",
    "CloudWatchDimension",
    "CloudWatchTrigger",
    "CustomCertificateConfig",
    "InferenceEndpointConfig",
    "InferenceGateway",
    "ModelSourceConfig",
    "PrometheusTrigger",
    "TlsConfig",
]
