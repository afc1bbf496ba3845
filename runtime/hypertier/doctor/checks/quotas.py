"""Service quotas: what AWS allows the account, less what is in use, against what the deployment needs.

SageMaker's quotas are found by their names, which `hypertier.planning.quotas` has; their codes differ by
instance type. https://docs.aws.amazon.com/general/latest/gr/sagemaker.html (read 2026-12-02)
Those of VPCs by their codes. https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypertier.doctor.check import Check, Question, Said, Talk, Verdict, fails, ok, question, untold
from hypertier.doctor.checks import calls
from hypertier.planning.made import hyperpod_quotas, interface_services, makes_network, num_elastic_ips
from hypertier.planning.quotas import ONE_CLUSTER, Nodes, Quota, quotas_that_count
from hypertier.spec.deployment import Deployment


@dataclass(frozen=True, slots=True)
class Allowed:
    """A quota as Service Quotas has it."""

    code: str
    value: float


@dataclass(frozen=True, slots=True)
class NetworkQuota:
    """A quota of a new VPC, and the answer that lists what is in use; None for what each VPC has."""

    quota: Quota
    code: str
    used: Question | None = None
    entries: str = ""


def checks(deployment: Deployment) -> Iterator[Check]:
    """Each quota that the deployment counts against."""
    for quota in hyperpod_quotas(deployment):
        yield _of_hyperpod(deployment, quota)
    for counted in network_quotas(deployment):
        yield _of_network(deployment, counted)


def network_quotas(deployment: Deployment) -> tuple[NetworkQuota, ...]:
    """What a new VPC counts against; none where there is one."""
    if not makes_network(deployment):
        return ()
    gateways = [{"Name": "vpc-endpoint-type", "Values": ["Gateway"]}]
    counted = (
        NetworkQuota(
            Quota("vpc", "VPCs per Region", 1), "L-F678F1CE", question("ec2", "DescribeVpcs"), "Vpcs"
        ),
        NetworkQuota(
            Quota("ec2", "EC2-VPC Elastic IPs", num_elastic_ips(deployment)),
            "L-0263D0A3",
            question("ec2", "DescribeAddresses"),
            "Addresses",
        ),
        NetworkQuota(
            Quota("vpc", "Gateway VPC endpoints per Region", 1),
            "L-1B52E74A",
            question("ec2", "DescribeVpcEndpoints", Filters=gateways),
            "VpcEndpoints",
        ),
        NetworkQuota(
            Quota("vpc", "Interface VPC endpoints per VPC", len(interface_services(deployment))), "L-29B6F2EB"
        ),
    )
    return tuple(entry for entry in counted if entry.quota.needed)


def _of_hyperpod(deployment: Deployment, quota: Quota) -> Check:
    applied = question("service-quotas", "ListServiceQuotas", ServiceCode=quota.service)
    usual = question("service-quotas", "ListAWSDefaultServiceQuotas", ServiceCode=quota.service)
    listed = calls.hyperpod_clusters()

    def talk() -> Talk:
        allowed = named(quota.name, (yield applied)) or named(quota.name, (yield usual))
        if allowed is None:
            return unknown(quota)
        if quota.needed > allowed.value or quota.name == ONE_CLUSTER:
            return within(quota, allowed, 0, deployment.region)
        others = [name for name in cluster_names((yield listed)) if name != deployment.name]
        used = 0
        for name in others:
            used += num_counted(quota.name, (yield calls.hyperpod_cluster(deployment, name)))
        return within(quota, allowed, used, deployment.region)

    return Check(
        f"quota {quota.name}", talk, (applied, usual, listed, calls.hyperpod_cluster(deployment, "*"))
    )


def _of_network(deployment: Deployment, counted: NetworkQuota) -> Check:
    quota = counted.quota
    asked: dict[str, Any] = {"ServiceCode": quota.service, "QuotaCode": counted.code}
    applied = question("service-quotas", "GetServiceQuota", **asked)
    usual = question("service-quotas", "GetAWSDefaultServiceQuota", **asked)
    network = calls.stack(deployment, f"{deployment.name}-network")

    def talk() -> Talk:
        if (yield network) is not None:
            return ok("the VPC is there already")
        said = (yield applied) or (yield usual)
        if said is None:
            return unknown(quota)
        allowed = Allowed(counted.code, said["Quota"]["Value"])
        used = len(((yield counted.used) or {})[counted.entries]) if counted.used else 0
        return within(quota, allowed, used, deployment.region)

    asks = (network, applied, usual, *((counted.used,) if counted.used else ()))
    return Check(f"quota {quota.name}", talk, asks)


def named(name: str, said: Said | None) -> Allowed | None:
    """The quota of that name in a list of Service Quotas'; None where it is not listed."""
    for entry in (said or {}).get("Quotas", ()):
        if entry["QuotaName"].casefold() == name.casefold():
            return Allowed(entry["QuotaCode"], entry["Value"])
    return None


def unknown(quota: Quota) -> Verdict:
    """What to say where Service Quotas does not know a quota."""
    return untold(
        f"Service Quotas lists none of this name for {quota.service}; {quota.needed} needed",
        "look for it in the console of Service Quotas",
    )


def within(quota: Quota, allowed: Allowed, used: int, region: str) -> Verdict:
    """Whether what is needed and what is in use are allowed together."""
    total = quota.needed + used
    cause = f"{quota.needed} needed, {used} in use, {allowed.value:g} allowed"
    if total <= allowed.value:
        return ok(cause)
    return fails(
        cause,
        f"aws service-quotas request-service-quota-increase --service-code {quota.service} "
        f"--quota-code {allowed.code} --desired-value {total} --region {region}",
    )


def cluster_names(said: Said | None) -> list[str]:
    """The names of HyperPod clusters in a list of them."""
    return [entry["ClusterName"] for entry in (said or {}).get("ClusterSummaries", ())]


def num_counted(quota: str, cluster: Said | None) -> int:
    """Nodes of a HyperPod cluster, there or on their way, that count against the quota of that name."""
    if cluster is None:  # deleted since it was listed
        return 0
    groups = [*cluster.get("InstanceGroups", ()), *cluster.get("RestrictedInstanceGroups", ())]
    return sum(
        nodes.count for group in groups for nodes in _nodes(group) if quota in quotas_that_count(nodes)
    )


def _nodes(group: Mapping[str, Any]) -> Sequence[Nodes]:
    """The nodes of a group as SageMaker tells of it, by their types where it has several."""
    spot = "Spot" in (group.get("CapacityRequirements") or {})
    count = max(group.get("TargetCount", 0), group.get("CurrentCount", 0))
    if group.get("InstanceType"):
        return [Nodes(count, (group["InstanceType"],), spot)]
    details = group.get("InstanceTypeDetails", ())
    there = [Nodes(entry["CurrentCount"], (entry["InstanceType"],), spot) for entry in details]
    coming = max(count - sum(nodes.count for nodes in there), 0)
    return [*there, Nodes(coming, (), spot)]
