"""HyperPod's own access to the cluster: what it looks for by name is there, where it is used, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from hypertier_cdk import InstanceGroup
from hypertier_cdk.hyperpod_access import CHECKER, NAMESPACE, deep_health_checks, namespace, patching
from hypertier_cdk.node_agents import node_agents

PLAIN = InstanceGroup(name="plain", instance_type="ml.m5.4xlarge", count=1)
CHECKED = InstanceGroup(
    name="checked", instance_type="ml.g5.xlarge", count=1, deep_health_checks=("InstanceStress",)
)


def by_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [entry for entry in objects if entry["kind"] == kind]


def test_a_checked_group_brings_the_account_that_checks_run_under() -> None:
    (account,) = by_kind(deep_health_checks([PLAIN, CHECKED]), "ServiceAccount")

    assert account["metadata"] == {"name": CHECKER, "namespace": NAMESPACE}


def test_without_a_checked_group_nobody_may_check() -> None:
    assert deep_health_checks([PLAIN]) == []


def test_hyperpod_may_evict_pods_but_not_delete_them() -> None:
    (role,) = by_kind(patching(), "ClusterRole")

    verbs = {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}
    assert verbs == {"pods": ["list"], "pods/eviction": ["create"], "nodes": ["list", "get", "patch"]}


@pytest.mark.parametrize(
    "objects",
    [pytest.param(patching(), id="patching"), pytest.param(deep_health_checks([CHECKED]), id="checks")],
)
def test_a_binding_binds_the_role_beside_it(objects: list[dict[str, Any]]) -> None:
    (role,), (binding,) = by_kind(objects, "ClusterRole"), by_kind(objects, "ClusterRoleBinding")

    assert binding["roleRef"]["name"] == role["metadata"]["name"]


@pytest.mark.parametrize("groups", [pytest.param([PLAIN], id="plain"), pytest.param([CHECKED], id="checked")])
def test_every_cluster_has_the_namespace_once_and_before_what_is_in_it(groups: list[InstanceGroup]) -> None:
    objects = node_agents(groups, "us-west-2")

    assert objects[0] == namespace()
    assert by_kind(objects, "Namespace") == [namespace()]
    assert len(by_kind(objects, "ClusterRoleBinding")) == (1 if groups == [PLAIN] else 3)
