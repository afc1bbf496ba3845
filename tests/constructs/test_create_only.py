"""Changes that would replace what cannot be replaced are found between two syntheses."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from fakes_templates import REGION, resources

from hypertier.errors import ConfigError, ManifestError
from hypertier_cdk.create_only import CREATE_ONLY, refuse_replacements, replacements

REFUSED_BY_HYPERPOD = "InstanceGroups/*/OverrideVpcConfig"
FOLLOWS_THE_VPC = "VpcId"


def changed(template: dict[str, Any], kind: str, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The template with the first resource of a kind changed."""
    new = copy.deepcopy(template)
    logical_id = next(iter(resources(new, kind)))
    change(new["Resources"][logical_id]["Properties"])
    return new


def settings(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [problem.setting for problem in replacements(before, after)]


def create_only(kind: str) -> set[str]:
    """What the schema of a resource type names as create-only."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema
    return {pointer.removeprefix("/properties/") for pointer in schema["createOnlyProperties"]}


def is_set(properties: Any, path: str) -> bool:
    for key in path.split("/"):
        if not isinstance(properties, dict) or key not in properties:
            return False
        properties = properties[key]
    return True


def covers(listed: str, path: str) -> bool:
    return path == listed or path.startswith(f"{listed}/")


@pytest.mark.parametrize("kind", CREATE_ONLY)
def test_what_is_listed_is_create_only_by_the_schema_of_cloudformation(kind: str) -> None:
    by_schema = create_only(kind)

    unknown = [listed for listed in CREATE_ONLY[kind] if not any(covers(listed, path) for path in by_schema)]

    assert unknown == ([REFUSED_BY_HYPERPOD] if kind == "AWS::SageMaker::Cluster" else [])


@pytest.mark.parametrize("kind", CREATE_ONLY)
def test_what_is_create_only_by_the_schema_and_set_by_us_is_listed(reference: Any, kind: str) -> None:
    found = resources(reference.template, kind).values()

    forgotten = {
        path
        for path in create_only(kind) - {FOLLOWS_THE_VPC}
        if any(is_set(resource["Properties"], path) for resource in found)
        and not any(covers(listed, path) for listed in CREATE_ONLY[kind])
    }

    assert found
    assert not forgotten


@pytest.mark.parametrize(
    ("kind", "change", "path"),
    [
        pytest.param(
            "AWS::SageMaker::Cluster",
            lambda p: p.update(ClusterName="other"),
            "ClusterName",
            id="the cluster's name",
        ),
        pytest.param(
            "AWS::SageMaker::Cluster",
            lambda p: p["VpcConfig"]["Subnets"].pop(),
            "VpcConfig",
            id="its subnets",
        ),
        pytest.param(
            "AWS::SageMaker::Cluster",
            lambda p: p["Orchestrator"]["Eks"].update(ClusterArn="arn:other"),
            "Orchestrator",
            id="its EKS cluster",
        ),
        pytest.param(
            "AWS::SageMaker::Cluster",
            lambda p: p["InstanceGroups"][1].pop("OverrideVpcConfig"),
            "InstanceGroups[gpu].OverrideVpcConfig",
            id="a group leaves its zone",
        ),
        pytest.param(
            "AWS::SageMaker::Cluster",
            lambda p: p["InstanceGroups"][0].update(OverrideVpcConfig={"Subnets": ["subnet-1"]}),
            "InstanceGroups[system].OverrideVpcConfig",
            id="a group moves into a zone",
        ),
        pytest.param(
            "AWS::EC2::Subnet",
            lambda p: p.update(AvailabilityZoneId="usw2-az4"),
            "AvailabilityZoneId",
            id="a zone",
        ),
        pytest.param(
            "AWS::EC2::VPC", lambda p: p.update(CidrBlock="10.1.0.0/16"), "CidrBlock", id="the VPC's range"
        ),
        pytest.param(
            "AWS::ElastiCache::ReplicationGroup", lambda p: p.update(Port=6380), "Port", id="the store's port"
        ),
    ],
)
def test_a_change_of_what_is_set_at_creation_is_found(
    reference: Any, kind: str, change: Callable[[dict[str, Any]], None], path: str
) -> None:
    after = changed(reference.template, kind, change)

    (found,) = settings(reference.template, after)

    assert found.endswith(f".{path}")


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param(
            "AWS::SageMaker::Cluster",
            lambda p: p["InstanceGroups"][1].update(InstanceCount=8),
            id="more nodes",
        ),
        pytest.param(
            "AWS::SageMaker::Cluster",
            lambda p: p["InstanceGroups"].append({"InstanceGroupName": "new", "OverrideVpcConfig": {}}),
            id="one group more",
        ),
        pytest.param("AWS::SageMaker::Cluster", lambda p: p["InstanceGroups"].pop(), id="one group less"),
        pytest.param(
            "AWS::SageMaker::Cluster", lambda p: p["InstanceGroups"].reverse(), id="groups in another order"
        ),
        pytest.param(
            "AWS::ElastiCache::ReplicationGroup", lambda p: p.update(NumNodeGroups=9), id="more shards"
        ),
        pytest.param("AWS::EKS::Cluster", lambda p: p.update(Version="1.36"), id="a newer Kubernetes"),
    ],
)
def test_a_change_that_is_made_in_place_is_let_through(
    reference: Any, kind: str, change: Callable[[dict[str, Any]], None]
) -> None:
    after = changed(reference.template, kind, change)

    assert settings(reference.template, after) == []


def test_what_is_gone_or_of_another_type_is_no_replacement(reference: Any) -> None:
    after = copy.deepcopy(reference.template)
    (cluster,) = resources(after, "AWS::SageMaker::Cluster")
    after["Resources"][cluster]["Type"] = "AWS::SNS::Topic"
    (vpc,) = resources(after, "AWS::EC2::VPC")
    del after["Resources"][vpc]

    assert settings(reference.template, after) == []


def assemblies(tmp_path: Path, before: dict[str, Any], after: dict[str, Any]) -> tuple[Path, Path]:
    folders = tmp_path / "deployed", tmp_path / "new"
    for folder, template in zip(folders, (before, after), strict=True):
        folder.mkdir()
        (folder / "Reference.template.json").write_text(json.dumps(template), encoding="utf-8")
    return folders


def test_the_refusal_names_the_property_both_values_and_what_to_do_instead(
    reference: Any, tmp_path: Path
) -> None:
    after = changed(reference.template, "AWS::SageMaker::Cluster", lambda p: p.update(ClusterName="other"))

    with pytest.raises(ConfigError) as refused:
        refuse_replacements(*assemblies(tmp_path, reference.template, after))

    message = str(refused.value)
    assert refused.value.got == "other"
    assert "reference, as it is deployed" in message
    assert "make a second cluster beside this one" in message


def test_the_same_deployment_again_is_let_through(reference: Any, tmp_path: Path) -> None:
    refuse_replacements(*assemblies(tmp_path, reference.template, reference.template))


def test_a_stack_that_is_new_or_gone_is_let_through(reference: Any, tmp_path: Path) -> None:
    deployed, new = assemblies(tmp_path, reference.template, {})
    (new / "Reference.template.json").rename(new / "Other.template.json")

    refuse_replacements(deployed, new)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_template_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    deployed, new = assemblies(tmp_path, {}, {})
    (deployed / "Reference.template.json").write_text(text, encoding="utf-8")

    with pytest.raises(ManifestError, match=r"Reference\.template\.json"):
        refuse_replacements(deployed, new)
