"""What all pods of hypertier have in common: who they run as, where they are placed."""

from __future__ import annotations

from typing import Any

from hypertier.catalog.instance_types import find_instance_type
from hypertier.spec.deployment import Deployment
from hypertier.spec.instance_group import GPU_TAINT, GROUP_LABEL, InstanceGroup
from hypertier_cdk.charts.names import Names

USER_ID = 1000  # of the images; HyperPod's tiered storage gives its shared memory to the same id

Object = dict[str, Any]

POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER_ID,
    "runAsGroup": USER_ID,
    "fsGroup": USER_ID,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def metadata(names: Names, component: str, annotations: dict[str, str] | None = None) -> Object:
    """Metadata of a component's namespaced object."""
    result: Object = {
        "name": names.of(component),
        "namespace": names.namespace,
        "labels": names.labels(component),
    }
    if annotations:
        result["annotations"] = annotations
    return result


def service_account(names: Names, component: str, role_arn: str | None) -> Object:
    """A service account whose pods get AWS credentials, and no token for Kubernetes' own API."""
    annotations = {"eks.amazonaws.com/role-arn": role_arn} if role_arn else None
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(names, component, annotations),
        "automountServiceAccountToken": False,
    }


def disruption_budget(names: Names, component: str) -> Object:
    """Let node drains take one pod at a time, and those that are not ready at any time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(names, component),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": names.selector(component)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def spread(names: Names, component: str) -> list[Object]:
    """Spread a component's pods over nodes and zones where there are several; never leave one pending."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": names.selector(component)},
            "matchLabelKeys": ["pod-template-hash"],
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]


def group_selector(group: InstanceGroup) -> Object:
    """The node selector of an instance group."""
    return {GROUP_LABEL: group.name}


def cpu_group(deployment: Deployment) -> InstanceGroup | None:
    """The first instance group without GPUs, where router and exporter run; None where there is none."""
    for group in deployment.instance_groups:
        node = find_instance_type(group.instance_type)
        if node is not None and not node.gpus and group.count:
            return group
    return None


def gpu_tolerations() -> list[Object]:
    """GPU groups are commonly tainted so that nothing else lands on them."""
    return [{"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}]


def tolerations(group: InstanceGroup) -> list[Object]:
    """Of the taints that the deployment file gives a group."""
    return [
        {"key": taint.key, "effect": taint.effect}
        | ({"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"})
        for taint in group.taints or ()
    ]


def placement(group: InstanceGroup | None) -> Object:
    """Where all but engines run: on a group without GPUs, or anywhere where there is none."""
    if group is None:
        return {"nodeSelector": {}, "tolerations": gpu_tolerations()}
    tolerated = tolerations(group)
    return {"nodeSelector": group_selector(group)} | ({"tolerations": tolerated} if tolerated else {})


def http_probe(path: str, port: str, *, tls: bool = False, **timing: int) -> Object:
    """An HTTP probe of a named port; by TLS the kubelet looks at no certificate."""
    scheme = {"scheme": "HTTPS"} if tls else {}
    return {"httpGet": {"path": path, "port": port, **scheme}, **timing}
