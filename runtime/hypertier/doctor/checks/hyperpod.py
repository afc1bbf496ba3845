"""HyperPod: a name that is free, the cluster that the file tells of, what training plans hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from hypertier.doctor.check import Check, Question, Said, Talk, Verdict, fails, ok, question
from hypertier.doctor.checks import calls
from hypertier.doctor.checks.eks import orchestrator
from hypertier.planning.made import makes_hyperpod
from hypertier.spec.cluster import ClusterAttributes
from hypertier.spec.deployment import Deployment
from hypertier.spec.instance_group import InstanceGroup

Cluster = Mapping[str, Any]

# A plan that ends before nodes serve is of no use; a deployment takes most of an hour.
DEPLOYMENT = timedelta(hours=1)


def checks(deployment: Deployment, now: datetime) -> Iterator[Check]:
    """The new cluster's name, or what the existing one is; then each training plan."""
    told, existing = deployment.cluster.attributes, deployment.cluster.existing
    if existing is None:
        yield _name(deployment)
    elif told is not None:
        yield from _existing(deployment, told, existing)
    if makes_hyperpod(deployment):
        for group in deployment.instance_groups:
            if group.training_plan_arn is not None:
                yield _plan(deployment, group, group.training_plan_arn, now)


def _name(deployment: Deployment) -> Check:
    own = calls.stack(deployment, f"{deployment.name}-cluster")
    asked = calls.hyperpod_cluster(deployment, deployment.name)

    def talk() -> Talk:
        if (yield own) is not None:
            return ok("the deployment's own")
        return is_free(deployment.name, (yield asked))

    return Check(f"name {deployment.name} of the HyperPod cluster", talk, (own, asked))


def _existing(deployment: Deployment, told: ClusterAttributes, name: str) -> Iterator[Check]:
    asked = calls.hyperpod_cluster(deployment, name)

    def about(what: str, judge: Callable[[Cluster], Verdict]) -> Check:
        return _of_cluster(f"HyperPod cluster {name}: {what}", asked, judge)

    yield about("state", is_in_service)
    yield about("identity", lambda cluster: is_as_told(cluster, told))
    tiered = any(
        (found.kv_cache.l2_backend or "").lower() == "tieredstorage" for found in deployment.endpoints
    )
    if tiered:
        yield about("tiered storage", has_tiered_storage)
    for group in deployment.instance_groups:
        yield about(f"group {group.name}", _has(group))


def _has(group: InstanceGroup) -> Callable[[Cluster], Verdict]:
    return lambda cluster: has_nodes(cluster, group)


def _of_cluster(name: str, asked: Question, judge: Callable[[Cluster], Verdict]) -> Check:
    def talk() -> Talk:
        said = yield asked
        if said is None:
            return fails(
                "the cluster does not exist in this account and Region", "cluster.existing: one that does"
            )
        return judge(said)

    return Check(name, talk, (asked,))


def _plan(deployment: Deployment, group: InstanceGroup, arn: str, now: datetime) -> Check:
    name = arn.rpartition("/")[2]
    asked = question("sagemaker", "DescribeTrainingPlan", resource=arn, TrainingPlanName=name)
    own = calls.hyperpod_cluster(deployment, deployment.name)

    def talk() -> Talk:
        plan = yield asked
        if plan is None:
            return fails("does not exist in this account and Region", "trainingPlanArn: one that does")
        there = num_nodes((yield own), group.name)
        return serves(plan, group, there, now)

    return Check(f"training plan {name} of {group.name}", talk, (asked, own))


def is_free(name: str, said: Said | None) -> Verdict:
    """Whether a new cluster can have this name."""
    if said is None:
        return ok("free")
    return fails("another HyperPod cluster has it", f"name: another than {name}, or cluster.existing: {name}")


def is_in_service(cluster: Cluster) -> Verdict:
    """Whether nodes run pods."""
    status = cluster["ClusterStatus"]
    if status in ("InService", "Updating", "SystemUpdating"):
        return ok(status)
    cause = f"{status}: {cluster['FailureMessage']}" if cluster.get("FailureMessage") else status
    return fails(cause, "wait until it is InService, or mend it first")


