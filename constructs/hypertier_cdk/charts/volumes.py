"""Volumes that exist before the pods do: a PersistentVolume, and the one claim that may have it."""

from __future__ import annotations

from collections.abc import Sequence

from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import Object

IGNORED_CAPACITY = "1200Gi"  # Kubernetes wants one; none of our kinds of volume has any


def persistent_volume(
    names: Names, purpose: str, source: Object, options: Sequence[str] = ()
) -> tuple[Object, Object]:
    """A volume for many readers and its claim, named after the endpoint and the purpose."""
    labels = names.labels("engine")
    volume_name = f"{names.namespace}-{names.of(purpose)}"
    claim = {"namespace": names.namespace, "name": names.of(purpose)}
    shared: Object = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    volume: Object = {
        **shared,
        "capacity": {"storage": IGNORED_CAPACITY},
        "claimRef": claim,
        **source,
        **({"mountOptions": list(options)} if options else {}),
        "persistentVolumeReclaimPolicy": "Retain",
    }
    return (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume_name, "labels": labels},
            "spec": volume,
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {**claim, "labels": labels},
            "spec": {
                **shared,
                "resources": {"requests": {"storage": IGNORED_CAPACITY}},
                "volumeName": volume_name,
            },
        },
    )


def claimed_volume(names: Names, purpose: str, volume: str) -> Object:
    """The pod's volume that stands for the claim."""
    return {"name": volume, "persistentVolumeClaim": {"claimName": names.of(purpose), "readOnly": True}}
