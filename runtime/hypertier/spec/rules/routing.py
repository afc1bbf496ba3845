"""Intelligent routing: what each strategy needs, and what it can't stand beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypertier.spec.arguments import find_option
from hypertier.spec.rules import sources
from hypertier.spec.rules.cache import lmcache_version, vllm_version
from hypertier.spec.rules.rule import MODELS, Edit, Hit, fixed, hit, rule, suggested
from hypertier.spec.rules.subject import Subject, small_whole
from hypertier.spec.tree import View, path

DECODING = path("spec.pdSpec.decodingSpec.args")
ROUTING = path("spec.intelligentRoutingSpec")
ENABLED = path("spec.intelligentRoutingSpec.enabled")
ENDPOINT_PATH = path("spec.invocationEndpoint")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@rule(
    "routing-off-with-strategy",
    "error",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} is not set, which means false: the routing strategy below does nothing",
    ko="{path} 값이 없어 false로 처리됩니다. 아래의 라우팅 전략은 아무 효과가 없습니다",
)
def routing_off_with_strategy(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.mapping(ROUTING) and not subject.manifest.has(ENABLED):
        yield fixed(ENABLED, True)


@rule(
    "kvaware-endpoint",
    "error",
    source=sources.CACHING,
    en="{path} is {got}; expected v1/completions: kvaware reads the field prompt alone, so chat requests "
    "fall back without a word",
    ko="{path} 값이 {got}입니다. v1/completions여야 합니다. kvaware는 prompt 필드만 읽으므로 채팅 요청은 "
    "조용히 다른 방식으로 라우팅됩니다",
)
def kvaware_endpoint(subject: Subject) -> Iterator[Hit]:
    if subject.strategy != "kvaware" or subject.around.serving == "selfhosted":
        return
    endpoint = (subject.manifest.text(ENDPOINT_PATH) or "").strip("/")
    if not endpoint.endswith("completions") or endpoint.endswith("chat/completions"):
        yield fixed(ENDPOINT_PATH, "v1/completions")


@rule(
    "kvaware-versions",
    "error",
    source=sources.CACHING,
    en="{path} is {got}; kvaware with operator {operator} needs {needs}: other versions never register "
    "with the router, which falls back without a word",
    ko="{path} 값이 {got}입니다. 오퍼레이터 {operator}의 kvaware에는 {needs}이(가) 필요합니다. 다른 버전은 "
    "라우터에 등록되지 않아 조용히 다른 방식으로 라우팅됩니다",
)
def kvaware_versions(subject: Subject) -> Iterator[Hit]:
    if subject.strategy != "kvaware" or subject.around.serving == "selfhosted":
        return
    operator = subject.around.operator_version
    if operator is not None and operator < (3, 1, 3):
        lmcache, vllm = lmcache_version(subject), vllm_version(subject)
        fits = (lmcache is None or lmcache[:3] == (0, 3, 9)) and (vllm is None or vllm[:3] == (0, 11, 1))
        needs, said = "LMCache 0.3.9post2, vLLM 0.11.1", ".".join(str(part) for part in operator)
    else:
        lmcache, vllm = lmcache_version(subject), vllm_version(subject)
        fits = (lmcache is None or lmcache >= (0, 4, 3)) and (vllm is None or vllm >= (0, 19, 1))
        needs, said = "LMCache >= 0.4.3, vLLM >= 0.19.1", ">= 3.1.3"
    if not fits:
        yield hit(path("spec.worker.image"), needs=needs, operator=said)


@rule(
    "kvaware-needs-cache",
    "warning",
    kinds=MODELS,
    source=sources.LMCACHE_CONTROLLER,
    en="routingStrategy is kvaware but {path} has no tier on: without LMCache no engine reports what it "
    "holds",
    ko="routingStrategy가 kvaware인데 {path}에 켜진 계층이 없습니다. LMCache가 없으면 어떤 엔진도 가진 "
    "캐시를 알리지 않습니다",
)
def kvaware_needs_cache(subject: Subject) -> Iterator[Hit]:
    if subject.strategy != "kvaware" or subject.around.serving == "selfhosted":
        return
    if not subject.has_l1 and not subject.has_l2:
        yield suggested(path("spec.kvCacheSpec"), {"enableL1Cache": True})


@rule(
    "events-data-parallel",
    "error",
    source=sources.HYPERTIER_ROUTER,
    en="{path} has --data-parallel-size {got}; with kvaware expected 1: ranks behind one address choose "
    "among themselves, and the KV events of the first alone are heard. Take replicas instead, or prefixaware",
    ko="{path}의 --data-parallel-size 값이 {got}입니다. kvaware에서는 1이어야 합니다. 한 주소 뒤의 랭크들은 "
    "요청을 처리할 랭크를 스스로 고르고, 첫 번째 랭크의 KV 이벤트만 들립니다. 복제본을 늘리거나 "
    "prefixaware를 쓰십시오",
)
def events_data_parallel(subject: Subject) -> Iterator[Hit]:
    if subject.strategy != "kvaware" or subject.around.serving != "selfhosted":
        return
    names = ("--data-parallel-size", "-dp")
    # engines that decode publish events; their own arguments come last, and the last one wins
    own = find_option(subject.manifest.texts(DECODING), *names)
    found = subject.argument_place(*names) if own is None else ((*DECODING, own[0]), own[1])
    if found is not None and (small_whole(found[1]) or 1) > 1:
        yield hit(found[0], got=found[1])


@rule(
    "session-key",
    "error",
    kinds=MODELS,
    source=sources.SAMPLES,
    en="SESSION_KEY is not among {path}; expected the request header or field that names a session: "
    "without it the session strategy has nothing to go by",
    ko="{path}에 SESSION_KEY가 없습니다. 세션을 나타내는 요청 헤더나 필드 이름이 필요합니다. 없으면 "
    "session 전략이 동작할 근거가 없습니다",
)
def session_key(subject: Subject) -> Iterator[Hit]:
    if (
        subject.strategy == "session"
        and subject.around.serving != "selfhosted"
        and "SESSION_KEY" not in subject.environment
    ):
        value = subject.with_variable("SESSION_KEY", "x-session-id")
        yield suggested(subject.environment_path, value)


@rule(
    "kvaware-session-key",
    "warning",
    kinds=MODELS,
    source=sources.SAMPLES,
    en="SESSION_KEY is not among {path}: kvaware falls back to the session ring for prompts that nobody "
    "holds",
    ko="{path}에 SESSION_KEY가 없습니다. kvaware는 아무도 갖고 있지 않은 프롬프트에 세션 링을 씁니다",
)
def kvaware_session_key(subject: Subject) -> Iterator[Hit]:
    if (
        subject.strategy == "kvaware"
        and subject.around.serving != "selfhosted"
        and "SESSION_KEY" not in subject.environment
    ):
        value = subject.with_variable("SESSION_KEY", "x-session-id")
        yield suggested(subject.environment_path, value)


@rule(
    "routing-one-replica",
    "warning",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is true but there is one replica and no autoscaling: a router with nothing to choose from",
    ko="{path} 값이 true인데 복제본이 하나이고 오토스케일링이 없습니다. 라우터가 고를 대상이 없습니다",
)
def routing_one_replica(subject: Subject) -> Iterator[Hit]:
    if (
        subject.has_routing
        and subject.max_replicas <= 1
        and not subject.manifest.has("spec.pdSpec")
        and not _is_stepped(subject.around.deployment)
    ):
        yield hit(ENABLED)


def _is_stepped(deployment: View | None) -> bool:
    """Whether the deployment's hook may make it more replicas than one."""
    if deployment is None:
        return False
    return (deployment.whole("scaling.max") or 1) > 1 or bool(deployment.items("scaling.schedules"))


