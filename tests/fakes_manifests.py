"""A valid endpoint, JumpStart model and deployment as plain data, and how to change one thing in them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

REMOVED: Final = object()
GPU = "nvidia.com/gpu"
GROUP = "inference.sagemaker.aws.amazon.com"


def endpoint(**sections: Any) -> dict[str, Any]:
    """A valid InferenceEndpointConfig that no rule objects to; `sections` replace parts of its spec."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "InferenceEndpointConfig",
        "metadata": {"name": "llama-8b", "namespace": "inference"},
        "spec": {
            "modelName": "Llama-3.1-8B-Instruct",
            "instanceType": "ml.g5.12xlarge",
            "replicas": 2,
            "invocationEndpoint": "v1/chat/completions",
            "modelSourceConfig": {
                "modelSourceType": "s3",
                "modelLocation": "llama-3.1-8b-instruct",
                "s3Storage": {"bucketName": "models-of-ours", "region": "us-west-2"},
            },
            "kvCacheSpec": {"enableL1Cache": True},
            "loadBalancer": {"healthCheckPath": "/health"},
            "metrics": {"enabled": True, "modelMetrics": {"path": "/metrics", "port": 8000}},
            "worker": {
                "image": "vllm/vllm-openai:v0.32.0",
                "args": ["/opt/ml/model", "--tensor-parallel-size", "4", "--port", "8000"],
                "modelInvocationPort": {"containerPort": 8000, "name": "http"},
                "modelVolumeMount": {"name": "model-weights", "mountPath": "/opt/ml/model"},
                "probes": {
                    "readinessProbe": {
                        "httpGet": {"path": "/health", "port": 8000},
                        "periodSeconds": 10,
                        "timeoutSeconds": 10,
                    }
                },
                "environmentVariables": [{"name": "PYTHONHASHSEED", "value": "0"}],
                "resources": {
                    "requests": {"cpu": "24", "memory": "96Gi", GPU: 4},
                    "limits": {"memory": "96Gi", GPU: 4},
                },
            },
            **sections,
        },
    }


def jumpstart() -> dict[str, Any]:
    """A valid JumpStartModel that no rule objects to."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "JumpStartModel",
        "metadata": {"name": "qwen", "namespace": "inference"},
        "spec": {
            "model": {"modelId": "huggingface-reasoning-qwen3-32b", "acceptEula": False},
            "server": {"instanceType": "ml.g6.48xlarge"},
            "replicas": 2,
        },
    }


def deployment() -> dict[str, Any]:
    """A valid deployment file that names `endpoint.yaml`."""
    return {
        "apiVersion": "hypertier.dev/v1",
        "kind": "Deployment",
        "name": "contracts",
        "region": "us-west-2",
        "instanceGroups": [
            {"name": "system", "instanceType": "ml.m5.4xlarge", "count": 3},
            {"name": "gpu", "instanceType": "ml.g5.12xlarge", "count": 3},
        ],
        "endpoints": ["endpoint.yaml"],
    }


def gateway() -> dict[str, Any]:
    """A valid InferenceGatewayConfig."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "InferenceGatewayConfig",
        "metadata": {"name": "gateway", "namespace": "inference"},
        "spec": {
            "auth": {"jwt": {"issuer": "https://login.internal"}},
            "schedulers": [
                {"name": "llama", "type": "llm-d", "modelName": "llama-8b", "weights": {"lru": 1}},
                {"name": "qwen", "type": "epp", "modelName": "qwen", "weights": {"queue": 2}},
            ],
        },
    }


def cluster() -> dict[str, Any]:
    """A valid CreateCluster request with tiered storage and Karpenter."""
    return {
        "ClusterName": "serving",
        "NodeRecovery": "Automatic",
        "NodeProvisioningMode": "Continuous",
        "ClusterRole": "arn:aws:iam::123456789012:role/karpenter",
        "AutoScaling": {"Mode": "Enable", "AutoScalerType": "Karpenter"},
        "TieredStorageConfig": {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 20},
        "InstanceGroups": [
            {"InstanceGroupName": "gpu", "InstanceType": "ml.g5.12xlarge", "InstanceCount": 3},
        ],
    }


def service_account() -> dict[str, Any]:
    """The operator's service account with a role that it may pass."""
    role = "arn:aws:iam::123456789012:role/SageMakerHyperPodInference-serving"
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": "hyperpod-inference-controller-manager",
            "namespace": "hyperpod-inference-system",
            "annotations": {"eks.amazonaws.com/role-arn": role},
        },
    }


def changed(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `data` with values set at dotted paths (`spec.worker.args.1`), or `REMOVED`.

    A key with dots in it stands in quotes: `spec.worker.resources.limits."nvidia.com/gpu"`.
    """
    result: Any = copy.deepcopy(dict(data))
    for dotted, value in changes.items():
        *parents, last = _parts(dotted)
        target: Any = result
        for part in parents:
            target = target[part] if isinstance(part, int) else target.setdefault(part, {})
        if value is not REMOVED:
            target[last] = copy.deepcopy(value)
        elif isinstance(target, dict):
            target.pop(last, None)
        else:
            del target[last]
    return result  # type: ignore[no-any-return]


def _parts(dotted: str) -> list[str | int]:
    head, quote, tail = dotted.partition('"')
    names = [part for part in head.split(".") if part]
    if quote:
        names.append(tail.rstrip('"'))
    return [int(part) if part.isdigit() else part for part in names]
