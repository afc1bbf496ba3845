"""How the weights get into the engine: volumes, what stands behind them, and what fetches them first.

S3 and FSx follow the static provisioning of AWS's CSI drivers:
https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md and
https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/master/examples/kubernetes/static_provisioning
(read 2026-12-01).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from hypertier.catalog.instance_types import GIB
from hypertier.catalog.models import ModelShape
from hypertier.spec.endpoint import InferenceEndpointConfig, ModelSourceConfig
from hypertier_cdk.charts.inputs import refuse
from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import CONTAINER_SECURITY, USER_ID, Object
from hypertier_cdk.charts.volumes import claimed_volume, persistent_volume

DEFAULT_MOUNT_PATH = "/opt/ml/model"
PURPOSE = "weights"
BYTES_PER_PARAMETER = 2.2  # 16 bits, and a tenth for what else a repository holds


@dataclass(frozen=True, slots=True)
class Weights:
    """`objects` stand beside the pods; the rest goes into the engine's pod.

    `disk_bytes` of the node's disk are taken, None where none or nobody knows.
    """

    mount_path: str
    mount: Object
    volumes: tuple[Object, ...]
    objects: tuple[Object, ...] = ()
    init_containers: tuple[Object, ...] = ()
    disk_bytes: int | None = None


def weights_of(
    endpoint: InferenceEndpointConfig, names: Names, image: str, model: ModelShape | None = None
) -> Weights:
    """Mount what `modelSourceConfig` names at `modelVolumeMount`.

    Raises:
        ConfigError: a source without the fields that it needs.
    """
    source = endpoint.spec.model_source_config
    mount = endpoint.spec.worker.model_volume_mount
    path = mount.mount_path or DEFAULT_MOUNT_PATH
    readers = {
        "s3": _from_s3,
        "fsx": _from_fsx,
        "huggingface": _from_hugging_face,
        "kubernetesVolume": _from_volume,
    }
    weights = readers[source.model_source_type](endpoint, names, source, mount.name, path, image)
    if weights.init_containers and model is not None:
        return replace(weights, disk_bytes=math.ceil(model.num_parameters * BYTES_PER_PARAMETER / GIB) * GIB)
    return weights


def _from_s3(
    endpoint: InferenceEndpointConfig,
    names: Names,
    source: ModelSourceConfig,
    volume: str,
    path: str,
    _image: str,
) -> Weights:
    if source.s3_storage is None:
        raise refuse(
            endpoint, "spec.modelSourceConfig.s3Storage", None, "bucketName and region of the weights"
        )
    options = ["read-only", "allow-other", f"uid={USER_ID}", f"gid={USER_ID}"]
    options.append(f"region {source.s3_storage.region}")
    prefix = (source.model_location or "").strip("/")
    if prefix:
        options.append(f"prefix {prefix}/")
    csi = {
        "driver": "s3.csi.aws.com",
        "volumeHandle": f"{names.namespace}-{names.of(PURPOSE)}",
        "volumeAttributes": {"bucketName": source.s3_storage.bucket_name},
    }
    return Weights(
        path,
        {"name": volume, "mountPath": path, "readOnly": True},
        (claimed_volume(names, PURPOSE, volume),),
        persistent_volume(names, PURPOSE, {"csi": csi}, options),
    )


def _from_fsx(
    endpoint: InferenceEndpointConfig,
    names: Names,
    source: ModelSourceConfig,
    volume: str,
    path: str,
    _image: str,
) -> Weights:
    fsx = source.fsx_storage
    if fsx is None or not fsx.dns_name or not fsx.mount_name:
        raise refuse(
            endpoint,
            "spec.modelSourceConfig.fsxStorage",
            None if fsx is None else fsx.file_system_id,
            "fileSystemId, dnsName and mountName: a volume is mounted by all three",
        )
    csi = {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": fsx.file_system_id,
        "volumeAttributes": {"dnsname": fsx.dns_name, "mountname": fsx.mount_name},
    }
    mount: Object = {"name": volume, "mountPath": path, "readOnly": True}
    if source.model_location:
        mount["subPath"] = source.model_location.strip("/")
    return Weights(
        path,
        mount,
        (claimed_volume(names, PURPOSE, volume),),
        persistent_volume(names, PURPOSE, {"csi": csi}, ["flock"]),
    )


def _from_hugging_face(
    endpoint: InferenceEndpointConfig,
    names: Names,
    source: ModelSourceConfig,
    volume: str,
    path: str,
    image: str,
) -> Weights:
    model = source.hugging_face_model
    if model is None:
        raise refuse(endpoint, "spec.modelSourceConfig.huggingFaceModel", None, "modelId and commitSHA")
    command = ["hf", "download", model.model_id, "--local-dir", path]
    if model.commit_sha:
        command += ["--revision", model.commit_sha]
    env: list[Object] = [{"name": "HOME", "value": "/tmp"}]
    if model.token_secret_ref is not None:
        key = {"name": model.token_secret_ref.name, "key": model.token_secret_ref.key or "token"}
        env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}})
    fetch = {
        "name": "fetch-weights",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "env": env,
        "resources": {
            "requests": {"cpu": "2", "memory": "8Gi"},
            "limits": {"memory": "8Gi"},
        },
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": volume, "mountPath": path}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    return Weights(
        path,
        {"name": volume, "mountPath": path, "readOnly": True},
        ({"name": volume, "emptyDir": {}},),
        init_containers=(fetch,),
    )


def _from_volume(
    endpoint: InferenceEndpointConfig,
    _names: Names,
    source: ModelSourceConfig,
    volume: str,
    path: str,
    _image: str,
) -> Weights:
    volumes: tuple[Any, ...] = tuple((endpoint.spec.kubernetes or {}).get("volumes") or ())
    if volume not in [entry.get("name") for entry in volumes if isinstance(entry, dict)]:
        raise refuse(
            endpoint,
            "spec.worker.modelVolumeMount.name",
            volume,
            "the name of one of spec.kubernetes.volumes, which modelSourceType kubernetesVolume mounts",
        )
    mount: Object = {"name": volume, "mountPath": path, "readOnly": True}
    if source.model_location:
        mount["subPath"] = source.model_location.strip("/")
    return Weights(path, mount, ())  # the volume itself comes with spec.kubernetes