@rule(
    "routing-and-gateway",
    "error",
    kinds=MODELS,
    source=sources.GATEWAY,
    en="{path} and intelligentRoutingSpec.enabled are both true; expected one: they exclude each other",
    ko="{path}와 intelligentRoutingSpec.enabled가 모두 true입니다. 둘은 함께 쓸 수 없습니다",
)
def routing_and_gateway(subject: Subject) -> Iterator[Hit]:
    where = path("spec.inferenceGateway.enabled")
    if subject.has_routing and subject.manifest.flag(where) is True:
        yield hit(where)


@rule(
    "routing-immutable",
    "error",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} is {got} but the deployed endpoint has {before}: the operator rejects the change. Delete "
    "the endpoint and create it anew",
    ko="{path} 값이 {got}인데 배포된 엔드포인트는 {before}입니다. 오퍼레이터가 변경을 거부합니다. "
    "엔드포인트를 삭제하고 다시 만드십시오",
)
def routing_immutable(subject: Subject) -> Iterator[Hit]:
    before = _applied_before(subject)
    if before is None:
        return
    was = View(before).flag(ENABLED) is True
    if was != subject.has_routing:
        yield hit(ENABLED, before=json.dumps(was))


def _applied_before(subject: Subject) -> Any:
    """The manifest as it was applied last, where the document was read back from a cluster."""
    text = subject.manifest.text(("metadata", "annotations", LAST_APPLIED))
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


