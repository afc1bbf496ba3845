"""The L2 store: encrypted, sized, closed until opened, its password in no template."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from fakes_templates import new_stack, properties, statements, synthesize, the

from hypertier.errors import ConfigError
from hypertier.planning.store import plan_store
from hypertier_cdk import CacheStore, Network

GIB = 2**30
GB = 10**9


def store_of(stack: Any, **settings: Any) -> CacheStore:
    vpc = Network(stack, "Network").vpc
    chosen = {"bandwidth_bytes_per_second": GB, "size_bytes": 10 * GIB} | settings
    return CacheStore(stack, "L2", vpc=vpc, **chosen)


def test_shards_and_node_type_follow_from_bandwidth_and_size(reference: Any) -> None:
    asked = reference.deployment.cache.l2
    plan = plan_store(asked.bandwidth_bytes_per_second, asked.size_bytes)

    group = the(reference.template, "AWS::ElastiCache::ReplicationGroup")
    assert group["CacheNodeType"] == plan.node_type.name
    assert group["NumNodeGroups"] == plan.num_shards


def test_the_store_is_valkey_encrypted_at_rest_and_in_transit(reference: Any) -> None:
    group = the(reference.template, "AWS::ElastiCache::ReplicationGroup")

    assert group["Engine"] == "valkey"
    assert group["TransitEncryptionEnabled"] is True
    assert group["TransitEncryptionMode"] == "required"
    assert group["AtRestEncryptionEnabled"] is True
    assert "Fn::GetAtt" in group["KmsKeyId"]


def test_the_store_outlives_the_loss_of_a_zone(reference: Any) -> None:
    group = the(reference.template, "AWS::ElastiCache::ReplicationGroup")

    assert group["MultiAZEnabled"] is True
    assert group["AutomaticFailoverEnabled"] is True
    assert group["ReplicasPerNodeGroup"] >= 1


def test_a_full_store_drops_what_was_read_longest_ago(reference: Any) -> None:
    parameters = the(reference.template, "AWS::ElastiCache::ParameterGroup")["Properties"]

    assert parameters["maxmemory-policy"] == "allkeys-lru"
    assert parameters["cluster-enabled"] == "yes"


def test_the_password_is_generated_and_stands_in_no_template(reference: Any) -> None:
    user = the(reference.template, "AWS::ElastiCache::User")
    secret = the(reference.template, "AWS::SecretsManager::Secret")

    (password,) = user["AuthenticationMode"]["Passwords"]
    generated = secret["GenerateSecretString"]
    assert "{{resolve:secretsmanager:" in json.dumps(password)
    assert json.loads(generated["SecretStringTemplate"]) == {"username": user["UserName"]}
    assert generated["GenerateStringKey"] == "password"


def test_the_user_may_neither_empty_nor_stop_the_store(reference: Any) -> None:
    rules = the(reference.template, "AWS::ElastiCache::User")["AccessString"].split()

    assert "-@all" in rules
    assert rules.index("-@dangerous") > max(rules.index("+@read"), rules.index("+@write"))
    assert not any(rule.startswith("nopass") for rule in rules)


def test_the_url_is_encrypted_and_without_credentials(reference: Any) -> None:
    url = reference.store.url

    assert url.startswith("rediss://")
    assert url.endswith(":6379")
    assert "@" not in url


def test_the_store_is_closed_until_opened() -> None:
    closed = synthesize(store_of)
    opened = synthesize(
        lambda stack: store_of(stack).connections.allow_default_port_from(ec2.Peer.ipv4("10.0.0.0/16"))
    )

    def rules(template: dict[str, Any]) -> list[tuple[int, int]]:
        (group,) = [
            group
            for group in properties(template, "AWS::EC2::SecurityGroup")
            if group["GroupDescription"] == "L2 cache"
        ]
        return [(rule["FromPort"], rule["ToPort"]) for rule in group.get("SecurityGroupIngress", [])]

    assert rules(closed) == []
    assert rules(opened) == [(6379, 6379)]


def test_reading_the_secret_is_granted_for_this_secret_and_its_key_alone(reference: Any) -> None:
    reads = {
        statement["Action"]: statement
        for statement in statements(reference.template)
        if statement["Action"] in ("secretsmanager:GetSecretValue", "kms:Decrypt")
    }

    assert set(reads) == {"secretsmanager:GetSecretValue", "kms:Decrypt"}
    assert "Ref" in reads["secretsmanager:GetSecretValue"]["Resource"]
    assert "Fn::GetAtt" in reads["kms:Decrypt"]["Resource"]
    assert reads["kms:Decrypt"]["Condition"] == {
        "StringEquals": {"kms:ViaService": "secretsmanager.us-west-2.amazonaws.com"}
    }


def test_a_role_of_a_later_stack_may_read_the_secret() -> None:
    app = cdk.App()
    first, later = cdk.Stack(app, "First"), cdk.Stack(app, "Later")
    store = store_of(first)

    store.grant_read_secret(iam.Role(later, "Role", assumed_by=iam.AccountRootPrincipal()))

    app.synth()
    assert [stack.node.id for stack in later.dependencies] == ["First"]


def test_a_store_without_replicas_is_refused() -> None:
    with pytest.raises(ConfigError, match="to outlive the loss of a zone"):
        store_of(new_stack(), replicas_per_shard=0)


def test_each_shard_tells_when_it_gives_less_than_was_planned() -> None:
    def build(stack: Any) -> None:
        store = store_of(stack, bandwidth_bytes_per_second=8 * GB, size_bytes=600 * GIB)
        assert len(store.add_alarms()) == 2 * store.plan.num_shards

    template = synthesize(build)

    alarms = properties(template, "AWS::CloudWatch::Alarm")
    nodes = {alarm["Dimensions"][0]["Value"]["Fn::Join"][1][1] for alarm in alarms}
    shards = the(template, "AWS::ElastiCache::ReplicationGroup")["NumNodeGroups"]
    assert nodes == {f"-{shard:04d}-001" for shard in range(1, shards + 1)}
    assert {alarm["MetricName"] for alarm in alarms} == {
        "EngineCPUUtilization",
        "NetworkBandwidthOutAllowanceExceeded",
    }


@pytest.mark.parametrize("shard", [0, -1, 99])
def test_a_shard_that_the_store_does_not_have_is_refused(shard: int) -> None:
    with pytest.raises(ConfigError) as refused:
        store_of(new_stack()).metric("Evictions", shard)

    assert refused.value.setting == "shard"
