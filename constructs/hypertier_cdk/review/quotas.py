"""The quotas to ask AWS for before a deployment, with how much is needed.

Each instance type has a quota "<type> for cluster usage"; another one bounds the instances of one cluster.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html (read 2026-12-01)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypertier_cdk.review.templates import Assembly


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota of a service and what this deployment needs of it."""

    service: str
    name: str
    needed: int


def quotas_of(assembly: Assembly) -> tuple[Quota, ...]:
    """What to ask for, by service and name."""
    nodes: Counter[str] = Counter()
    largest = 0
    for cluster in assembly.of_type("AWS::SageMaker::Cluster"):
        groups = cluster.get("InstanceGroups", default=())
        for group in groups:
            for instance_type in (group.get("InstanceRequirements") or {}).get("InstanceTypes") or [
                group.get("InstanceType")
            ]:
                nodes[instance_type] += int(group["InstanceCount"])
        largest = max(largest, sum(int(group["InstanceCount"]) for group in groups))
    quotas = [Quota("sagemaker", f"{name} for cluster usage", count) for name, count in sorted(nodes.items())]
    if largest:
        quotas.append(Quota("sagemaker", "instances of one HyperPod cluster", largest))
    return tuple(quotas)
