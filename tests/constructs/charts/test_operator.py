"""For AWS's operator the manifest goes through as written, unless the operator would ignore part of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from fakes_charts import PREFILL_AND_DECODE, deployment

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment, Operator
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.objects import endpoint_objects
from hypertier_cdk.charts.render import render

CRDS = os.environ.get("HYPERTIER_CRDS")


def resource_of(wanted: Deployment, inputs: ChartInputs | None = None) -> dict[str, Any]:
    (resource,) = endpoint_objects(wanted, wanted.endpoints[0], inputs or ChartInputs())
    return resource


def operated(changes: dict[str, Any] | None = None, version: str = "3.7") -> Deployment:
    return deployment(changes, serving="operator", operator=Operator(version=version))


def test_the_resource_is_the_manifest() -> None:
    wanted = operated()

    assert resource_of(wanted) == wanted.endpoints[0].to_manifest()


def test_the_resource_comes_after_its_namespace() -> None:
    assert [entry["kind"] for entry in render(operated())] == ["Namespace", "InferenceEndpointConfig"]


def test_the_operator_s_pods_are_not_held_to_our_pod_standard() -> None:
    labels = render(operated())[0]["metadata"]["labels"]

    assert not [label for label in labels if label.startswith("pod-security")]


def test_the_address_of_a_store_that_aws_makes_is_filled_in() -> None:
    url = "rediss://${Token[TOKEN.7]}:6379"

    resource = resource_of(operated(), ChartInputs(l2_url=url))

    assert resource["spec"]["kvCacheSpec"]["l2CacheSpec"]["l2CacheLocalUrl"] == url


def test_tiered_storage_goes_through_without_an_address() -> None:
    cache = {"enableL2Cache": True, "l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}

    resource = resource_of(
        operated({"spec.kvCacheSpec": cache}), ChartInputs(l2_url="redis://x.example:6379")
    )

    assert resource["spec"]["kvCacheSpec"] == cache


REFUSED = {
    "tolerations before 3.7": (
        {"spec.kubernetes": {"tolerations": [{"operator": "Exists"}]}},
        "3.6",
        r"spec\.kubernetes\.tolerations is .*; expected operator\.version 3\.7 or newer",
    ),
    "a switch that 3.2 ignores": (
        {"spec.kvCacheSpec.enableL2Cache": False},
        "3.2",
        r"spec\.kvCacheSpec\.enableL2Cache is false; expected operator\.version 3\.3 or newer",
    ),
    "prefill and decode before 3.2": (
        {"spec.pdSpec": PREFILL_AND_DECODE},
        "3.1.2",
        r"spec\.pdSpec is .*; expected operator\.version 3\.2 or newer",
    ),
    "a field that this library does not type": (
        {"spec.lmcache": {"mode": "MultiProcess"}},
        "3.6",
        r"spec\.lmcache is .*; expected operator\.version 3\.7 or newer",
    ),
    "no version": ({}, "latest", r"operator\.version is 'latest'; expected a version of AWS's operator"),
    "Redis without an address": (
        {"spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": None},
        "3.7",
        r"l2CacheLocalUrl is not set; expected redis://HOST:PORT",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_operator_would_ignore_is_refused(case: str) -> None:
    changes, version, message = REFUSED[case]

    with pytest.raises(ConfigError, match=message):
        resource_of(operated(changes, version))


@pytest.mark.parametrize("version", ["3.7", "3.10", "4.0", "3.7.1"])
def test_newer_versions_take_what_3_7_takes(version: str) -> None:
    resource = resource_of(operated({"spec.kubernetes": {"tolerations": [{"operator": "Exists"}]}}, version))

    assert resource["spec"]["kubernetes"]["tolerations"]


@pytest.mark.skipif(CRDS is None, reason="HYPERTIER_CRDS names no folder with AWS's CRDs")
def test_the_resource_keeps_aws_s_own_schema() -> None:
    file = Path(CRDS or "") / "inference.sagemaker.aws.amazon.com_inferenceendpointconfigs.yaml"
    versions = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]["versions"]
    schema = next(v["schema"]["openAPIV3Schema"] for v in versions if v["name"] == "v1")

    jsonschema.validate(resource_of(operated()), schema)
