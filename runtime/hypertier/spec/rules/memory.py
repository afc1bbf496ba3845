"""Memory of the pod and its GPUs, and the time that filling them takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hypertier.catalog.instance_types import GIB, find_instance_type
from hypertier.catalog.models import ModelShape, find_model
from hypertier.errors import ConfigError, HypertierError
from hypertier.planning.capacity import GPU_MEMORY_UTILIZATION_RATIO, GPU_OVERHEAD_BYTES
from hypertier.planning.engine import (
    ENGINE_BASE_BYTES,
    ENGINE_BYTES_PER_GPU,
    IMAGE_PULL_SECONDS,
    SHM_BYTES_PER_GPU,
    SYSTEM_RESERVE_RATIO,
    WARM_UP_SECONDS,
    WEIGHTS_BYTES_PER_SECOND,
    kv_bytes_per_element,
    plan_engine,
    weights_bytes_of,
)
from hypertier.spec import codec
from hypertier.spec.cache_tiers import L2
from hypertier.spec.deployment import DeploymentFile, default_groups, deployment_of
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.quantities import parse_bytes
from hypertier.spec.roles import roles_of
from hypertier.spec.rules import sources
from hypertier.spec.rules.placement import bad_quantity
from hypertier.spec.rules.rule import MODELS, Hit, hit, rule, suggested, unset
from hypertier.spec.rules.subject import GPU, LIMITS, REQUESTS, Subject, read_groups, small_whole
from hypertier.spec.said import Said
from hypertier.spec.tiered_memory import memory_percent_of
from hypertier.spec.tree import View, path

DEPLOY_TIME = path("spec.maxDeployTimeInSeconds")
DEFAULT_DEPLOY_SECONDS = 3600
L1_VARIABLE = "LMCACHE_MAX_LOCAL_CPU_SIZE"


@rule(
    "memory-under-cache",
    "error",
    source=sources.LMCACHE,
    en="{path} is {got} but LMCACHE_MAX_LOCAL_CPU_SIZE is {cache} GB: the pod would be killed as L1 fills",
    ko="{path} 값은 {got}인데 LMCACHE_MAX_LOCAL_CPU_SIZE는 {cache} GB입니다. L1이 차면 파드가 강제 "
    "종료됩니다",
)
def memory_under_cache(subject: Subject) -> Iterator[Hit]:
    limit = _memory(subject, LIMITS)
    cache = subject.environment_value(L1_VARIABLE)
    try:
        gigabytes = float(cache) if cache is not None else 0.0
    except ValueError:
        return
    if limit is not None and 0 < gigabytes < 1e6 and limit < gigabytes * GIB:
        yield hit((*LIMITS, "memory"), cache=cache)


@rule(
    "memory-too-small",
    "warning",
    source=sources.HYPERTIER_PLAN,
    en="{path} is {got}; an engine of {gpus} GPUs takes about {needed}Gi{copy} before any L1",
    ko="{path} 값이 {got}입니다. GPU {gpus}개의 엔진은 L1 없이도 약 {needed}Gi{copy}가 필요합니다",
)
def memory_too_small(subject: Subject) -> Iterator[Hit]:
    if not subject.gpus or subject.gpus > 16:
        return
    where = LIMITS if subject.manifest.has((*LIMITS, "memory")) else REQUESTS
    memory = _memory(subject, where)
    prefetch = subject.manifest.flag("spec.modelSourceConfig.prefetchEnabled") is True
    copy = _weights(subject) if prefetch and _model(subject) else 0
    needed = ENGINE_BASE_BYTES + (ENGINE_BYTES_PER_GPU + SHM_BYTES_PER_GPU) * subject.gpus + copy
    if memory is not None and memory < needed:
        gibibytes = copy // GIB
        said = Said(
            f", {gibibytes}Gi of it the copy that prefetchEnabled keeps," if copy else "",
            f"(prefetchEnabled의 사본 {gibibytes}Gi 포함)" if copy else "",
        )
        rounded = f"{-(-needed // GIB)}Gi"
        yield suggested(
            (*where, "memory"), rounded, gpus=subject.gpus, needed=rounded.removesuffix("Gi"), copy=said
        )


def _memory(subject: Subject, where: tuple[str | int, ...]) -> int | None:
    value = subject.manifest.get((*where, "memory"))
    try:
        return None if value is None else parse_bytes("memory", value)
    except ConfigError:
        return None


def _model(subject: Subject) -> ModelShape | None:
    return find_model(
        subject.manifest.text("spec.modelName"),
        subject.manifest.text("spec.modelSourceConfig.huggingFaceModel.modelId"),
        subject.manifest.text("spec.modelSourceConfig.modelLocation"),
    )


def _weights(subject: Subject) -> int:
    names = (
        subject.manifest.text("spec.modelName"),
        subject.manifest.text("spec.modelSourceConfig.modelLocation"),
    )
    return weights_bytes_of(_model(subject), subject.arguments, *names)


@rule(
    "weights-over-gpus",
    "warning",
    source=sources.HYPERTIER_PLAN,
    en="{path} is {got}: {model} weighs {weights} GiB and the GPUs have {room} GiB for it, so the engine "
    "would not start; take more or larger GPUs, or quantized weights",
    ko="{path} 값이 {got}입니다. {model}의 가중치는 {weights} GiB인데 GPU에는 {room} GiB만 있어 엔진이 "
    "시작하지 못합니다. GPU를 늘리거나 양자화된 가중치를 쓰십시오",
)
def weights_over_gpus(subject: Subject) -> Iterator[Hit]:
    model, usable = _model(subject), _usable_bytes(subject, GPU_MEMORY_UTILIZATION_RATIO)
    if model is None or usable is None or not subject.gpus:
        return
    if subject.engine not in ("vllm", "sglang"):
        return
    room = usable * subject.gpus
    if 0 < room <= _weights(subject):
        values = {"model": model.name, "weights": _weights(subject) // GIB, "room": room // GIB}
        yield hit((*LIMITS, GPU), **values)


@rule(
    "context-over-gpus",
    "warning",
    source=sources.VLLM_MEMORY,
    en="{path} is {got}: one request of that length takes {needed} GiB of KV cache and the GPUs have about "
    "{room} GiB for it, so the engine would not start; about {tokens} tokens fit, or take larger GPUs",
    ko="{path} 값이 {got}입니다. 그 길이의 요청 하나에 KV 캐시 {needed} GiB가 필요한데 GPU에는 약 {room} "
    "GiB만 있어 엔진이 시작하지 못합니다. 약 {tokens} 토큰이 들어가며 GPU를 늘리면 더 들어갑니다",
)
def context_over_gpus(subject: Subject) -> Iterator[Hit]:
    found, model = subject.argument_place("--max-model-len"), _model(subject)
    if found is None or model is None:
        return
    ratio = _share(subject.argument("--gpu-memory-utilization"))
    ranks = small_whole(subject.argument("--tensor-parallel-size", "-tp") or "1")
    length = small_whole(found[1])
    others = subject.argument("--pipeline-parallel-size", "-pp", "--kv-cache-memory-bytes")
    if subject.engine != "vllm" or not length or not ranks or ratio is None or others is not None:
        return
    usable = _usable_bytes(subject, ratio)
    if usable is None:
        return
    room = usable * ranks - _weights(subject)
    needed = model.kv_bytes(length, kv_bytes_per_element(subject.arguments)) * model.kv_copies(ranks)
    if 0 < room < needed:
        values = {"needed": f"{needed / GIB:.1f}", "room": f"{room / GIB:.1f}"}
        yield hit(found[0], tokens=f"{int(length * room / needed):,}", **values)


def _usable_bytes(subject: Subject, ratio: float) -> int | None:
    """Of the largest GPU it may run on, for weights and KV cache; None where one of those is not known."""
    nodes = [find_instance_type(name) for name in subject.instance_types]
    known = [node.gpu_memory_bytes for node in nodes if node is not None]
    if not known or len(known) != len(nodes):
        return None
    return int(max(known) * ratio - GPU_OVERHEAD_BYTES)


def _share(written: str | None) -> float | None:
    """Of a GPU's memory; None where what is written is none, and is found as such."""
    if written is None:
        return GPU_MEMORY_UTILIZATION_RATIO
    with suppress(ValueError):
        return ratio if 0 < (ratio := float(written)) <= 1 else None
    return None


