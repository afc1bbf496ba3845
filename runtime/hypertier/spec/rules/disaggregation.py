"""Disaggregated prefill and decode: what pdSpec needs to work, and when it pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypertier.catalog.instance_types import InstanceType, find_instance_type
from hypertier.catalog.models import find_model
from hypertier.catalog.zones import ZONE_NAME
from hypertier.spec.arguments import option_value
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.roles import group_with
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import UNSET, Hit, hit, rule, suggested, unset
from hypertier.spec.rules.subject import GPU, Subject, known_groups, small_whole
from hypertier.spec.said import Said
from hypertier.spec.scaling import Bounds, setting_of
from hypertier.spec.tree import Path, path

PD = path("spec.pdSpec")
FAMILIES = ("ml.p5.", "ml.p5e.", "ml.p5en.", "ml.p6-b200.", "ml.p6-b300.")
MIN_PARAMETERS = 70_000_000_000
MIN_INPUT_TOKENS = 4096
PREFILL, DECODE = "prefillSpec", "decodingSpec"
COMPONENTS = {PREFILL: "prefill", DECODE: "decode"}
# what two engines must have in common for one to read the other's KV cache, or to answer for it; vLLM
# compares them when the two meet (compute_nixl_compatibility_hash, vLLM 0.32)
ALIKE = (
    "--model",
    "--served-model-name",
    "--dtype",
    "--kv-cache-dtype",
    "--attention-backend",
    "--speculative-config",
)


@rule(
    "disaggregation-instance",
    "error",
    source=sources.DISAGGREGATION,
    en="{path} is {got}; pdSpec works on {works}, whose EFA moves KV between pods",
    ko="{path} 값이 {got}입니다. pdSpec은 EFA로 KV를 옮기는 {works}에서만 동작합니다",
)
def disaggregation_instance(subject: Subject) -> Iterator[Hit]:
    if not subject.manifest.has(PD):
        return
    one = path("spec.instanceType")
    many = path("spec.instanceTypes")
    for where in [one, *((*many, index) for index in range(len(subject.manifest.items(many))))]:
        name = subject.manifest.text(where)
        if not name or not name.startswith("ml."):
            continue
        if subject.by_operator and not name.startswith(FAMILIES):
            yield hit(where, works="p5, p5e, p5en, p6-b200, p6-b300")
        node = find_instance_type(name)
        if not subject.by_operator and node is not None and not (node.gpus and node.efa_interfaces):
            yield hit(where, works=Said("nodes with GPUs and EFA", "GPU와 EFA가 있는 노드"))


@rule(
    "disaggregation-zone",
    "warning",
    source=sources.DISAGGREGATION,
    en="{path} is false: prefill and decode pods in two zones move KV across them, slow and billed",
    ko="{path} 값이 false입니다. 두 가용 영역에 있는 파드 사이의 KV 전송은 느리고 비용이 듭니다",
)
def disaggregation_zone(subject: Subject) -> Iterator[Hit]:
    where = path("spec.pdSpec.topologySpec.sameAZ")
    if subject.manifest.flag(where) is False:
        yield suggested(where, True)


@rule(
    "disaggregation-model",
    "warning",
    source=sources.DISAGGREGATION,
    en="{path} with {model}: AWS recommends it for dense models of 70B parameters and more",
    ko="{path}을(를) {model}에 씁니다. AWS는 70B 이상의 밀집 모델에 권장합니다",
)
def disaggregation_model(subject: Subject) -> Iterator[Hit]:
    model = find_model(subject.manifest.text("spec.modelName"))
    if subject.manifest.has(PD) and model is not None and model.active_parameters < MIN_PARAMETERS:
        yield hit(PD, model=model.name)


@rule(
    "disaggregation-resources",
    "warning",
    source=sources.DISAGGREGATION,
    en="{path} is not set: with pdSpec the operator does not read worker.resources",
    ko="{path} 값이 없습니다. pdSpec이 있으면 오퍼레이터는 worker.resources를 읽지 않습니다",
)
def disaggregation_resources(subject: Subject) -> Iterator[Hit]:
    if not subject.by_operator:
        return
    for role in (PREFILL, DECODE):
        if subject.manifest.has((*PD, role)) and not subject.manifest.mapping((*PD, role, "resources")):
            resources = subject.manifest.get("spec.worker.resources")
            where = (*PD, role, "resources")
            yield suggested(where, resources) if resources else hit(where)


@rule(
    "disaggregation-threshold",
    "warning",
    source=sources.DISAGGREGATION,
    en="{path} is {got} tokens; below 4096 moving KV takes longer than computing it where it is used",
    ko="{path} 값이 {got} 토큰입니다. 4096보다 짧은 입력은 KV를 옮기는 것보다 그 자리에서 계산하는 것이 "
    "빠릅니다",
)
def disaggregation_threshold(subject: Subject) -> Iterator[Hit]:
    where = path("spec.pdSpec.routingThreshold")
    threshold = subject.manifest.whole(where)
    if threshold is not None and threshold < MIN_INPUT_TOKENS:
        yield suggested(where, MIN_INPUT_TOKENS)


@rule(
    "disaggregation-parallelism",
    "error",
    source=sources.VLLM_NIXL,
    en="{path}: prefill engines split the model over {prefill} GPUs, decode engines over {decode}; "
    "{expected}: vLLM can't move KV cache between them",
    ko="{path}: 모델을 prefill 엔진은 GPU {prefill}개, decode 엔진은 {decode}개에 나눕니다. {expected}. "
    "그렇지 않으면 vLLM이 KV 캐시를 옮기지 못합니다",
)
def disaggregation_parallelism(subject: Subject) -> Iterator[Hit]:
    prefill, decode = _parallel_size(subject, PREFILL), _parallel_size(subject, DECODE)
    if prefill is None or decode is None:
        return
    where = (*PD, PREFILL, "args")
    if max(prefill, decode) % min(prefill, decode):
        expected = Said("expected one to be a multiple of the other", "하나가 다른 하나의 배수여야 합니다")
        yield hit(where, prefill=prefill, decode=decode, expected=expected)
    model = find_model(subject.manifest.text("spec.modelName"))
    heads = model.num_kv_heads if model else 0
    if heads and prefill > decode and prefill > heads:
        expected = Said(
            f"expected at most {heads} for prefill, which is how many KV heads the model has",
            f"prefill은 모델의 KV 헤드 수인 {heads} 이하여야 합니다",
        )
        yield hit(where, prefill=prefill, decode=decode, expected=expected)


@rule(
    "disaggregation-arguments",
    "error",
    source=sources.VLLM_NIXL,
    en="{name} is {prefill} for prefill and {decode} for decode engines; expected the same: otherwise "
    "neither can read the other's KV cache",
    ko="{name} 값이 prefill 엔진은 {prefill}, decode 엔진은 {decode}입니다. 같아야 서로의 KV 캐시를 읽을 "
    "수 있습니다",
)
def disaggregation_arguments(subject: Subject) -> Iterator[Hit]:
    if not subject.manifest.mapping(PD):
        return
    for name in ALIKE:
        prefill, decode = (_argument(subject, role, name) for role in (PREFILL, DECODE))
        if prefill != decode:
            said = {
                "prefill": UNSET if prefill is None else prefill,
                "decode": UNSET if decode is None else decode,
            }
            role = PREFILL if subject.manifest.items((*PD, PREFILL, "args")) else DECODE
            yield hit((*PD, role, "args"), name=name, **said)


@rule(
    "disaggregation-nodes",
    "error",
    source=sources.RESOURCES,
    en="{path} asks for up to {wanted} GPUs of {groups}, by its replicas or the deployment's scaling, where "
    "there are {has}: the rest would stay pending",
    ko="{path}에 필요한 {groups} 그룹의 GPU는 복제본 수나 배포의 scaling에 따라 최대 {wanted}개인데 노드에는 "
    "{has}개뿐입니다. 나머지는 계속 대기(Pending)합니다",
)
def disaggregation_nodes(subject: Subject) -> Iterator[Hit]:
    sizes = {role: _gpus(subject, role) for role in (PREFILL, DECODE)}
    if not subject.manifest.mapping(PD) or not all(sizes.values()):
        return
    deployment = subject.around.deployment
    autoscaled = deployment is not None and deployment.flag("cluster.autoscaling") is True
    asked: Counter[str] = Counter()
    has: dict[str, int] = {}
    for role, size in sizes.items():
        groups = _groups_of(subject, role)
        if autoscaled and not all(group.count for group in groups):
            return  # Karpenter adds what there is too little of
        names = ", ".join(group.name for group in groups)
        has[names] = sum(node.gpus * group.count for group in groups if (node := _node_of(group)))
        bounds = _bounds(subject, role)
        most = max(_replicas(subject, role), bounds.max if bounds else 0)
        asked[names] += most * (size or 0)
    for names, wanted in asked.items():
        if has[names] and wanted > has[names]:
            yield hit(PD, wanted=wanted, has=has[names], groups=names)


@rule(
    "disaggregation-selector",
    "error",
    source=sources.HYPERTIER,
    en="{path}: no instance group with nodes of {types} has these labels; those of the deployment are "
    "{groups}",
    ko="{path}: 이 레이블이 있는 {types} 인스턴스 그룹이 없습니다. 배포의 그룹: {groups}",
)
def disaggregation_selector(subject: Subject) -> Iterator[Hit]:
    groups = _groups(subject)
    types = subject.instance_types
    if not subject.by_operator and any(group.instance_type in types for group in groups):
        said = ", ".join(f"{group.name} ({group.instance_type})" for group in groups)
        for role in (PREFILL, DECODE):
            if not _groups_of(subject, role):
                yield hit((*PD, role, "nodeSelector"), types=", ".join(types), groups=said)


@rule(
    "disaggregation-zone-name",
    "error",
    source=sources.HYPERTIER,
    en="{path} is {got}; expected a zone's name, such as us-west-2b, which nodes have for a label",
    ko="{path} 값이 {got}입니다. 노드의 레이블에 있는 us-west-2b 같은 가용 영역 이름이어야 합니다",
)
def disaggregation_zone_name(subject: Subject) -> Iterator[Hit]:
    where = path("spec.pdSpec.topologySpec.availabilityZone")
    zone = subject.manifest.text(where)
    if subject.around.serving == "selfhosted" and zone is not None and not ZONE_NAME.fullmatch(zone):
        yield hit(where)


@rule(
    "disaggregation-scaling",
    "error",
    source=sources.DISAGGREGATION,
    en="{path} scales one kind of engine but pdSpec makes two; expected it in pdSpec.autoScalingSpec, for "
    "each",
    ko="{path}은(는) 한 종류의 엔진만 확장하지만 pdSpec은 두 종류를 만듭니다. 각각 "
    "pdSpec.autoScalingSpec에 두십시오",
)
def disaggregation_scaling(subject: Subject) -> Iterator[Hit]:
    where = path("spec.autoScalingSpec")
    if subject.manifest.mapping(PD) and subject.manifest.mapping(where):
        yield hit(where)


@rule(
    "disaggregation-bounds",
    "error",
    source=sources.HYPERTIER,
    en="{path} is {got}; expected {low} to {high}, as the deployment's {setting} is {bound}: the hook steps "
    "from there",
    ko="{path} 값이 {got}입니다. 배포의 {setting} 값이 {bound}이므로 {low}에서 {high} 사이여야 합니다. "
    "복제본 조절이 이 값에서 시작합니다",
)
def disaggregation_bounds(subject: Subject) -> Iterator[Hit]:
    for role in (PREFILL, DECODE):
        bounds, replicas = _bounds(subject, role), _replicas(subject, role)
        if bounds is None or bounds.min <= replicas <= bounds.max:
            continue
        where = (*PD, role, "replicas")
        got = replicas if subject.manifest.has(where) else unset(replicas)
        key, bound = ("max", bounds.max) if replicas > bounds.max else ("min", bounds.min)
        said = {"low": bounds.min, "high": bounds.max, "setting": f"{setting_of(COMPONENTS[role])}.{key}"}
        yield suggested(where, bound, got=got, bound=bound, **said)


def _replicas(subject: Subject, role: str) -> int:
    return subject.manifest.whole((*PD, role, "replicas")) or 1


def _bounds(subject: Subject, role: str) -> Bounds | None:
    """What the deployment says of the role's replicas; nothing where there is no such role."""
    if subject.scaling is None or not subject.manifest.mapping((*PD, role)):
        return None
    return subject.scaling.bounds(COMPONENTS[role])


