"""CDK constructs and cdk8s charts of hypertier.

Names are resolved when they are first used: `hypertier_cdk.charts` then needs cdk8s alone, and
`import hypertier_cdk` starts neither Node.js nor the CDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "CacheStore": "hypertier_cdk.cache_store",
    "CacheUtilizationScaling": "hypertier_cdk.scaling",
    "ChartInputs": "hypertier_cdk.charts.inputs",
    "EksCluster": "hypertier_cdk.adopted_eks",
    "EndpointAlarms": "hypertier_cdk.alarms",
    "EndpointChart": "hypertier_cdk.charts.endpoint",
    "EndpointDashboard": "hypertier_cdk.dashboard",
    "HyperPodCluster": "hypertier_cdk.cluster",
    "InferenceEndpoint": "hypertier_cdk.endpoint",
    "InferenceOperator": "hypertier_cdk.operator_addon",
    "InstanceGroup": "hypertier_cdk.instance_group",
    "Keda": "hypertier_cdk.controllers",
    "LifecycleScript": "hypertier.spec.lifecycle",
    "LoadBalancerController": "hypertier_cdk.controllers",
    "Network": "hypertier_cdk.network",
    "Observability": "hypertier_cdk.observability",
    "PatchSchedule": "hypertier.spec.instance_group",
    "ScalingSchedule": "hypertier.spec.schedules",
    "Taint": "hypertier.spec.instance_group",
    "TieredStorage": "hypertier_cdk.tiered_storage",
    "Volume": "hypertier.spec.instance_group",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
