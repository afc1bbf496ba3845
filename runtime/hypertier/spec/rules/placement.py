"""Which machine a pod runs on, and what it takes of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hypertier.catalog.instance_types import GIB, INSTANCE_TYPES, find_instance_type
from hypertier.errors import ConfigError
from hypertier.spec.quantities import parse_bytes, parse_count
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import (
    ENDPOINT,
    JUMPSTART,
    MODELS,
    UNSET,
    Edit,
    Hit,
    did_you_mean,
    fixed,
    hit,
    rule,
    suggested,
)
from hypertier.spec.rules.subject import GPU, LIMITS, REQUESTS, Subject, small_whole
from hypertier.spec.said import Said
from hypertier.spec.suggest import nearest
from hypertier.spec.tree import Path, path

INSTANCE_TYPE = path("spec.instanceType")
STANDARD = ("cpu", "memory", "ephemeral-storage")
DEVICES = (
    GPU,
    "nvidia.com/gpu.shared",
    "vpc.amazonaws.com/efa",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "aws.amazon.com/neurondevice",
)
_PENDING = Said("the pod would stay pending", "파드가 계속 대기(Pending)합니다")
_REFUSED = Said("Kubernetes refuses the pod", "Kubernetes가 파드를 거부합니다")


@rule(
    "instance-choice",
    "error",
    source=sources.CLI_VALIDATORS,
    en="exactly one of instanceType, instanceTypes and nodeAffinity says where pods run; set are: {found}",
    ko="instanceType, instanceTypes, nodeAffinity 중 정확히 하나만 지정해야 합니다. 현재: {found}",
)
def instance_choice(subject: Subject) -> Iterator[Hit]:
    fields = ("instanceType", "instanceTypes", "nodeAffinity")
    found = [name for name in fields if subject.manifest.has(path("spec", name))]
    if len(found) != 1:
        where = path("spec", found[1]) if found else INSTANCE_TYPE
        yield hit(where, found=", ".join(found) if found else Said("none", "없음"))


@rule(
    "instance-type-prefix",
    "error",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} is {got}; expected a SageMaker instance type, which starts with ml.: {expected}",
    ko="{path} 값이 {got}입니다. SageMaker 인스턴스 유형은 ml.로 시작합니다: {expected}",
)
def instance_type_prefix(subject: Subject) -> Iterator[Hit]:
    wheres = [INSTANCE_TYPE, path("spec.server.instanceType")]
    wheres += [path("spec.instanceTypes", index) for index in range(len(subject.instance_types))]
    for where in wheres:
        name = subject.manifest.text(where)
        if name == "":
            yield hit(where, expected="ml.p5.48xlarge")
        elif name and not name.startswith("ml."):
            yield fixed(where, f"ml.{name}", expected=f"ml.{name}")


@rule(
    "instance-type-unknown",
    "warning",
    kinds=MODELS,
    source=sources.EKS_PREREQUISITES,
    en="{path} is {got}, which is no instance type of HyperPod that is known here; did you mean {meant}?",
    ko="{path} 값 {got}은(는) 알려진 HyperPod 인스턴스 유형이 아닙니다. {meant}을(를) 뜻하셨습니까?",
)
def instance_type_unknown(subject: Subject) -> Iterator[Hit]:
    wheres = [INSTANCE_TYPE, path("spec.server.instanceType")]
    wheres += [path("spec.instanceTypes", index) for index in range(len(subject.instance_types))]
    for where in wheres:
        name = subject.manifest.text(where)
        if name and name.startswith("ml.") and find_instance_type(name) is None:
            meant = nearest(name, INSTANCE_TYPES)
            if meant is not None:
                yield suggested(where, meant, meant=meant)


@rule(
    "tensor-parallel-size",
    "error",
    source=sources.VLLM_ARGUMENTS,
    en="{setting} is {size} but the pod gets {gpus} GPUs (resources.limits.nvidia.com/gpu): the engine "
    "would not start",
    ko="{setting} 값은 {size}인데 파드의 GPU는 {gpus}개(resources.limits.nvidia.com/gpu)입니다. "
    "엔진이 시작하지 못합니다",
)
def tensor_parallel_size(subject: Subject) -> Iterator[Hit]:
    found = _parallel_size(subject)
    if found is not None and subject.gpus and found[2] > subject.gpus:
        yield _parallel_hit(subject, *found, gpus=subject.gpus)


@rule(
    "gpus-left-idle",
    "warning",
    source=sources.VLLM_ARGUMENTS,
    en="{setting} is {size} but the pod gets {gpus} GPUs: {idle} of them would be paid for and idle",
    ko="{setting} 값은 {size}인데 파드의 GPU는 {gpus}개입니다. {idle}개는 비용만 들고 쓰이지 않습니다",
)
def gpus_left_idle(subject: Subject) -> Iterator[Hit]:
    found = _parallel_size(subject)
    if found is not None and subject.gpus and found[2] < subject.gpus:
        yield _parallel_hit(subject, *found, gpus=subject.gpus, idle=subject.gpus - found[2])


def _parallel_hit(
    subject: Subject, where: Path, setting: str, size: int, others: int, *, gpus: int, **values: int
) -> Hit:
    """A hit with the tensor-parallel size that takes every GPU, where there is one."""
    fix = _argument_with(subject, where, str(gpus // others)) if gpus % others == 0 else None
    return Hit(where, fix, (), {"setting": setting, "size": size, "gpus": gpus, **values})


def _parallel_size(subject: Subject) -> tuple[Path, str, int, int] | None:
    """Where the size is said, by which name, GPUs of one engine, its factors beside tensor parallelism."""
    found = subject.argument_place("--tensor-parallel-size", "-tp", "--tp-size", "--tp", "--num-shard")
    setting = "--tensor-parallel-size"
    if found is None:
        for name in ("SM_VLLM_TENSOR_PARALLEL_SIZE", "OPTION_TENSOR_PARALLEL_DEGREE", "SM_NUM_GPUS"):
            value = subject.environment_value(name)
            if value is not None:
                found = ((*subject.environment_path, subject.environment[name][0], "value"), value)
                setting = name
    size = None if found is None else small_whole(found[1])
    if found is None or size is None:
        return None
    others = small_whole(subject.argument("--pipeline-parallel-size", "-pp")) or 1
    local = subject.argument("--data-parallel-size-local", "-dpl")  # on this node, of all engines
    others *= small_whole(local or subject.argument("--data-parallel-size", "-dp")) or 1
    return found[0], setting, size * others, others


def _argument_with(subject: Subject, where: Path, value: str) -> str:
    word = subject.manifest.text(where) or ""
    return f"{word.partition('=')[0]}={value}" if word.startswith("-") and "=" in word else value


@rule(
    "gpus-of-type",
    "error",
    source=sources.GPUS,
    en="{path} is {got} but one {node} has {has} GPUs: the pod would stay pending",
    ko="{path} 값은 {got}인데 {node} 한 대의 GPU는 {has}개입니다. 파드가 계속 대기(Pending)합니다",
)
def gpus_of_type(subject: Subject) -> Iterator[Hit]:
    nodes = [node for name in subject.instance_types if (node := find_instance_type(name))]
    if not nodes or subject.gpus is None or len(nodes) != len(subject.instance_types):
        return
    most = max(nodes, key=lambda node: node.gpus)
    if subject.gpus > most.gpus:
        where = (*LIMITS, GPU) if subject.manifest.has((*LIMITS, GPU)) else (*REQUESTS, GPU)
        yield suggested(where, most.gpus, node=most.name, has=most.gpus)


@rule(
    "no-gpu",
    "error",
    source=sources.GPUS,
    en="{path} is not set: an engine without a GPU limit is scheduled anywhere and sees no GPU",
    ko="{path} 값이 없습니다. GPU 제한이 없는 엔진은 아무 노드에나 배치되고 GPU를 보지 못합니다",
)
def no_gpu(subject: Subject) -> Iterator[Hit]:
    nodes = [find_instance_type(name) for name in subject.instance_types]
    if not nodes or any(node is None or node.gpus == 0 for node in nodes):
        return
    if subject.engine not in ("vllm", "sglang", "tgi", "lmi") or subject.manifest.has("spec.pdSpec"):
        return
    asked = {*subject.manifest.mapping(LIMITS), *subject.manifest.mapping(REQUESTS)}
    if not any(str(name).startswith("nvidia.com/") for name in asked):
        yield hit((*LIMITS, GPU))


@rule(
    "gpu-request-unlike-limit",
    "error",
    source=sources.GPUS,
    en="{path} is {got} but the limit is {limit}; Kubernetes takes GPUs only where both are the same",
    ko="{path} 값은 {got}인데 제한은 {limit}입니다. Kubernetes는 GPU의 요청과 제한이 같아야 받아들입니다",
)
def gpu_request_unlike_limit(subject: Subject) -> Iterator[Hit]:
    limit, request = subject.manifest.get((*LIMITS, GPU)), subject.manifest.get((*REQUESTS, GPU))
    try:
        parse_count("limit", 0 if limit is None else limit)
        parse_count("request", 0 if request is None else request)
    except ConfigError:
        return  # rule bad-quantity speaks
    if request is not None and limit is None:
        yield fixed((*LIMITS, GPU), request, got=request, limit=UNSET)
    elif request is not None and str(request) != str(limit):
        yield fixed((*REQUESTS, GPU), limit, limit=limit)


@rule(
    "request-over-limit",
    "error",
    source=sources.RESOURCES,
    en="{path} is {got} but the limit is {limit}; Kubernetes refuses the pod",
    ko="{path} 값 {got}이(가) 제한 {limit}보다 큽니다. Kubernetes가 파드를 거부합니다",
)
def request_over_limit(subject: Subject) -> Iterator[Hit]:
    for name, parse in (("cpu", parse_count), ("memory", parse_bytes), ("ephemeral-storage", parse_bytes)):
        request, limit = subject.manifest.get((*REQUESTS, name)), subject.manifest.get((*LIMITS, name))
        try:
            over = request is not None and limit is not None and parse(name, request) > parse(name, limit)
        except ConfigError:
            continue  # rule bad-quantity speaks
        if over:
            yield suggested(
                (*LIMITS, name),
                request,
                path=f"spec.worker.resources.requests.{name}",
                got=request,
                limit=limit,
            )


@rule(
    "bad-quantity",
    "error",
    source=sources.RESOURCES,
    en="{path} is {got}; expected a number as Kubernetes writes it, such as {like}",
    ko="{path} 값이 {got}입니다. Kubernetes 수량 표기여야 합니다. 예: {like}",
)
def bad_quantity(subject: Subject) -> Iterator[Hit]:
    for where in (LIMITS, REQUESTS):
        for name, value in subject.manifest.mapping(where).items():
            is_bytes = name in ("memory", "ephemeral-storage") or str(name).startswith("hugepages-")
            try:
                (parse_bytes if is_bytes else parse_count)(name, value)
            except ConfigError:
                meant = _quantity_meant(value) if is_bytes else None
                like = "512Gi" if is_bytes else "8"
                place = (*where, name)
                yield hit(place, like=like) if meant is None else fixed(place, meant, like=meant)


@rule(
    "resource-name",
    "error",
    source=sources.RESOURCES,
    en="{path} is no resource that a node has{hint}: {why}",
    ko="{path}은(는) 노드에 없는 리소스입니다{hint}. {why}",
)
def resource_name(subject: Subject) -> Iterator[Hit]:
    for where in (LIMITS, REQUESTS):
        names = subject.manifest.mapping(where)
        for name in map(str, names):
            meant = nearest(name, DEVICES if "/" in name else STANDARD)
            if name in (*DEVICES, *STANDARD) or name.startswith(("hugepages-", "nvidia.com/mig-")):
                continue
            if "/" in name and meant is None:
                continue  # a device of somebody else
            edits = (Edit("rename", (*where, name), meant),) if meant and meant not in names else ()
            why = _PENDING if "/" in name else _REFUSED
            yield Hit((*where, name), None, edits, {"hint": did_you_mean(meant) if meant else "", "why": why})


def _quantity_meant(value: object) -> str | None:
    """`512GiB`, `512GB` and `512 Gi` as Kubernetes spells them, else None."""
    import re

    match = re.fullmatch(r"(\d+)\s*([KMGTP])(i?)B?", str(value))
    return f"{match[1]}{match[2]}{match[3]}" if match else None


@rule(
    "memory-over-node",
    "error",
    source=sources.RESOURCES,
    en="{path} is {got} but one {node} has {has}Gi, of which the system keeps a part: the pod would stay "
    "pending",
    ko="{path} 값은 {got}인데 {node} 한 대의 메모리는 {has}Gi이고 일부는 시스템이 씁니다. "
    "파드가 계속 대기(Pending)합니다",
)
def memory_over_node(subject: Subject) -> Iterator[Hit]:
    nodes = [node for name in subject.instance_types if (node := find_instance_type(name))]
    if not nodes or len(nodes) != len(subject.instance_types):
        return
    most = max(nodes, key=lambda node: node.memory_bytes)
    for where in (REQUESTS, LIMITS):
        value = subject.manifest.get((*where, "memory"))
        if value is None or (where == LIMITS and subject.manifest.has((*REQUESTS, "memory"))):
            continue
        try:
            asked = parse_bytes("memory", value)
        except ConfigError:
            continue
        if asked >= most.memory_bytes:
            yield hit((*where, "memory"), node=most.name, has=most.memory_bytes // GIB)


@rule(
    "cpu-over-node",
    "error",
    source=sources.RESOURCES,
    en="{path} is {got} but one {node} has {has} vCPUs, of which the system keeps a part: the pod would "
    "stay pending",
    ko="{path} 값은 {got}인데 {node} 한 대의 vCPU는 {has}개이고 일부는 시스템이 씁니다. "
    "파드가 계속 대기(Pending)합니다",
)
def cpu_over_node(subject: Subject) -> Iterator[Hit]:
    nodes = [node for name in subject.instance_types if (node := find_instance_type(name))]
    if not nodes or len(nodes) != len(subject.instance_types):
        return
    most = max(nodes, key=lambda node: node.vcpus)
    value = subject.manifest.get((*REQUESTS, "cpu"))
    try:
        over = value is not None and parse_count("cpu", value) >= most.vcpus
    except ConfigError:
        return
    if over:
        yield suggested((*REQUESTS, "cpu"), str(math.floor(most.vcpus * 0.9)), node=most.name, has=most.vcpus)


@rule(
    "partition-of-type",
    "error",
    kinds=(ENDPOINT, JUMPSTART),
    source=sources.MIG,
    en="{path} is {got}; {node} can be partitioned into: {profiles}",
    ko="{path} 값이 {got}입니다. {node}에서 가능한 파티션: {profiles}",
)
def partition_of_type(subject: Subject) -> Iterator[Hit]:
    from hypertier.catalog.partitions import partitions_of

    if len(subject.instance_types) != 1:
        return
    node = subject.instance_types[0]
    profiles = partitions_of(node)
    named = []
    partition = subject.manifest.text("spec.server.acceleratorPartitionType")
    if partition is not None:
        named.append((path("spec.server.acceleratorPartitionType"), partition))
    for where in (LIMITS, REQUESTS):
        for name in subject.manifest.mapping(where):
            if str(name).startswith("nvidia.com/mig-"):
                named.append(((*where, name), str(name).removeprefix("nvidia.com/")))
    for place, name in named:
        if name not in profiles and find_instance_type(node) is not None:
            yield hit(place, got=name, node=node, profiles=profiles or ("none",))
