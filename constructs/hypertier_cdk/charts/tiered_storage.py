"""HyperPod's tiered storage as L2: how a pod reaches the daemon on its node, and the daemon's memory."""

from __future__ import annotations

from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.tier.address import DAEMON_SCHEME
from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import Object
from hypertier_cdk.charts.volumes import claimed_volume, persistent_volume

# Port and name as AWS's operator gives them to pods: https://github.com/aws/sagemaker-hyperpod-cli/issues/431
# (read 2026-12-01)
DAEMON_PORT = 9200
SEGMENT = "ai_toolkit_cache"
NODE_IP = "NODE_IP"
VOLUME = "node-shm"
# The folder and not the segment alone: a daemon that restarts makes another segment, which the mount of a
# single file would never show. It is mounted read-only, so that no pod can take the segment away.
MOUNT_PATH = "/mnt/node-shm"
SEGMENT_PATH = f"{MOUNT_PATH}/{SEGMENT}"
DAEMON_URL = f"{DAEMON_SCHEME}://$({NODE_IP}):{DAEMON_PORT}"


def uses_tiered_storage(endpoint: InferenceEndpointConfig) -> bool:
    """Whether the endpoint's L2 is the daemon; the manifest's pattern does not look at the case."""
    return (endpoint.kv_cache.l2_backend or "").lower() == "tieredstorage"


def node_ip() -> Object:
    """The variable that the daemon's address refers to; it has to stand before it."""
    return {"name": NODE_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}


def node_memory_objects(names: Names) -> tuple[Object, Object]:
    """The node's shared memory as a volume: pods may not name a path of their node, a volume may."""
    return persistent_volume(names, "node-shm", {"hostPath": {"path": "/dev/shm", "type": "Directory"}})


def node_memory_volume(names: Names) -> Object:
    """The pod's volume."""
    return claimed_volume(names, "node-shm", VOLUME)


def node_memory_mount() -> Object:
    """Where the engine sees it."""
    return {"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": True}
