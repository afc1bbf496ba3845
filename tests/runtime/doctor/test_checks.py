"""Every check: ok where nothing is in the way, else failing with the fix, untold where it is denied."""

from __future__ import annotations

import re

import pytest
from doctor_faults import existing, new
from doctor_faults.fault import P5_QUOTA, SYSTEM, Fault, others, stack
from fakes_account import (
    DEPLOYMENTS,
    STORE,
    Account,
    checks,
    hyperpod_cluster,
    not_ok,
    quotas,
    subnets,
    verdicts,
)

from hypertier.doctor.check import Status
from hypertier.doctor.running import Refused, run

FAULTS = {**new.FAULTS, **existing.FAULTS}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_where_nothing_is_in_the_way_every_check_is_ok(name: str) -> None:
    deployment = DEPLOYMENTS[name]()

    assert not_ok(verdicts(deployment, Account(deployment))) == {}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_is_in_the_way_fails_with_its_cause_and_its_fix(fault: Fault) -> None:
    deployment = DEPLOYMENTS[fault.deployment]()

    found = not_ok(verdicts(deployment, Account(deployment, fault.changes)))

    assert sorted(found) == sorted(fault.failing)
    for verdict in found.values():
        assert verdict.status is Status.FAILS
    verdict = found[fault.failing[0]]
    assert re.search(fault.cause, verdict.cause), verdict
    assert re.search(fault.fix, verdict.fix), verdict


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_check_has_a_case_in_which_it_fails(name: str) -> None:
    failing = {check for fault in FAULTS.values() for check in fault.failing}
    kinds = {kind_of(check) for check in failing}

    assert {check.name for check in checks(DEPLOYMENTS[name]()) if kind_of(check.name) not in kinds} == set()


def kind_of(name: str) -> str:
    """A check's name without what it is about."""
    first, *_ = name.split()
    quota = name if name.startswith("quota ") and "for cluster" not in name and "HyperPod" not in name else ""
    what = name.rpartition(":")[2] if "cluster " in name and ":" in name else ""
    return quota or (f"{first}{what}" if "group" not in what else f"{first} group")


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_where_everything_is_denied_every_check_names_what_to_allow(name: str) -> None:
    deployment = DEPLOYMENTS[name]()
    for check in checks(deployment):
        account = Account(deployment, denied=frozenset(asked.action for asked in check.may_ask))

        verdict = run(check, account.ask)

        (asked,) = account.asked
        assert verdict.status is Status.UNTOLD
        assert verdict.cause == "no permission"
        assert verdict.fix.startswith(f"allow {asked.action}")


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_one_denied_action_is_no_failure_and_named_by_every_check_that_needs_it(name: str) -> None:
    deployment = DEPLOYMENTS[name]()
    for check in checks(deployment):
        for denied in {asked.action for asked in check.may_ask}:
            account = Account(deployment, others(SYSTEM), denied=frozenset({denied}))

            verdict = run(check, account.ask)

            was_asked = any(asked.action == denied for asked in account.asked)
            assert (verdict.status is Status.UNTOLD) == was_asked or verdict.status is Status.FAILS, (
                check.name
            )
            assert not was_asked or verdict.fix.startswith(f"allow {denied}")


def test_a_check_asks_nothing_that_it_does_not_declare_and_declares_nothing_that_it_never_asks() -> None:
    asked: dict[tuple[str, str], set[str]] = {}
    declared: dict[tuple[str, str], set[str]] = {}
    worlds = [(name, {}) for name in DEPLOYMENTS] + [
        (fault.deployment, fault.changes) for fault in FAULTS.values()
    ]
    for name, changes in worlds:
        deployment = DEPLOYMENTS[name]()
        for check in checks(deployment):
            account = Account(deployment, changes)
            run(check, account.ask)
            key = (name, check.name)
            asked.setdefault(key, set()).update(f"{found.action} {found.resource}" for found in account.asked)
            declared[key] = {f"{found.action} {found.resource}" for found in check.may_ask}

    assert {key: found - declared[key] for key, found in asked.items() if found - declared[key]} == {}
    ever = set().union(*asked.values())
    assert set().union(*declared.values()) - ever == set()


def test_a_quota_that_is_not_listed_can_not_be_told() -> None:
    deployment = DEPLOYMENTS["reference"]()

    found = not_ok(verdicts(deployment, Account(deployment, {"ListServiceQuotas": {"Quotas": []}})))

    assert {verdict.status for verdict in found.values()} == {Status.UNTOLD}
    assert "7 needed" in found[P5_QUOTA].cause