@rule(
    "pod-beside-tiered-storage",
    "error",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is {got}; {node} has {room}Gi for pods beside {percent} % of tiered storage: the pod would "
    "stay pending",
    ko="{path} 값이 {got}입니다. {node}에는 계층형 스토리지 {percent}%를 뺀 {room}Gi만 있어 파드가 계속 "
    "대기(Pending)합니다",
)
def pod_beside_tiered_storage(subject: Subject) -> Iterator[Hit]:
    deployment = subject.around.deployment
    if deployment is None or deployment.text("cache.l2.backend") != "tieredstorage":
        return
    percent = _tiered_percent(deployment)
    memory = _memory(subject, REQUESTS)
    nodes = [node for name in subject.instance_types if (node := find_instance_type(name))]
    if memory is None or not nodes or percent is None:
        return
    node = max(nodes, key=lambda node: node.memory_bytes)
    room = int(node.memory_bytes * (1 - percent / 100 - SYSTEM_RESERVE_RATIO))
    if room < memory < node.memory_bytes:
        yield hit((*REQUESTS, "memory"), node=node.name, room=room // GIB, percent=percent)


def _tiered_percent(deployment: View) -> int | None:
    """Percent of a node that tiered storage takes; None where that can't be read, and is found as such."""
    groups = [group for _, group in read_groups(deployment)]
    with suppress(ConfigError):
        l2 = codec.decode(L2, deployment.mapping("cache.l2"), "", [])
        return memory_percent_of(l2, groups or default_groups()) if l2 else None
    return None


@rule(
    "replica-does-not-fit",
    "error",
    source=sources.HYPERTIER_PLAN,
    en="{path} is {got}; expected {expected}",
    ko="{path} 값이 {got}입니다. 다음이어야 합니다: {expected}",
)
def replica_does_not_fit(subject: Subject) -> Iterator[Hit]:
    deployment = subject.around.deployment
    if deployment is None or subject.around.serving != "selfhosted":
        return
    try:
        endpoint = InferenceEndpointConfig.from_manifest(subject.manifest.data)
        file = codec.decode_or_raise(DeploymentFile, deployment.data)
        whole = deployment_of(file, (endpoint,))
    except HypertierError:
        return  # something can't be read, and is found as such
    if any(bad_quantity(subject)):
        return
    try:
        for role in roles_of(whole, endpoint):
            with role.named():
                plan_engine(whole, role.endpoint)
    except ConfigError as error:
        if error.setting.endswith("requests.memory"):
            yield hit((*REQUESTS, "memory"), path=error.setting, got=error.got, expected=error.expected)
    except HypertierError:
        return


@rule(
    "deploy-time",
    "warning",
    source=sources.CRD,
    en="{path} is {got}; pulling the image and loading {weights} GiB of weights takes about {seconds} "
    "seconds: the deployment would be called failed before it is ready",
    ko="{path} 값이 {got}입니다. 이미지와 {weights} GiB의 가중치를 불러오는 데 약 {seconds}초가 걸려 "
    "준비되기 전에 실패로 처리됩니다",
)
def deploy_time(subject: Subject) -> Iterator[Hit]:
    model = _model(subject)
    written = subject.manifest.whole(DEPLOY_TIME)
    if model is None or (written is None and subject.manifest.has(DEPLOY_TIME)):
        return
    weights = _weights(subject)
    seconds = round(IMAGE_PULL_SECONDS + weights / WEIGHTS_BYTES_PER_SECOND + WARM_UP_SECONDS)
    limit = DEFAULT_DEPLOY_SECONDS if written is None else written
    if limit < seconds:
        enough = -(-seconds * 3 // 2 // 600) * 600
        got = written if written is not None else unset(DEFAULT_DEPLOY_SECONDS)
        yield suggested(DEPLOY_TIME, enough, weights=weights // GIB, seconds=seconds, got=got)
