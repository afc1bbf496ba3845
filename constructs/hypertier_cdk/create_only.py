"""Changes that CloudFormation would make by replacing, found before a deployment. Plain data.

A second HyperPod cluster on the same EKS cluster, or a second resource of the same name, cannot be made
before the first is gone, so such a replacement fails after an hour, or loses what it replaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hypertier.errors import ConfigError, ManifestError

# The create-only properties that the resources' schemas in CloudFormation's registry name, as far as our
# templates set them, and what to do instead; a group's zone too, which HyperPod refuses to change. `*` is any
# entry.
_NEW_CLUSTER = "make a second cluster beside this one, with an EKS cluster of its own, and move over"
_NEW_STORE = "make a second store beside this one and move the endpoints: a cache fills up again"
CREATE_ONLY: dict[str, dict[str, str]] = {
    "AWS::SageMaker::Cluster": {
        "ClusterName": _NEW_CLUSTER,
        "Orchestrator": _NEW_CLUSTER,
        "VpcConfig": _NEW_CLUSTER,
        "InstanceGroups/*/OverrideVpcConfig": "add a group of another name there, then remove this one",
    },
    "AWS::EKS::Cluster": {
        "AccessConfig/BootstrapClusterCreatorAdminPermissions": _NEW_CLUSTER,
        "EncryptionConfig": _NEW_CLUSTER,
        "Name": _NEW_CLUSTER,
        "RoleArn": _NEW_CLUSTER,
        "BootstrapSelfManagedAddons": _NEW_CLUSTER,
        "KubernetesNetworkConfig/IpFamily": _NEW_CLUSTER,
        "KubernetesNetworkConfig/ServiceIpv4Cidr": _NEW_CLUSTER,
    },
    "AWS::EC2::VPC": {"CidrBlock": "bring a second VPC, and a second cluster in it"},
    "AWS::EC2::Subnet": {
        "AvailabilityZone": "keep the zones of the first deployment, or add more behind them",
        "AvailabilityZoneId": "keep the zones of the first deployment, or add more behind them",
        "CidrBlock": "keep the number of zones of the first deployment",
    },
    "AWS::ElastiCache::ReplicationGroup": {
        "AtRestEncryptionEnabled": _NEW_STORE,
        "CacheSubnetGroupName": _NEW_STORE,
        "KmsKeyId": _NEW_STORE,
        "Port": _NEW_STORE,
        "ReplicationGroupId": _NEW_STORE,
    },
    "AWS::ElastiCache::User": {"UserId": _NEW_STORE, "UserName": _NEW_STORE},
}


def refuse_replacements(deployed: Path, new: Path) -> None:
    """Compare two cloud assemblies (folders of `cdk synth`): the one that is deployed, and the new one.

    Raises:
        ConfigError: a change that would replace a resource of `CREATE_ONLY`; says what to do instead.
        ManifestError: a template cannot be read.
    """
    for template in sorted(deployed.glob("*.template.json")):
        successor = new / template.name
        if successor.exists():
            for problem in replacements(_read(template), _read(successor)):
                raise problem


def replacements(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Every change between two templates that would replace a resource of `CREATE_ONLY`."""
    new_resources = after.get("Resources", {})
    for logical_id, old in before.get("Resources", {}).items():
        new = new_resources.get(logical_id)
        if new is None or new["Type"] != old["Type"]:
            continue
        for path, instead in CREATE_ONLY.get(old["Type"], {}).items():
            was = dict(_values(old.get("Properties", {}), path.split("/")))
            now = dict(_values(new.get("Properties", {}), path.split("/")))
            for where in sorted(was.keys() & now.keys()):
                if was[where] != now[where]:
                    yield ConfigError(
                        f"{logical_id}.{where}",
                        _short(now[where]),
                        f"{_short(was[where])}, as it is deployed: it can be set at creation alone. "
                        f"Instead, {instead}",
                    )


def _values(properties: Any, path: list[str], done: str = "") -> Iterator[tuple[str, Any]]:
    """The values at a path, each with the path as it was met; a group is named, not numbered.

    What is not there is None, so that setting it or leaving it out is a change too.
    """
    if not path:
        yield done, properties
        return
    head, rest = path[0], path[1:]
    if head == "*":
        for entry in properties if isinstance(properties, list) else []:
            name = entry.get("InstanceGroupName", "") if isinstance(entry, Mapping) else ""
            yield from _values(entry, rest, f"{done}[{name}]")
    elif isinstance(properties, Mapping):
        yield from _values(properties.get(head), rest, f"{done}.{head}" if done else head)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _read(file: Path) -> dict[str, Any]:
    try:
        template = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ManifestError(str(file), None, f"is no template: {error}") from error
    if not isinstance(template, dict):
        raise ManifestError(str(file), None, "is no template")
    return template
