"""What HyperPod's own service may do in the cluster: check nodes deeply, and drain those it patches. Data.

The names are HyperPod's: it looks for them.
https://github.com/aws/sagemaker-hyperpod-cli/tree/main/helm_chart/HyperPodHelmChart/charts (read 2026-12-01)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypertier_cdk.instance_group import InstanceGroup

Object = dict[str, Any]

NAMESPACE = "aws-hyperpod"
CHECKER = "deep-health-check-service-account"
SERVICE_USER = "hyperpod-service-linked-role"
_API_GROUP = "rbac.authorization.k8s.io"


def namespace() -> Object:
    """Where what HyperPod runs on nodes lives."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def deep_health_checks(groups: Sequence[InstanceGroup]) -> list[Object]:
    """The account that the pods of a deep health check run under; nothing where no group is checked."""
    if not any(group.deep_health_checks for group in groups):
        return []
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": CHECKER, "namespace": NAMESPACE}},
        _cluster_role(
            f"{CHECKER}-role",
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]},
        ),
        _binding(
            f"{CHECKER}-role-binding",
            f"{CHECKER}-role",
            {"kind": "ServiceAccount", "name": CHECKER, "namespace": NAMESPACE},
        ),
    ]


def patching() -> list[Object]:
    """Lets HyperPod move pods off a node before it gives the node a new image, on schedule or when asked to.

    It evicts them, so that a disruption budget holds; without it pods are cut off.
    """
    return [
        _cluster_role(
            "hyperpod-patching",
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "get", "patch"]},
        ),
        _binding(
            "hyperpod-patching",
            "hyperpod-patching",
            {"apiGroup": _API_GROUP, "kind": "User", "name": SERVICE_USER},
        ),
    ]


def _cluster_role(name: str, *rules: Object) -> Object:
    return {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _binding(name: str, role: str, subject: Object) -> Object:
    return {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _API_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
