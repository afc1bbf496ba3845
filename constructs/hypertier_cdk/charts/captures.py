"""Data capture in a router's pod: a folder, the router's flags, and a container that carries it to S3."""

from __future__ import annotations

from typing import Any

from hypertier.spec.capturing import router_capture
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier_cdk.charts.pods import CONTAINER_SECURITY, Object

FOLDER = "/var/lib/captures"
VOLUME = "captures"


def capture_settings(deployment: Deployment, endpoint: InferenceEndpointConfig) -> dict[str, Any]:
    """The router's settings of it; none where nothing is captured."""
    capture = router_capture(endpoint)
    if capture is None:
        return {}
    return {
        "capture_spool": FOLDER,
        "capture_sampling_percentage": capture.sampling_percentage,
        "capture_modes": capture.modes,
        "capture_max_payload_kb": capture.max_payload_kb,
        "capture_batch_size": capture.batch_size,
        "capture_flush_seconds": capture.flush_seconds,
        "capture_redact": deployment.routing.redact_captures,
    }


def carriers(deployment: Deployment, endpoint: InferenceEndpointConfig, image: str) -> list[Object]:
    """The container that carries captures to S3: a sidecar, which ends after the router has.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/ (read 2026-12-02)
    """
    capture = router_capture(endpoint)
    if capture is None:
        return []
    key = ["--kms-key-id", capture.kms_key_arn] if capture.kms_key_arn else []
    return [
        {
            "name": "captures",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "restartPolicy": "Always",
            "command": ["hypertier", "capture"],
            "args": ["--spool", FOLDER, "--to", capture.destination, *key, "--region", deployment.region],
            "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}},
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *capture_mounts(endpoint)],
        }
    ]


def capture_mounts(endpoint: InferenceEndpointConfig) -> list[Object]:
    """Where the folder is, in both containers."""
    return [{"name": VOLUME, "mountPath": FOLDER}] if router_capture(endpoint) else []


def capture_volumes(endpoint: InferenceEndpointConfig) -> list[Object]:
    """The folder: the node's disk, twice what the router lets lie there."""
    return [{"name": VOLUME, "emptyDir": {"sizeLimit": "512Mi"}}] if router_capture(endpoint) else []