def _groups(subject: Subject) -> list[InstanceGroup]:
    deployment = subject.around.deployment
    return known_groups(deployment) if deployment else []


def _groups_of(subject: Subject, role: str) -> tuple[InstanceGroup, ...]:
    """Where its pods may run: with the operator wherever its types are, else on one group."""
    groups, types = _groups(subject), subject.instance_types
    if subject.by_operator:
        return tuple(group for group in groups if group.instance_type in types)
    found = group_with(groups, types, subject.manifest.mapping((*PD, role, "nodeSelector")) or {})
    return (found,) if found else ()


def _node_of(group: InstanceGroup) -> InstanceType | None:
    return find_instance_type(group.instance_type)


def _arguments(subject: Subject, role: str) -> list[str]:
    """All arguments of a role's engines: its own stand behind the worker's, and the last one wins."""
    return [*subject.arguments, *subject.manifest.texts((*PD, role, "args"))]


def _argument(subject: Subject, role: str, *names: str) -> str | None:
    return option_value(_arguments(subject, role), *names)


def _gpus(subject: Subject, role: str) -> int | None:
    """GPUs of one of its pods, by its own resources or else the worker's."""
    own: Path = (*PD, role, "resources")
    for kind in ("limits", "requests"):
        size = small_whole(str(subject.manifest.get((*own, kind, GPU))))
        if size is not None:
            return size
    return None if subject.by_operator or subject.manifest.mapping(own) else subject.gpus


def _parallel_size(subject: Subject, role: str) -> int | None:
    """GPUs over which it splits the model; with serving: selfhosted all of a pod's, unless written."""
    if not subject.manifest.mapping((*PD, role)):
        return None
    written = _argument(subject, role, "--tensor-parallel-size", "-tp")
    if written is not None:
        return small_whole(written) or None
    return 1 if subject.by_operator else _gpus(subject, role)
