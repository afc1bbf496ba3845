"""What runs on every node of a kind: device plugins and HyperPod's health agent. Kubernetes objects as data.

AWS's chart of HyperPod's dependencies is in no registry, so the few of its parts that inference needs are
here.
https://github.com/aws/sagemaker-hyperpod-cli/tree/main/helm_chart/HyperPodHelmChart (read 2026-12-01)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypertier.catalog.node_images import NVIDIA_PLUGIN_IMAGE, health_agent_image
from hypertier.errors import ConfigError
from hypertier.spec.instance_group import GROUP_LABEL
from hypertier_cdk.hyperpod_access import NAMESPACE, deep_health_checks, namespace, patching
from hypertier_cdk.instance_group import InstanceGroup

Object = dict[str, Any]


def nvidia_device_plugin(groups: Sequence[InstanceGroup], image: str) -> list[Object]:
    """What makes `nvidia.com/gpu` a resource, on the groups that have GPUs; nothing where none has."""
    names = [group.name for group in groups if group.has_gpus]
    if not names:
        return []
    return [
        _daemon_set(
            "nvidia-device-plugin",
            "kube-system",
            on_groups=names,
            container={
                "image": image,
                "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": _resources("50m", "128Mi"),
                "volumeMounts": [_device_plugins_mount()],
            },
            volumes=[_device_plugins_volume()],
        )
    ]


def efa_device_plugin(groups: Sequence[InstanceGroup], image: str) -> list[Object]:
    """What makes `vpc.amazonaws.com/efa` a resource, on the groups that have EFA; nothing where none has.

    An engine that fits one node needs no EFA: its traffic stays within the node.
    """
    names = [group.name for group in groups if group.num_efa_interfaces]
    if not names:
        return []
    return [
        _daemon_set(
            "aws-efa-device-plugin",
            "kube-system",
            on_groups=names,
            container={
                "image": image,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "runAsNonRoot": False,
                },
                "resources": _resources("10m", "64Mi"),
                "volumeMounts": [
                    _device_plugins_mount(),
                    {"name": "infiniband", "mountPath": "/dev/infiniband"},
                ],
            },
            volumes=[
                _device_plugins_volume(),
                {"name": "infiniband", "hostPath": {"path": "/dev/infiniband"}},
            ],
            host_network=True,
        )
    ]


def health_agent(groups: Sequence[InstanceGroup], image: str) -> list[Object]:
    """HyperPod's agent that watches GPUs, so that a sick node is repaired; on the groups that have them."""
    names = [group.name for group in groups if group.has_gpus]
    if not names:
        return []
    name = "health-monitoring-agent"
    api_group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
        {
            "apiVersion": f"{api_group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
                {
                    "apiGroups": ["", "events.k8s.io"],
                    "resources": ["events"],
                    "verbs": ["create", "patch", "update"],
                },
            ],
        },
        {
            "apiVersion": f"{api_group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        },
        _daemon_set(
            name,
            NAMESPACE,
            on_groups=names,
            service_account=name,
            container={
                "image": image,
                "env": [
                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                ],
                "securityContext": {"runAsUser": 1000, "runAsGroup": 2000},
                "resources": _resources("500m", "512Mi"),
                "volumeMounts": [
                    {"name": "log", "mountPath": "/var/log"},
                    {"name": "kmsg", "mountPath": "/dev/kmsg", "readOnly": True},
                    {"name": "localtime", "mountPath": "/etc/localtime", "readOnly": True},
                ],
            },
            volumes=[
                {"name": "log", "hostPath": {"path": "/var/log"}},
                {"name": "kmsg", "hostPath": {"path": "/dev/kmsg"}},
                {"name": "localtime", "hostPath": {"path": "/etc/localtime"}},
            ],
        ),
    ]


def node_agents(
    groups: Sequence[InstanceGroup],
    region: str | None,
    *,
    nvidia_plugin_image: str | None = None,
    efa_plugin_image: str | None = None,
    health_agent_image_uri: str | None = None,
) -> list[Object]:
    """All agents that the groups need, and HyperPod's own access.

    `region` is None where it is not known before deployment.

    Raises:
        ConfigError: there are GPUs, and AWS keeps no health agent in the Region.
    """
    objects = [namespace(), *patching(), *deep_health_checks(groups)]
    objects += nvidia_device_plugin(groups, nvidia_plugin_image or NVIDIA_PLUGIN_IMAGE)
    if efa_plugin_image:
        objects += efa_device_plugin(groups, efa_plugin_image)
    agent = health_agent_image_uri or health_agent_image(region or "")
    if agent is None and any(group.has_gpus for group in groups):
        raise ConfigError(
            "health_agent_image",
            None,
            f"the image of HyperPod's health monitoring agent, since AWS's own table has none for "
            f"{region or 'a stack without a Region'}; without it no sick node is repaired",
        )
    return objects + (health_agent(groups, agent) if agent else [])


def _daemon_set(
    name: str,
    namespace: str,
    *,
    on_groups: Sequence[str],
    container: Object,
    volumes: list[Object],
    service_account: str | None = None,
    host_network: bool = False,
) -> Object:
    labels = {"app.kubernetes.io/name": name}
    on = {"key": GROUP_LABEL, "operator": "In", "values": list(on_groups)}
    pod: Object = {
        "priorityClassName": "system-node-critical",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [on]}]
                }
            }
        },
        "tolerations": [{"operator": "Exists"}],  # without it a node's devices are none, whatever its taints
        "containers": [{"name": name, **container}],
        "volumes": volumes,
    }
    if service_account:
        pod["serviceAccountName"] = service_account
    else:
        pod["automountServiceAccountToken"] = False
    if host_network:
        pod["hostNetwork"] = True
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _resources(cpu: str, memory: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def _device_plugins_mount() -> Object:
    return {"name": "device-plugins", "mountPath": "/var/lib/kubelet/device-plugins"}


def _device_plugins_volume() -> Object:
    return {"name": "device-plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