def is_as_told(cluster: Cluster, told: ClusterAttributes) -> Verdict:
    """Whether it has the ARN, the EKS cluster and the nodes' group that the file tells of."""
    groups = cluster.get("VpcConfig", {}).get("SecurityGroupIds", [])
    overridden = [entry.get("OverrideVpcConfig") or {} for entry in cluster.get("InstanceGroups", ())]
    groups = [*groups, *(group for entry in overridden for group in entry.get("SecurityGroupIds", ()))]
    if cluster["ClusterArn"] != told.arn:
        return fails(
            f"its ARN is {cluster['ClusterArn']}", f"cluster.attributes.arn: {cluster['ClusterArn']}"
        )
    if orchestrator(cluster) != told.eks_cluster_name:
        has = orchestrator(cluster)
        return fails(
            f"runs on {has or 'no EKS cluster'}, the file says {told.eks_cluster_name}",
            f"cluster.attributes.eksClusterName: {has}" if has else "a HyperPod cluster on EKS",
        )
    if told.node_security_group_id not in groups:
        return fails(
            f"its nodes have {', '.join(groups) or 'no group'}, the file says {told.node_security_group_id}",
            f"cluster.attributes.nodeSecurityGroupId: {groups[0] if groups else 'that of the nodes'}",
        )
    return ok(f"on {told.eks_cluster_name}")


def has_tiered_storage(cluster: Cluster) -> Verdict:
    """Whether HyperPod's tiered storage runs there, which an endpoint's L2 is."""
    if (cluster.get("TieredStorageConfig") or {}).get("Mode") == "Enable":
        return ok("enabled")
    return fails("not enabled, and an endpoint's L2 is tieredstorage", "enable it, or l2CacheBackend: redis")


def has_nodes(cluster: Cluster, group: InstanceGroup) -> Verdict:
    """Whether it has the group's nodes."""
    found = next(
        (entry for entry in cluster.get("InstanceGroups", ()) if entry["InstanceGroupName"] == group.name),
        None,
    )
    if found is None:
        names = ", ".join(entry["InstanceGroupName"] for entry in cluster.get("InstanceGroups", ()))
        return fails(
            f"there is none of that name; it has {names or 'none'}", "instanceGroups: those that it has"
        )
    several: Sequence[str] = (found.get("InstanceRequirements") or {}).get("DesiredInstanceTypes", ())
    types = [found["InstanceType"]] if found.get("InstanceType") else list(several)
    if group.instance_type not in types:
        return fails(
            f"it is of {', '.join(types)}, the file says {group.instance_type}", f"instanceType: {types[0]}"
        )
    count = found.get("CurrentCount", 0)
    if count < group.count:
        return fails(
            f"{count} nodes are there, the file says {group.count}", f"count: {count}, or more nodes"
        )
    return ok(f"{count} {group.instance_type}")


def num_nodes(cluster: Said | None, group: str) -> int:
    """Nodes of the group that are there already."""
    groups = (cluster or {}).get("InstanceGroups", ())
    return sum(entry.get("CurrentCount", 0) for entry in groups if entry["InstanceGroupName"] == group)


def serves(plan: Said, group: InstanceGroup, there: int, now: datetime) -> Verdict:
    """Whether a training plan has the group's nodes, of which so many are `there`, from `now` on.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingPlan.html (read 2026-12-02)
    """
    end: datetime | None = plan.get("EndTime")
    until = f"until {end:%Y-%m-%d %H:%M} UTC" if end else "without an end"
    if plan["Status"] != "Active":
        start: datetime | None = plan.get("StartTime")
        begins = f", begins {start:%Y-%m-%d %H:%M} UTC" if start and start > now else ""
        return fails(f"{plan['Status']}{begins}", "deploy while it is Active, or another trainingPlanArn")
    if end is not None and end < now + DEPLOYMENT:
        return fails(
            f"ends {end:%Y-%m-%d %H:%M} UTC, before the nodes would serve", "another trainingPlanArn"
        )
    targets = plan.get("TargetResources", ())
    if targets and "hyperpod-cluster" not in targets:
        return fails(f"is for {', '.join(targets)}, not for HyperPod", "a plan for hyperpod-cluster")
    capacity = plan.get("ReservedCapacitySummaries", ())
    types = sorted({entry["InstanceType"] for entry in capacity})
    if types and not set(types) & set(group.all_instance_types):
        return fails(
            f"is of {', '.join(types)}, the group of {group.instance_type}", f"instanceType: {types[0]}"
        )
    zones = sorted({entry["AvailabilityZoneId"] for entry in capacity if entry.get("AvailabilityZoneId")})
    if zones and group.availability_zone_id not in zones:
        return fails(
            f"lies in {', '.join(zones)}, the group in {group.availability_zone_id}",
            f"availabilityZoneId: {zones[0]}",
        )
    available, coming = plan.get("AvailableInstanceCount"), group.count - there
    if available is not None and available < coming:
        return fails(f"{available} instances are free, {coming} are needed", f"count: {there + available}")
    return ok(f"Active {until}")
