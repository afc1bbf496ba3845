"""HyperPod clusters in the emulator: as large as the account's quotas let them be."""

from __future__ import annotations

import pytest
from fakes_stacks import ROOT, example_folder

from hypertier.errors import ConfigError, DeploymentError
from hypertier_cdk.review.quotas import quotas_of
from hypertier_cdk.review.templates import read_assembly
from hypertier_cdk.testing import Emulator

CLUSTER = "AWS::SageMaker::Cluster"
P5 = "ml.p5.48xlarge for cluster usage"


def nodes(count: int, *, spot: bool = False) -> dict[str, object]:
    """A template with a cluster of so many nodes."""
    group = {"InstanceGroupName": "gpu", "InstanceType": "ml.p5.48xlarge", "InstanceCount": count}
    bought = {"CapacityRequirements": {"Spot": {}}} if spot else {}
    properties = {"InstanceGroups": [group | bought]}
    return {"Resources": {"Cluster": {"Type": CLUSTER, "Properties": properties}}}


def test_more_nodes_than_a_quota_allows_are_refused_and_those_there_were_stay() -> None:
    emulator = Emulator(quotas={P5: 2})
    emulator.put_stack("Mine", nodes(2))

    with pytest.raises(
        DeploymentError, match=f"ResourceLimitExceeded: the quota '{P5}' is 2, and 3 are asked"
    ):
        emulator.put_stack("Mine", nodes(3))

    ((cluster, _),) = emulator.resources(CLUSTER)
    assert cluster.properties["InstanceGroups"][0]["InstanceCount"] == 2
    assert emulator.status("Mine") == "UPDATE_ROLLBACK_COMPLETE"


def test_the_nodes_of_all_clusters_count_until_they_are_deleted() -> None:
    emulator = Emulator(quotas={P5: 3})
    emulator.put_stack("One", nodes(2))

    with pytest.raises(DeploymentError, match="is 3, and 4 are asked for"):
        emulator.put_stack("Two", nodes(2))
    emulator.delete_stack("One")
    emulator.put_stack("Two", nodes(2))

    assert [resource.stack for resource, _ in emulator.resources(CLUSTER)] == ["Two"]


def test_what_no_quota_names_is_not_bounded() -> None:
    emulator = Emulator(quotas={P5: 2})

    emulator.put_stack("Spot", nodes(9, spot=True))

    assert len(emulator.resources(CLUSTER)) == 1


@pytest.mark.parametrize("name", ["ml.p5.48xlarge", "p5 instances", ""])
def test_a_quota_that_nobody_has_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="expected names as Service Quotas has them"):
        Emulator(quotas={name: 1})


def test_a_deployment_fails_without_any_of_the_quotas_that_its_review_asks_for() -> None:
    folder = example_folder(ROOT / "examples" / "reference" / "deployment.yaml")
    asked = quotas_of(read_assembly(folder))

    assert P5 in {quota.name for quota in asked}
    for quota in asked:
        emulator = Emulator(quotas={quota.name: quota.needed - 1})
        with pytest.raises(DeploymentError, match="ResourceLimitExceeded"):
            emulator.deploy(folder)
        assert emulator.status("reference-cluster") == "ROLLBACK_COMPLETE"
