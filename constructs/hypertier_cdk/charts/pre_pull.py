"""The engine's image on every node that engines may run on, before one is to start there.

A pod on each node runs the image and waits. What the kubelet takes away when a disk fills up are images that
nobody uses.
https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images (read 2026-12-03)
"""

from __future__ import annotations

from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.instance_group import GROUP_LABEL, InstanceGroup
from hypertier.spec.pre_pull import pulls_ahead
from hypertier.spec.roles import roles_of
from hypertier_cdk.charts.inputs import ChartInputs, engine_image, placeholder_annotations
from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    Object,
    gpu_tolerations,
    metadata,
    service_account,
    tolerations,
)

PRE_PULL = "prepull"
# By Python, which an engine's image has for certain; isolated, so that it is a small process. SIGTERM is
# blocked first: the first process of a container is not told of what it neither blocks nor handles.
WAIT = "from signal import *; pthread_sigmask(SIG_BLOCK, {SIGTERM}); sigwait({SIGTERM})"
MEMORY = "64Mi"


def pre_pull_groups(deployment: Deployment, endpoint: InferenceEndpointConfig) -> tuple[InstanceGroup, ...]:
    """The instance groups of the endpoint's engines whose nodes get the image ahead."""
    groups = {role.group.name: role.group for role in roles_of(deployment, endpoint)}
    return tuple(group for group in groups.values() if pulls_ahead(deployment, group))


def pre_pull_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> list[Object]:
    """Service account and DaemonSet; nothing where nodes have no GPUs, or `images.prePull` is off."""
    groups = pre_pull_groups(deployment, endpoint)
    if not groups:
        return []
    # A user's own service account may hold what the registry asks for.
    account = names.engine_account or names.of(PRE_PULL)
    made = [] if names.engine_account else [service_account(names, PRE_PULL, None)]
    return [*made, _daemon_set(deployment, names, inputs, groups, account)]


def _daemon_set(
    deployment: Deployment,
    names: Names,
    inputs: ChartInputs,
    groups: tuple[InstanceGroup, ...],
    account: str,
) -> Object:
    image = engine_image(deployment, inputs)
    on = {"key": GROUP_LABEL, "operator": "In", "values": [group.name for group in groups]}
    tolerated = [*gpu_tolerations(), *(each for group in groups for each in tolerations(group))]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(names, PRE_PULL, placeholder_annotations(image)),
        "spec": {
            "selector": {"matchLabels": names.selector(PRE_PULL)},
            # a new image comes to all nodes at once, and engines follow one by one
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
            "revisionHistoryLimit": 3,
            "template": {
                "metadata": {"labels": names.labels(PRE_PULL)},
                "spec": {
                    "serviceAccountName": account,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "securityContext": POD_SECURITY,
                    "terminationGracePeriodSeconds": 5,
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [{"matchExpressions": [on]}]
                            }
                        }
                    },
                    "tolerations": [each for i, each in enumerate(tolerated) if each not in tolerated[:i]],
                    "containers": [
                        {
                            "name": "wait",
                            "image": image.value,
                            "imagePullPolicy": "IfNotPresent",
                            "command": ["python3", "-IS", "-c", WAIT],
                            "resources": {
                                "requests": {"cpu": "1m", "memory": MEMORY},
                                "limits": {"memory": MEMORY},
                            },
                            "securityContext": CONTAINER_SECURITY,
                        }
                    ],
                },
            },
        },
    }
