"""How an endpoint's routers learn who may ask: a ConfigMap with what is no secret, and the user's Secret."""

from __future__ import annotations

from dataclasses import replace

import yaml

from hypertier.spec import codec
from hypertier.spec.deployment import Deployment
from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import Object, metadata

FOLDER = "/etc/hypertier/access"
SECRET_FOLDER = "/etc/hypertier/secret"
ACCESS_FILE = f"{FOLDER}/access.yaml"
KEYS_FILE = f"{SECRET_FOLDER}/keys"
SALT_KEY_FILE = f"{SECRET_FOLDER}/salt-key"


def has_secret(deployment: Deployment) -> bool:
    """Its routers have keys, and write salts."""
    return deployment.access is not None and deployment.access.secret_name is not None


def access_objects(deployment: Deployment, names: Names) -> list[Object]:
    """The ConfigMap with the file of `--access`; none where the deployment file has no such section."""
    if deployment.access is None:
        return []
    policy = {"access": codec.encode(replace(deployment.access, secret_name=None))}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(names, "router") | {"name": names.of("access")},
            "data": {"access.yaml": yaml.safe_dump(policy, sort_keys=False)},
        }
    ]


def access_volumes(deployment: Deployment, names: Names) -> list[Object]:
    """The pod's volumes. Where the Secret is missing, no router starts."""
    access = deployment.access
    if access is None:
        return []
    volumes: list[Object] = [{"name": "access", "configMap": {"name": names.of("access")}}]
    if access.secret_name is not None:
        secret = {"secretName": access.secret_name, "defaultMode": 0o440}
        volumes.append({"name": "secret", "secret": secret})
    return volumes


def access_mounts(deployment: Deployment) -> list[Object]:
    """Where the router finds them: folders, since a single file mounted would never change."""
    if deployment.access is None:
        return []
    mounts = [{"name": "access", "mountPath": FOLDER, "readOnly": True}]
    if has_secret(deployment):
        mounts.append({"name": "secret", "mountPath": SECRET_FOLDER, "readOnly": True})
    return mounts
