"""HyperPod's tiered storage: engines reach the daemon of their node, and cannot harm its memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes_charts import TIERED, TIERED_CACHE, deployment

from hypertier.tier.address import parse_l2_url
from hypertier.tier.preflight import option
from hypertier.tier.settings import read_settings
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.objects import endpoint_objects

SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:l2"


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    wanted = deployment(TIERED, cache=TIERED_CACHE)
    inputs = ChartInputs(vpc_cidrs=("10.0.0.0/16",), l2_secret_arn=SECRET)
    return endpoint_objects(wanted, wanted.endpoints[0], inputs)


@pytest.fixture(scope="module")
def pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    engine = next(e for e in objects if e["kind"] == "Deployment" and "engine" in e["metadata"]["name"])
    found: dict[str, Any] = engine["spec"]["template"]["spec"]
    return found


def test_the_address_is_that_of_the_node_and_stands_after_it(pod: dict[str, Any]) -> None:
    env = pod["containers"][0]["env"]

    names = [entry["name"] for entry in env]
    assert env[0]["valueFrom"]["fieldRef"]["fieldPath"] == "status.hostIP"
    assert names.index("NODE_IP") < names.index("HYPERTIER_L2_URL")
    url = env[names.index("HYPERTIER_L2_URL")]["value"].replace("$(NODE_IP)", "10.0.0.7")
    assert parse_l2_url(url).is_daemon
    assert parse_l2_url(url).port == 9200


def test_the_daemon_asks_for_no_password(pod: dict[str, Any]) -> None:
    assert "HYPERTIER_L2_SECRET_ARN" not in [entry["name"] for entry in pod["containers"][0]["env"]]


def test_the_tier_reads_its_settings_from_what_is_rendered(pod: dict[str, Any]) -> None:
    config = json.loads(option(pod["containers"][0]["args"], "--kv-transfer-config") or "")
    (tier,) = config["kv_connector_extra_config"]["secondary_tiers"]

    settings = read_settings(
        {key: value for key, value in tier.items() if key not in ("type", "module_path")},
        {"HYPERTIER_L2_URL": "sagemaker-hyperpod://10.0.0.7:9200"},
    )

    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert settings.segment_path == f"{mounts['node-shm']['mountPath']}/ai_toolkit_cache"


def test_no_engine_can_change_or_remove_the_daemon_s_memory(
    objects: list[dict[str, Any]], pod: dict[str, Any]
) -> None:
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}

    assert mounts["node-shm"]["readOnly"] is True
    assert volumes["node-shm"]["persistentVolumeClaim"]["readOnly"] is True
    assert mounts["shm"]["mountPath"] == "/dev/shm"  # L1 is the pod's own
    assert "hostPath" not in str(pod)


def test_engines_may_reach_the_daemon(objects: list[dict[str, Any]]) -> None:
    policy = next(e for e in objects if e["kind"] == "NetworkPolicy" and "engine" in e["metadata"]["name"])

    assert policy["spec"]["egress"][-1] == {
        "to": [{"ipBlock": {"cidr": "10.0.0.0/16"}}],
        "ports": [{"protocol": "TCP", "port": 9200}],
    }


def test_the_backend_is_named_in_any_case_as_in_aws_s_own_pattern() -> None:
    named = {"spec.kvCacheSpec.l2CacheSpec": {"l2CacheBackend": "TieredStorage"}}
    wanted = deployment(named, cache=TIERED_CACHE)

    objects = endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())

    assert "llama-70b-node-shm" in [e["metadata"]["name"] for e in objects]
