"""The page is written in three forms that say the same."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hypertier.spec.instance_group import GROUP_LABEL
from hypertier_cdk.review.kubernetes import MANIFEST
from hypertier_cdk.review.page import Review, review_of, to_json, to_markdown, to_text, write_review
from hypertier_cdk.review.templates import assembly_of

SVG = "{http://www.w3.org/2000/svg}"


def workload(component: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": component}
    return {"kind": "Deployment", "metadata": {"name": component, "labels": labels}, "spec": {"replicas": 2}}


TEMPLATE: dict[str, Any] = {
    "Resources": {
        "Cluster": {
            "Type": "AWS::SageMaker::Cluster",
            "Properties": {
                "ClusterName": "it|has a bar",
                "InstanceGroups": [
                    {"InstanceGroupName": "gpu", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 7}
                ],
            },
        },
        "Topic": {"Type": "AWS::SNS::Topic"},
        "Manifest": {
            "Type": MANIFEST,
            "Properties": {"Manifest": json.dumps([workload("engine"), workload("router")])},
        },
    }
}


PRE_PULL = {
    "kind": "DaemonSet",
    "metadata": {"name": "llama-prepull", "labels": {"app.kubernetes.io/component": "prepull"}},
    "spec": {
        "template": {
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": GROUP_LABEL, "operator": "In", "values": ["GPU-a", "GPU-b"]}
                                    ]
                                }
                            ]
                        }
                    }
                }
            }
        }
    },
}


VERIFICATION = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "llama-verify"},
    "spec": {"schedule": "*/5 * * * *"},
}


@pytest.fixture(scope="module")
def review() -> Review:
    return review_of("reference", assembly_of({"a<b": TEMPLATE}), "us-west-2")


def test_nodes_that_get_the_image_ahead_are_named_as_they_are_written(review: Review) -> None:
    manifest = {"Type": MANIFEST, "Properties": {"Manifest": json.dumps([PRE_PULL])}}
    found = review_of("reference", assembly_of({"a": {"Resources": {"Manifest": manifest}}}), "us-west-2")
    said = "odes of GPU-a, GPU-b get the engines' image ahead of them (images.prePull)"

    assert f"\nN{said}.\n" in to_markdown(found)
    assert f"n{said}\n" in to_text(found, "cdk.out")
    assert to_json(found)["pulled_ahead"] == ["GPU-a", "GPU-b"]
    assert "\nNodes get an engine's image when the engine comes.\n" in to_markdown(review)


def test_the_page_has_every_section(review: Review) -> None:
    page = to_markdown(review)

    heads = [line for line in page.splitlines() if line.startswith("## ")]
    assert heads == [
        "## Bill",
        "## Access broader than one resource",
        "## Encryption",
        "## Public",
        "## Installed into the cluster",
        "## Cannot change once deployed",
        "## Quotas to ask for",
        "## Not seen",
    ]
    assert "| ml.p5.48xlarge | 7 nodes | unknown | unknown |" in page


def test_every_row_of_a_table_has_as_many_cells_as_its_head(review: Review) -> None:
    tables = to_markdown(review).split("\n\n")

    for table in (block for block in tables if block.startswith("| ")):
        cells = {line.replace("\\|", "").count("|") for line in table.splitlines()}
        assert len(cells) == 1, table


def test_the_short_form_names_what_is_open_and_unknown(review: Review) -> None:
    text = to_text(review, "cdk.out")

    assert "unknown for ml.p5.48xlarge; the rest 0.00 USD per hour" in text
    assert "not encrypted: Topic: messages" in text
    assert "ml.p5.48xlarge for cluster usage: 7" in text
    assert text.splitlines()[-1].endswith("cdk.out/review.md")


def test_the_picture_draws_what_is_there_and_nothing_else(review: Review) -> None:
    picture = ElementTree.fromstring(review.picture)

    titles = {node.text for node in picture.iter(f"{SVG}text") if node.get("class") == "t"}
    assert titles == {"Client", "Router", "vLLM, L1 in host memory", "HyperPod nodes"}


def test_a_verification_is_drawn_with_how_often_it_comes() -> None:
    manifest = {"Type": MANIFEST, "Properties": {"Manifest": json.dumps([VERIFICATION])}}
    whole = {"Resources": TEMPLATE["Resources"] | {"Verification": manifest}}

    picture = review_of("all", assembly_of({"all": whole}), "us-west-2").picture

    assert "Verification" in picture
    assert "cron */5 * * * *" in picture
    assert "a prompt, twice" in picture


def test_the_picture_says_which_engines_are_stepped() -> None:
    hooks = {
        role.capitalize(): {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Handler": "replicas.handler.handler",
                "Environment": {"Variables": {"DEPLOYMENT": f"llama-{role}"}},
            },
        }
        for role in ("prefill", "decode")
    }

    whole = {"Resources": TEMPLATE["Resources"] | hooks}
    picture = review_of("all", assembly_of({"all": whole}), "us-west-2").picture

    assert picture.index("steps llama-decode") < picture.index("steps llama-prefill")


def test_no_two_boxes_of_the_picture_lie_over_each_other() -> None:
    whole = {
        "Resources": TEMPLATE["Resources"]
        | {
            "L2": {
                "Type": "AWS::ElastiCache::ReplicationGroup",
                "Properties": {"CacheNodeType": "cache.r7g.large"},
            },
            "Alarm": {"Type": "AWS::CloudWatch::Alarm"},
            "Hook": {"Type": "AWS::Lambda::Function", "Properties": {"Handler": "replicas.handler.handler"}},
            "Exporter": {
                "Type": MANIFEST,
                "Properties": {"Manifest": json.dumps([workload("exporter"), VERIFICATION])},
            },
        }
    }

    picture = ElementTree.fromstring(review_of("all", assembly_of({"all": whole}), "us-west-2").picture)

    boxes = [
        tuple(int(node.get(key, "0")) for key in ("x", "y", "width", "height"))
        for node in picture.iter(f"{SVG}rect")
        if node.get("class") == "b"
    ]
    assert len(boxes) == 9
    for (x, y, width, height), (x2, y2, width2, height2) in itertools.combinations(boxes, 2):
        assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y


@pytest.mark.parametrize(
    ("settings", "is_inside"),
    [
        pytest.param({}, False, id="in Lambda's own network"),
        pytest.param({"VpcConfig": {"SubnetIds": ["subnet-1"]}}, True, id="in the VPC"),
    ],
)
def test_what_does_not_run_in_the_vpc_is_drawn_outside_its_frame(
    settings: dict[str, Any], is_inside: bool
) -> None:
    resources = TEMPLATE["Resources"] | {
        "Vpc": {"Type": "AWS::EC2::VPC"},
        "L2": {"Type": "AWS::ElastiCache::ReplicationGroup", "Properties": {}},
        "Alarm": {"Type": "AWS::CloudWatch::Alarm"},
        "Hook": {
            "Type": "AWS::Lambda::Function",
            "Properties": {"Handler": "replicas.handler.handler", **settings},
        },
    }
    picture = ElementTree.fromstring(
        review_of("all", assembly_of({"all": {"Resources": resources}}), "us-west-2").picture
    )
    rects = list(picture.iter(f"{SVG}rect"))
    (frame,) = (node for node in rects if node.get("class") == "z")
    right = int(frame.get("x", "0")) + int(frame.get("width", "0"))

    boxes = [node for node in rects if node.get("class") == "b"]
    titles = [node.text for node in picture.iter(f"{SVG}text") if node.get("class") == "t"]
    ends = {
        title: int(box.get("x", "0")) + int(box.get("width", "0"))
        for title, box in zip(titles, boxes, strict=True)
    }
    starts = {title: int(box.get("x", "0")) for title, box in zip(titles, boxes, strict=True)}

    assert ends["L2: Valkey"] <= right
    assert starts["CloudWatch"] >= right
    assert (ends["Hook (Lambda)"] <= right) == is_inside
    assert (starts["Hook (Lambda)"] >= right) != is_inside


def test_the_three_files_stand_beside_the_templates(tmp_path: Path) -> None:
    (tmp_path / "a.template.json").write_text(json.dumps(TEMPLATE))
    artifact = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "a.template.json"}}
    other = {"type": "cdk:tree", "properties": {"file": "tree.json"}}
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": {"a": artifact, "Tree": other}}))

    review = write_review(tmp_path, "reference", "us-west-2")

    assert json.loads((tmp_path / "review.json").read_text()) == json.loads(json.dumps(to_json(review)))
    assert (tmp_path / "review.md").read_text() == to_markdown(review)
    assert (tmp_path / "review.svg").read_text() == review.picture
    assert review.stacks == ("a",)
