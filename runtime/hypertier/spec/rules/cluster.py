"""The HyperPod cluster, as a CreateCluster or UpdateCluster request, and what endpoints need of it."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.catalog.instance_types import find_instance_type
from hypertier.catalog.operator import REGIONS, ROLE_PREFIX
from hypertier.planning.engine import DAEMONS_PER_NODE
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import (
    CLUSTER,
    DEPLOYMENT,
    MODELS,
    SERVICE_ACCOUNT,
    Hit,
    fixed,
    hit,
    rule,
    suggested,
)
from hypertier.spec.rules.subject import Subject
from hypertier.spec.said import Said
from hypertier.spec.tree import View, path

TIERED = path("TieredStorageConfig")
GROUPS = path("InstanceGroups")
OPERATOR_PODS = 13


@rule(
    "tiered-storage-alone",
    "error",
    kinds=(CLUSTER,),
    source=sources.CLUSTER_API,
    en="{path} is the only change: UpdateCluster refuses it alone; send NodeRecovery or InstanceGroups "
    "with it",
    ko="{path}만 변경합니다. UpdateCluster가 거부하므로 NodeRecovery나 InstanceGroups를 함께 보내십시오",
)
def tiered_storage_alone(subject: Subject) -> Iterator[Hit]:
    if set(subject.manifest.mapping(())) == {"ClusterName", "TieredStorageConfig"}:
        yield hit(TIERED)


@rule(
    "tiered-storage-percent",
    "warning",
    kinds=(CLUSTER,),
    source=sources.CLUSTER_API,
    en="{path} is {got}; AWS documents 20 to 100 percent of a node's memory, of which pods lose as much",
    ko="{path} 값이 {got}입니다. AWS 문서의 범위는 노드 메모리의 20~100%이며 그만큼 파드의 메모리가 "
    "줄어듭니다",
)
def tiered_storage_percent(subject: Subject) -> Iterator[Hit]:
    where = (*TIERED, "InstanceMemoryAllocationPercentage")
    percent = subject.manifest.whole(where)
    enabled = subject.manifest.text((*TIERED, "Mode")) == "Enable"
    if enabled and percent is not None and not 20 <= percent <= 100:
        yield suggested(where, 20)


@rule(
    "karpenter-needs",
    "error",
    kinds=(CLUSTER,),
    source=sources.KARPENTER,
    en="AutoScaling.Mode is Enable but {path} is {got}; expected {expected}",
    ko="AutoScaling.Mode가 Enable인데 {path} 값이 {got}입니다. {expected} 값이어야 합니다",
)
def karpenter_needs(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.text("AutoScaling.Mode") != "Enable":
        return
    for name, value in (("NodeRecovery", "Automatic"), ("NodeProvisioningMode", "Continuous")):
        if subject.manifest.text(name) != value:
            yield fixed((name,), value, expected=value)
    if not subject.manifest.text("ClusterRole"):
        yield hit(
            ("ClusterRole",), expected=Said("the ARN of the role that Karpenter uses", "Karpenter 역할의 ARN")
        )


@rule(
    "taints-and-health-checks",
    "error",
    kinds=(CLUSTER,),
    source=sources.EKS_PREREQUISITES,
    en="{path} stands beside OnStartDeepHealthChecks: the checks' pods do not tolerate taints of your own",
    ko="{path}와 OnStartDeepHealthChecks가 함께 있습니다. 검사 파드는 사용자 테인트를 허용하지 않습니다",
)
def taints_and_health_checks(subject: Subject) -> Iterator[Hit]:
    for index, group in subject.manifest.mappings(GROUPS):
        taints = View(group).items("KubernetesConfig.Taints")
        if taints and group.get("OnStartDeepHealthChecks"):
            yield hit((*GROUPS, index, "KubernetesConfig", "Taints"))


@rule(
    "taints-without-tolerations",
    "error",
    source=sources.TAINTS,
    en="{path} is not set but group {group} has the taint {taint}: no pod would be placed there; operators "
    "before 3.7 have no tolerations",
    ko="{path} 값이 없는데 {group} 그룹에 {taint} 테인트가 있습니다. 파드가 배치되지 않습니다. 3.7 이전의 "
    "오퍼레이터에는 tolerations가 없습니다",
)
def taints_without_tolerations(subject: Subject) -> Iterator[Hit]:
    where = path("spec.kubernetes.tolerations")
    if subject.manifest.items(where):
        return
    for group, key, effect in _taints(subject):
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        yield suggested(where, [toleration], group=group, taint=f"{key}:{effect}")
        return


def _taints(subject: Subject) -> Iterator[tuple[str, str, str]]:
    """Group, key and effect of each taint that keeps pods off the endpoint's instance types.

    In cluster requests beside it, and in its deployment, unless our own engines serve, which tolerate them.
    EKS lets pods that ask for GPUs tolerate `nvidia.com/gpu` (ExtendedResourceToleration).
    """
    deployment = subject.around.deployment
    of_requests = ("InstanceGroupName", "InstanceType", "KubernetesConfig.Taints", "Key", "Effect")
    of_deployments = ("name", "instanceType", "taints", "key", "effect")
    written = [
        (View(group), of_requests) for other in subject.around.siblings for _, group in other.mappings(GROUPS)
    ]
    if deployment is not None and subject.around.serving == "operator":
        written += [(View(group), of_deployments) for _, group in deployment.mappings("instanceGroups")]
    for group, (name, type_name, taints, key, effect) in written:
        if group.get(type_name) not in subject.instance_types:
            continue
        for taint in group.items(taints):
            if isinstance(taint, dict) and taint.get(key) not in (None, "nvidia.com/gpu"):
                how = str(taint.get(effect) or "NoSchedule")
                if how in ("NoSchedule", "NoExecute"):
                    yield str(group.get(name)), str(taint[key]), how


@rule(
    "cluster-without-tiered-storage",
    "error",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is tieredstorage but cluster {cluster} has no TieredStorageConfig with Mode Enable: L2 "
    "would be off",
    ko="{path} 값이 tieredstorage인데 {cluster} 클러스터에 Mode가 Enable인 TieredStorageConfig가 "
    "없습니다. L2가 동작하지 않습니다",
)
def cluster_without_tiered_storage(subject: Subject) -> Iterator[Hit]:
    if subject.l2_backend != "tieredstorage":
        return
    for other in subject.around.siblings:
        if other.has("ClusterName") and other.mappings(GROUPS) and other.text((*TIERED, "Mode")) != "Enable":
            where = path("spec.kvCacheSpec.l2CacheSpec.l2CacheBackend")
            yield hit(where, cluster=other.text("ClusterName"))


@rule(
    "operator-role-name",
    "error",
    kinds=(SERVICE_ACCOUNT,),
    source=sources.OPERATOR_CHART,
    en="{path} names role {role}; expected a name that begins with SageMakerHyperPodInference: the "
    "operator may pass no other",
    ko="{path}의 역할은 {role}입니다. 오퍼레이터는 SageMakerHyperPodInference로 시작하는 역할만 전달할 수 "
    "있습니다",
)
def operator_role_name(subject: Subject) -> Iterator[Hit]:
    where = ("metadata", "annotations", "eks.amazonaws.com/role-arn")
    role = (subject.manifest.text(where) or "").rpartition("/")[2]
    if role and not role.startswith(ROLE_PREFIX):
        yield hit(where, role=role)


@rule(
    "operator-region",
    "warning",
    kinds=(DEPLOYMENT,),
    source=sources.OPERATOR_CHART,
    en="{path} is {got}, which the operator's chart 2.2.2 has no images for; see whether a later one does",
    ko="{path} 값이 {got}입니다. 오퍼레이터 차트 2.2.2에는 이 리전의 이미지가 없습니다. 이후 버전을 "
    "확인하십시오",
)
def operator_region(subject: Subject) -> Iterator[Hit]:
    region = subject.manifest.text("region")
    if subject.manifest.text("serving") == "operator" and region and region not in REGIONS:
        yield hit(("region",))


@rule(
    "pods-per-node",
    "warning",
    kinds=(DEPLOYMENT,),
    source=sources.EKS_PODS,
    en="{path} is {got}: groups without GPUs have room for {room} pods beside HyperPod's own, and the "
    "inference add-on needs 13; a node has one network interface, which bounds its pods",
    ko="{path} 값이 {got}입니다. GPU가 없는 그룹에 들어갈 파드는 {room}개뿐인데 추론 추가 기능에는 13개가 "
    "필요합니다. 노드의 네트워크 인터페이스가 하나라서 파드 수가 제한됩니다",
)
def pods_per_node(subject: Subject) -> Iterator[Hit]:
    groups = subject.manifest.mappings("instanceGroups")
    small = None
    room = 0
    for index, group in groups:
        node = find_instance_type(str(group.get("instanceType")))
        count = group.get("count")
        if node is None or node.gpus or not isinstance(count, int):
            continue
        small = path("instanceGroups", index, "instanceType") if small is None else small
        room += max(node.max_pods - DAEMONS_PER_NODE, 0) * count
    if small is not None and room < OPERATOR_PODS and subject.manifest.text("serving") == "operator":
        yield hit(small, room=room)