def test_another_trouble_of_aws_is_told_as_it_is() -> None:
    deployment = DEPLOYMENTS["small"]()
    trouble = {"GetParameter": Refused("ThrottlingException: Rate exceeded")}

    found = not_ok(verdicts(deployment, Account(deployment, trouble)))

    assert found["CDK bootstrap"].status is Status.UNTOLD
    assert found["CDK bootstrap"].cause == "ssm:GetParameter: ThrottlingException: Rate exceeded"


def test_what_is_deployed_already_is_not_counted_again() -> None:
    """The VPC is there, its own nodes have their addresses and their quota."""
    deployment = DEPLOYMENTS["reference"]()
    own = hyperpod_cluster("reference", "own", *deployment.instance_groups)
    there = {
        "DescribeStacks": stack("UPDATE_COMPLETE", *(f"reference-{part}" for part in ("network", "cluster"))),
        "ListClusters": {"ClusterSummaries": [{"ClusterName": "reference"}]},
        "sagemaker:DescribeCluster": own,
        "GetServiceQuota": {"Quota": {"Value": 0.0}},
        "ListServiceQuotas": quotas(p5=7),
    }

    found = verdicts(deployment, Account(deployment, there))

    assert not_ok(found) == {}
    assert found["quota VPCs per Region"].cause == "the VPC is there already"


def test_nodes_that_are_there_already_need_no_further_addresses() -> None:
    deployment = DEPLOYMENTS["existing-eks"]()
    own = hyperpod_cluster("reference", "ml-platform", *deployment.instance_groups)
    there = {
        "DescribeStacks": stack("UPDATE_COMPLETE", "reference-cluster"),
        "DescribeSubnets": subnets(free=0),
        "sagemaker:DescribeCluster": own,
    }

    assert not_ok(verdicts(deployment, Account(deployment, there))) == {}


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "CREATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"])
def test_a_stack_that_the_cdk_deploys_over_is_ok(status: str) -> None:
    deployment = DEPLOYMENTS["small"]()

    found = verdicts(deployment, Account(deployment, {"DescribeStacks": stack(status, "small-serving")}))

    assert found["stack small-serving"].status is Status.OK


def test_nodes_of_several_types_and_restricted_groups_count_against_each_of_their_quotas() -> None:
    other = hyperpod_cluster("other", "others")
    other["InstanceGroups"] = [
        {
            "InstanceGroupName": "mixed",
            "InstanceTypeDetails": [
                {"InstanceType": "ml.p5.48xlarge", "CurrentCount": 3},
                {"InstanceType": "ml.p5e.48xlarge", "CurrentCount": 1},
            ],
            "TargetCount": 6,
            "CurrentCount": 4,
        },
        {
            "InstanceGroupName": "spot",
            "InstanceType": "ml.p5.48xlarge",
            "CurrentCount": 9,
            "CapacityRequirements": {"Spot": {}},
        },
    ]
    other["RestrictedInstanceGroups"] = [
        {"InstanceGroupName": "closed", "InstanceType": "ml.p5.48xlarge", "CurrentCount": 1, "TargetCount": 2}
    ]
    deployment = DEPLOYMENTS["reference"]()
    changes = {
        "ListClusters": {"ClusterSummaries": [{"ClusterName": "other"}]},
        "sagemaker:DescribeCluster": lambda question: other if "other" in question.written else None,
    }

    found = verdicts(deployment, Account(deployment, changes))

    assert "7 needed, 5 in use" in found[P5_QUOTA].cause
    everywhere = "quota Total number of instances allowed across SageMaker HyperPod clusters"
    assert "10 needed, 17 in use" in found[everywhere].cause


def test_a_store_without_servers_is_found_by_its_address() -> None:
    deployment = DEPLOYMENTS["everything"]()
    changes = {
        "DescribeReplicationGroups": {"ReplicationGroups": []},
        "DescribeServerlessCaches": {
            "ServerlessCaches": [{"Status": "available", "Endpoint": {"Address": STORE, "Port": 6379}}]
        },
    }

    assert not_ok(verdicts(deployment, Account(deployment, changes))) == {}


def test_an_extended_version_is_ok_and_said_to_cost_more() -> None:
    deployment = DEPLOYMENTS["small"]()
    versions = {"clusterVersions": [{"clusterVersion": "1.35", "versionStatus": "EXTENDED_SUPPORT"}]}

    found = verdicts(deployment, Account(deployment, {"eks:DescribeClusterVersions": versions}))

    assert found["Kubernetes 1.35"].status is Status.OK
    assert "costs more" in found["Kubernetes 1.35"].cause