@rule(
    "router-autoscaling-without-router",
    "warning",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} scales a router that is switched off",
    ko="{path} 설정은 꺼져 있는 라우터를 확장합니다",
)
def router_autoscaling_without_router(subject: Subject) -> Iterator[Hit]:
    where = (*ROUTING, "autoScalingSpec")
    if subject.manifest.has(where) and subject.manifest.flag(ENABLED) is False:
        yield Hit(where, None, (Edit("remove", where),))


@rule(
    "secret-does-not-reach-router",
    "warning",
    source=sources.MODEL_HUB,
    en="{path} comes from a Secret; the operator copies plain values alone to its router, where {name} "
    "would be empty",
    ko="{path} 값은 Secret에서 옵니다. 오퍼레이터는 평문 값만 라우터로 복사하므로 라우터의 {name}은(는) "
    "비어 있게 됩니다",
)
def secret_does_not_reach_router(subject: Subject) -> Iterator[Hit]:
    if not subject.has_routing or not subject.by_operator:
        return
    for name, (index, entry) in subject.environment.items():
        source = entry.get("valueFrom")
        if isinstance(source, dict) and "secretKeyRef" in source:
            yield hit((*subject.environment_path, index), name=name)


@rule(
    "router-engine-metrics",
    "error",
    source=sources.MODEL_HUB,
    en="{path} has no --enable-metrics: the router drops SGLang engines whose metrics it can't read",
    ko="{path}에 --enable-metrics가 없습니다. 라우터는 지표를 읽을 수 없는 SGLang 엔진을 제외합니다",
)
def router_engine_metrics(subject: Subject) -> Iterator[Hit]:
    gateway = subject.manifest.flag("spec.inferenceGateway.enabled") is True
    if (
        subject.engine == "sglang"
        and (subject.has_routing or gateway)
        and "--enable-metrics" not in subject.arguments
    ):
        where = path("spec.worker.args")
        yield fixed(where, [*subject.manifest.items(where), "--enable-metrics"])


@rule(
    "gateway-engine-version",
    "error",
    source=sources.GATEWAY,
    en="{path} is {got}; the inference gateway reads metrics that {needs} and newer have",
    ko="{path} 값이 {got}입니다. 추론 게이트웨이가 읽는 지표는 {needs}부터 있습니다",
)
def gateway_engine_version(subject: Subject) -> Iterator[Hit]:
    from hypertier.spec.rules.subject import parse_version

    if subject.manifest.flag("spec.inferenceGateway.enabled") is not True:
        return
    vllm = vllm_version(subject)
    if vllm is not None and vllm < (0, 9, 2):
        yield hit(path("spec.worker.image"), needs="vLLM 0.9.2")
    if subject.engine == "sglang" and subject.image_tag:
        sglang = parse_version(subject.image_tag)
        if sglang is not None and sglang < (0, 3, 5):
            yield hit(path("spec.worker.image"), needs="SGLang 0.3.5.post1")
