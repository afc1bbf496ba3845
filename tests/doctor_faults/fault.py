"""A thing in the way of a deployment, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fakes_account import NOW, hyperpod_cluster

from hypertier.doctor.check import Question
from hypertier.doctor.running import Answer
from hypertier.spec.instance_group import InstanceGroup

P5 = InstanceGroup(name="gpus", instance_type="ml.p5.48xlarge", count=14)
SYSTEM = InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=2)
GPU = InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=2)


def others(*groups: InstanceGroup) -> dict[str, Answer]:
    """Another HyperPod cluster in the account, with these groups."""
    return {
        "ListClusters": {"ClusterSummaries": [{"ClusterName": "other"}, {"ClusterName": "reference"}]},
        "sagemaker:DescribeCluster": lambda question: (
            hyperpod_cluster("other", "others", *groups)
            if question.parameters["ClusterName"] == "other"
            else None
        ),
    }


def adopted(**changes: Any) -> dict[str, Any]:
    return {
        "sagemaker:DescribeCluster": hyperpod_cluster("ml-platform", "ml-platform", SYSTEM, GPU, **changes)
    }


def stack(status: str, *names: str) -> Any:
    def answer(question: Question) -> Answer:
        if question.parameters["StackName"] not in names:
            return None
        return {"Stacks": [{"StackName": names[0], "CreationTime": NOW, "StackStatus": status}]}

    return answer


@dataclass(frozen=True)
class Fault:
    """In the account of `deployment`, changed so, exactly these checks fail, with this cause and this fix."""

    deployment: str
    changes: Mapping[str, Any]
    failing: tuple[str, ...]
    cause: str
    fix: str


P5_QUOTA = "quota ml.p5.48xlarge for cluster usage"
