"""A store that exists already: engines may read its password, and nothing of it is made or changed."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from fakes_charts import deployment
from fakes_templates import new_stack, properties, resources, statements, template_of

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment, Images
from hypertier_cdk import (
    CacheStore,
    HyperPodCluster,
    InferenceEndpoint,
    InstanceGroup,
    Network,
    TieredStorage,
)
from hypertier_cdk.review.templates import text_of

URL = "rediss://store.example.com:6379"
SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:store-a1b2c3"
KEY = "arn:aws:kms:us-west-2:123456789012:key/0a1b2c3d-0000-0000-0000-000000000000"
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
TIERED = {"spec.kvCacheSpec.l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}


def build(stack: cdk.Stack, asked: Deployment, store: Any) -> dict[str, Any]:
    cluster = HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network"),
        kubernetes_version="1.35",
        instance_groups=[InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1)],
        name="test",
    )
    InferenceEndpoint(stack, "Endpoint", cluster=cluster, deployment=asked, cache_store=store)
    return template_of(stack)


def asked(changes: Any = None) -> Deployment:
    return deployment(changes, images=Images(engine="r.example/e:1", router="r.example/r:1"))


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = new_stack()
    return build(
        stack,
        asked(),
        CacheStore.from_cache_store_attributes(stack, "L2", url=URL, secret_arn=SECRET, key_arn=KEY),
    )


def test_engines_get_its_address_and_its_secret_s_name(template: dict[str, Any]) -> None:
    manifests = json.dumps([entry["Manifest"] for entry in properties(template, MANIFEST)])

    assert URL in manifests
    assert SECRET in manifests


def test_engines_may_read_this_secret_and_decrypt_it_through_its_service_alone(
    template: dict[str, Any],
) -> None:
    granted = {
        statement["Action"]: statement
        for statement in statements(template)
        if statement["Action"] in ("secretsmanager:GetSecretValue", "kms:Decrypt")
    }

    assert granted["secretsmanager:GetSecretValue"]["Resource"] == SECRET
    assert granted["kms:Decrypt"]["Resource"] == KEY
    assert "kms:ViaService" in str(granted["kms:Decrypt"]["Condition"])


def test_engines_may_reach_it_in_a_network_beside_the_vpc(template: dict[str, Any]) -> None:
    manifests = [text_of(entry["Manifest"]) for entry in properties(template, MANIFEST)]
    (engine,) = (
        entry
        for manifest in manifests
        for entry in json.loads(manifest)
        if entry["kind"] == "NetworkPolicy" and entry["metadata"]["name"].endswith("engine")
    )

    (to_l2,) = (rule for rule in engine["spec"]["egress"] if rule["ports"][0]["port"] == 6379)
    assert to_l2["to"][0]["ipBlock"]["cidr"] == "0.0.0.0/0"


def test_a_secret_of_another_region_is_decrypted_by_the_service_there() -> None:
    stack = new_stack()
    elsewhere = SECRET.replace("us-west-2", "us-east-1")
    store = CacheStore.from_cache_store_attributes(stack, "L2", url=URL, secret_arn=elsewhere, key_arn=KEY)
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("pods.eks.amazonaws.com"))

    store.grant_read_secret(role)

    (decrypt,) = (each for each in statements(template_of(stack)) if each["Action"] == "kms:Decrypt")
    (service,) = decrypt["Condition"]["StringEquals"].values()
    assert service == "secretsmanager.us-east-1.amazonaws.com"


def test_nothing_of_a_store_is_made_and_no_group_of_its_is_opened(template: dict[str, Any]) -> None:
    for kind in ("AWS::ElastiCache::ReplicationGroup", "AWS::SecretsManager::Secret"):
        assert resources(template, kind) == {}
    assert all(
        rule.get("FromPort") != 6379 for rule in properties(template, "AWS::EC2::SecurityGroupIngress")
    )


def test_tiered_storage_is_taken_as_a_store_too() -> None:
    template = build(new_stack(), asked(TIERED), TieredStorage())

    assert "sagemaker-hyperpod://" in json.dumps(
        [entry["Manifest"] for entry in properties(template, MANIFEST)]
    )


@pytest.mark.parametrize(
    ("changes", "store"),
    [
        pytest.param(None, TieredStorage(), id="tiered storage, and the manifest says redis"),
        pytest.param(TIERED, None, id="a store, and the manifest says tieredstorage"),
    ],
)
def test_another_store_than_the_manifest_s_is_refused(changes: Any, store: TieredStorage | None) -> None:
    stack = new_stack()
    given = store or CacheStore.from_cache_store_attributes(stack, "L2", url=URL, secret_arn=SECRET)

    with pytest.raises(ConfigError, match=r"l2CacheBackend is .*to use the cache_store"):
        build(stack, asked(changes), given)


@pytest.mark.parametrize("url", ["store.example.com", "http://store:6379", "rediss://user:secret@store:6379"])
def test_an_address_that_no_engine_could_use_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="url is"):
        CacheStore.from_cache_store_attributes(new_stack(), "L2", url=url, secret_arn=SECRET)
