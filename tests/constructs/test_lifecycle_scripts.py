"""A lifecycle script of this machine is in S3 before the nodes, which may read it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from fakes_templates import depends_on, new_stack, resources, statements, template_of, the

from hypertier.errors import ConfigError
from hypertier.spec.lifecycle import LifecycleScript
from hypertier_cdk import HyperPodCluster, InstanceGroup, Network
from hypertier_cdk.lifecycle_scripts import LifecycleScripts, located
from hypertier_cdk.review.templates import text_of
from hypertier_cdk.testing import Emulator

UPLOAD = "Custom::CDKBucketDeployment"
FIRST = b"#!/bin/bash\necho first\n"


def cluster(stack: cdk.Stack, **scripts: LifecycleScript) -> HyperPodCluster:
    return HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network"),
        kubernetes_version="1.35",
        instance_groups=[
            InstanceGroup(name=name, instance_type="ml.m5.4xlarge", count=1, lifecycle=script)
            for name, script in scripts.items()
        ],
        name="scripted",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "on_create.sh").write_bytes(FIRST)
    (tmp_path / "lib" / "more.sh").write_bytes(b"echo more\n")
    return tmp_path


@pytest.fixture
def template(folder: Path) -> dict[str, Any]:
    stack = new_stack()
    cluster(stack, system=LifecycleScript(source=str(folder), file="on_create.sh"))
    return template_of(stack)


def test_the_group_takes_it_from_a_bucket_as_hyperpod_asks(template: dict[str, Any]) -> None:
    (bucket_id,) = (
        key
        for key, entry in resources(template, "AWS::S3::Bucket").items()
        if "sagemaker-hypertier-" in str(entry["Properties"].get("BucketName"))
    )
    (group,) = the(template, "AWS::SageMaker::Cluster")["InstanceGroups"]

    assert group["LifeCycleConfig"] == {
        "SourceS3Uri": {"Fn::Join": ["", ["s3://", {"Ref": bucket_id}, "/system/"]]},
        "OnInitComplete": "on_create.sh",
    }


def test_it_is_there_before_the_nodes(template: dict[str, Any]) -> None:
    (uploaded,) = resources(template, UPLOAD)
    (hyperpod,) = resources(template, "AWS::SageMaker::Cluster")

    assert uploaded in depends_on(template, hyperpod)


@pytest.mark.parametrize(
    ("source", "read", "listed"),
    [
        pytest.param("s3://sagemaker-a/x/", "sagemaker-a/x/*", ["x/*", "x"], id="a folder"),
        pytest.param("s3://sagemaker-a", "sagemaker-a/*", None, id="a whole bucket"),
    ],
)
def test_nodes_may_read_this_address_and_nothing_beside_it(
    source: str, read: str, listed: list[str] | None
) -> None:
    stack = new_stack()
    cluster(stack, system=LifecycleScript(source=source, file="a.sh"))

    of_s3 = {
        statement["Action"]: statement
        for statement in statements(template_of(stack))
        if str(statement["Action"]).startswith("s3:")
    }

    assert text_of(of_s3["s3:GetObject"]["Resource"]) == f"arn:${{AWS::Partition}}:s3:::{read}"
    assert text_of(of_s3["s3:ListBucket"]["Resource"]) == "arn:${AWS::Partition}:s3:::sagemaker-a"
    prefixes = of_s3["s3:ListBucket"].get("Condition", {}).get("StringLike", {}).get("s3:prefix")
    assert prefixes == listed


def test_a_group_without_a_script_has_neither_bucket_nor_function() -> None:
    stack = new_stack()
    HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network"),
        kubernetes_version="1.35",
        instance_groups=[InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1)],
        name="plain",
    )
    template = template_of(stack)

    assert resources(template, UPLOAD) == {}
    assert resources(template, "AWS::S3::Bucket") == {}


def test_a_script_that_is_not_there_is_refused_as_it_was_typed(folder: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"instance_groups\.system\.lifecycle\.file is 'b\.sh'.*on_create\.sh"
    ):
        cluster(new_stack(), system=LifecycleScript(source=str(folder), file="b.sh"))


def test_deployed_it_lies_there_file_by_file_and_goes_with_the_stack(folder: Path) -> None:
    stack = new_stack(deployed=True)
    whole = LifecycleScript(source=str(folder), file="on_create.sh")
    alone = LifecycleScript(source=str(folder / "on_create.sh"))
    LifecycleScripts(stack, "Scripts", scripts=located({"a": whole, "b": alone}))
    app = stack.node.root
    assert isinstance(app, cdk.App)
    emulator = Emulator()

    emulator.deploy(app.synth().directory)
    (objects,) = emulator.objects.values()
    held = dict(objects)
    emulator.destroy()

    assert {key for key in held if key.startswith("a/")} == {"a/on_create.sh", "a/lib/more.sh"}
    assert {key for key in held if key.startswith("b/")} == {"b/on_create.sh"}
    assert held["a/on_create.sh"] == held["b/on_create.sh"] == FIRST
    assert objects == {}
