"""Autoscaling: triggers that can fire, and one hand on the wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hypertier.exporter.metrics import ALL_SERIES, DIMENSION, NAMESPACE, ROLE_DIMENSION
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import MODELS, UNSET, Edit, Hit, fixed, hit, rule, suggested, unset
from hypertier.spec.rules.subject import Subject
from hypertier.spec.said import Said
from hypertier.spec.scaling import WHOLE, setting_of
from hypertier.spec.tree import Path, path

SCALING = path("spec.autoScalingSpec")
ROUTER_SCALING = path("spec.intelligentRoutingSpec.autoScalingSpec")
DECODING = path("spec.pdSpec.autoScalingSpec.decodingAutoScaling")
PREFILL = path("spec.pdSpec.autoScalingSpec.prefillAutoScaling")
AMP_ADDRESS = r"https://aps-workspaces\.[a-z0-9.-]+\.amazonaws\.com/workspaces/ws-[A-Za-z0-9-]+"
OWN_METRICS = re.compile(r"\b(vllm|lmcache|sglang):|\bmodel_(invocations|concurrent|latency|ttfb|errors)")
STANDARD_PERIOD_SECONDS = 60
EXPORTED = frozenset(series.name for series in ALL_SERIES)


def _scalings(subject: Subject) -> list[Path]:
    return [
        where for where in (SCALING, ROUTER_SCALING, PREFILL, DECODING) if subject.manifest.mapping(where)
    ]


def _triggers(subject: Subject, kind: str) -> Iterator[tuple[Path, Any]]:
    """Every trigger of a kind (`cloudWatch`, `prometheus`) with its path."""
    for scaling in _scalings(subject):
        one = (*scaling, f"{kind}Trigger")
        if subject.manifest.mapping(one):
            yield one, subject.manifest.mapping(one)
        many = (*scaling, f"{kind}TriggerList")
        for index, entry in subject.manifest.mappings(many):
            yield (*many, index), entry


@rule(
    "prometheus-address",
    "error",
    kinds=MODELS,
    source=sources.AUTOSCALING,
    en="{path} is {got}; expected the workspace's address, "
    "https://aps-workspaces.REGION.amazonaws.com/workspaces/ws-ID: other Prometheus servers are refused",
    ko="{path} 값이 {got}입니다. https://aps-workspaces.REGION.amazonaws.com/workspaces/ws-ID 형식의 AMP "
    "작업 영역 주소만 쓸 수 있습니다",
)
def prometheus_address(subject: Subject) -> Iterator[Hit]:
    for where, trigger in _triggers(subject, "prometheus"):
        address = trigger.get("serverAddress")
        if not isinstance(address, str) or re.search(r"[<>${}]", address):
            continue
        trimmed = re.match(AMP_ADDRESS, address)
        if trimmed is None:
            yield hit((*where, "serverAddress"))
        elif trimmed[0] != address:
            yield fixed((*where, "serverAddress"), trimmed[0])


@rule(
    "cloudwatch-endpoint-name",
    "warning",
    kinds=MODELS,
    source=sources.AUTOSCALING,
    en="{path} is {got} but this manifest's endpoint is {endpoint}: it would scale by another's load",
    ko="{path} 값은 {got}인데 이 매니페스트의 엔드포인트는 {endpoint}입니다. 다른 엔드포인트의 부하로 "
    "확장됩니다",
)
def cloudwatch_endpoint_name(subject: Subject) -> Iterator[Hit]:
    endpoint = subject.manifest.text("spec.endpointName") or subject.manifest.text(
        "spec.sageMakerEndpoint.name"
    )
    for where, trigger in _triggers(subject, "cloudWatch"):
        dimensions = trigger.get("dimensions")
        for index, entry in enumerate(dimensions if isinstance(dimensions, list) else []):
            if not isinstance(entry, dict) or entry.get("name") != "EndpointName":
                continue
            place = (*where, "dimensions", index, "value")
            if endpoint and entry.get("value") != endpoint:
                yield suggested(place, endpoint, endpoint=endpoint)
            elif not endpoint and trigger.get("namespace") == "AWS/SageMaker":
                yield hit(
                    place, endpoint=Said("none, as endpointName is not set", "없음(endpointName 미설정)")
                )


@rule(
    "exporter-dimensions",
    "warning",
    source=sources.HYPERTIER,
    en="{path} are {got}; expected {expected}, under which the exporter writes {metric}: there is nothing "
    "under others",
    ko="{path} 값이 {got}입니다. exporter는 {metric}을(를) {expected} 차원으로 기록하므로 다른 차원에는 값이 "
    "없습니다",
)
def exporter_dimensions(subject: Subject) -> Iterator[Hit]:
    if subject.by_operator:
        return
    expected = [DIMENSION, *([ROLE_DIMENSION] if subject.manifest.mapping("spec.pdSpec") else [])]
    for where, trigger in _triggers(subject, "cloudWatch"):
        metric, dimensions = trigger.get("metricName"), trigger.get("dimensions")
        if (
            trigger.get("namespace") != NAMESPACE
            or metric not in EXPORTED
            or not isinstance(dimensions, list)
        ):
            continue
        names = [str(entry.get("name")) for entry in dimensions if isinstance(entry, dict)]
        if sorted(names) != expected:
            said = {"got": ", ".join(names) or UNSET, "expected": ", ".join(expected)}
            yield hit((*where, "dimensions"), metric=metric, **said)


@rule(
    "cloudwatch-period",
    "error",
    kinds=MODELS,
    source=sources.CLOUDWATCH_PERIODS,
    en="{path} is {got}; expected 1, 5, 10, 30 or a multiple of 60 seconds: CloudWatch refuses other periods",
    ko="{path} 값이 {got}입니다. 1, 5, 10, 30 또는 60의 배수(초)여야 합니다. CloudWatch가 다른 주기를 "
    "거부합니다",
)
def cloudwatch_period(subject: Subject) -> Iterator[Hit]:
    for where, trigger in _triggers(subject, "cloudWatch"):
        period = trigger.get("metricCollectionPeriod")
        if not isinstance(period, int) or isinstance(period, bool):
            continue
        if period not in (1, 5, 10, 30) and (period <= 0 or period % 60):
            rounded = max(60, -(-period // 60) * 60)
            yield suggested((*where, "metricCollectionPeriod"), rounded)


@rule(
    "cloudwatch-resolution",
    "warning",
    kinds=MODELS,
    source=sources.KEDA_CLOUDWATCH,
    en="{path} is {got} seconds but metrics of {namespace} come once in 60: most reads would find nothing",
    ko="{path} 값은 {got}초인데 {namespace} 지표는 60초에 한 번 나옵니다. 대부분의 조회가 비어 있게 됩니다",
)
def cloudwatch_resolution(subject: Subject) -> Iterator[Hit]:
    for where, trigger in _triggers(subject, "cloudWatch"):
        namespace = trigger.get("namespace")
        if not isinstance(namespace, str) or not namespace.startswith("AWS/"):
            continue
        for name in ("metricCollectionPeriod", "metricCollectionStartTime"):
            seconds = trigger.get(name)
            if isinstance(seconds, int) and seconds in (1, 5, 10, 30):
                yield suggested((*where, name), STANDARD_PERIOD_SECONDS, namespace=namespace)


@rule(
    "replicas-and-autoscaling",
    "warning",
    kinds=MODELS,
    source=sources.AUTOSCALING,
    en="{path} is {got} beside autoScalingSpec: every apply resets what the autoscaler decided; keep "
    "minReplicaCount alone",
    ko="{path} 값 {got}이(가) autoScalingSpec과 함께 있습니다. 적용할 때마다 오토스케일러의 결정이 "
    "초기화되므로 minReplicaCount만 두십시오",
)
def replicas_and_autoscaling(subject: Subject) -> Iterator[Hit]:
    where = path("spec.replicas")
    if subject.manifest.has(where) and subject.manifest.mapping(SCALING):
        yield Hit(where, None, (Edit("remove", where),))


@rule(
    "initial-replica-count",
    "warning",
    source=sources.CRD,
    en="{path} has no effect; replicas says how many pods to start with",
    ko="{path} 값은 효과가 없습니다. 시작 파드 수는 replicas로 지정합니다",
)
def initial_replica_count(subject: Subject) -> Iterator[Hit]:
    where = path("spec.InitialReplicaCount")
    if subject.manifest.has(where):
        replaces = not subject.manifest.has("spec.replicas") and not subject.manifest.mapping(SCALING)
        edit = Edit("rename", where, "replicas") if replaces else Edit("remove", where)
        yield Hit(where, None, (edit,))


@rule(
    "trigger-and-list",
    "warning",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} is not used: {list} beside it wins",
    ko="{path} 값은 쓰이지 않습니다. 옆의 {list}이(가) 우선합니다",
)
def trigger_and_list(subject: Subject) -> Iterator[Hit]:
    for scaling in _scalings(subject):
        for kind in ("cloudWatchTrigger", "prometheusTrigger"):
            if subject.manifest.has((*scaling, kind)) and subject.manifest.items((*scaling, f"{kind}List")):
                yield hit((*scaling, kind), list=f"{kind}List")


@rule(
    "no-trigger",
    "error",
    kinds=MODELS,
    source=sources.AUTOSCALING,
    en="{path} has no trigger: nothing would ever scale",
    ko="{path}에 트리거가 없습니다. 확장이 일어나지 않습니다",
)
def no_trigger(subject: Subject) -> Iterator[Hit]:
    names = ("cloudWatchTrigger", "cloudWatchTriggerList", "prometheusTrigger", "prometheusTriggerList")
    for scaling in _scalings(subject):
        if not any(subject.manifest.get((*scaling, name)) for name in names):
            yield hit(scaling)


@rule(
    "replica-bounds",
    "error",
    kinds=MODELS,
    source=sources.AUTOSCALING,
    en="{path} is {got}, less than minReplicaCount {low}: the autoscaler is refused",
    ko="{path} 값 {got}이(가) minReplicaCount {low}보다 작습니다. 오토스케일러가 거부됩니다",
)
def replica_bounds(subject: Subject) -> Iterator[Hit]:
    for scaling in _scalings(subject):
        low = subject.manifest.whole((*scaling, "minReplicaCount"))
        high = subject.manifest.whole((*scaling, "maxReplicaCount"))
        low, top = 1 if low is None else low, 5 if high is None else high
        if top < low:
            got = top if high is not None else unset(top)
            yield suggested((*scaling, "maxReplicaCount"), low, low=low, got=got)


@rule(
    "two-scalers",
    "error",
    kinds=MODELS,
    source=sources.SCALING_WORKLOADS,
    en="{kind} {name} scales the same Deployment as {path}: the two would undo each other's work",
    ko="{kind} {name}이(가) {path}와 같은 Deployment를 확장합니다. 서로의 결정을 되돌리게 됩니다",
)
def two_scalers(subject: Subject) -> Iterator[Hit]:
    name, namespace = subject.manifest.text("metadata.name"), subject.manifest.text("metadata.namespace")
    if not subject.manifest.mapping(SCALING):
        return
    for other in subject.around.siblings:
        target = other.text("spec.scaleTargetRef.name")
        if (
            other.get("kind") in ("ScaledObject", "HorizontalPodAutoscaler")
            and target == name
            and ((other.text("metadata.namespace") or namespace) == namespace)
        ):
            yield hit(SCALING, kind=other.get("kind"), name=other.text("metadata.name"))


@rule(
    "hook-and-autoscaling",
    "error",
    source=sources.HYPERTIER,
    en="{path} is set beside the deployment's {setting}: expected one of them, as the two would undo each "
    "other's work",
    ko="{path}이(가) 있는데 배포의 {setting}에도 한계가 있습니다. 서로의 결정을 되돌리게 되므로 둘 중 하나만 "
    "두십시오",
)
def hook_and_autoscaling(subject: Subject) -> Iterator[Hit]:
    scaling = subject.scaling
    for where, component in ((SCALING, WHOLE), (PREFILL, "prefill"), (DECODING, "decode")):
        if scaling is not None and scaling.is_stepped(component) and subject.manifest.mapping(where):
            schedules = component == WHOLE and scaling.schedules
            yield hit(where, setting="scaling.schedules" if schedules else f"{setting_of(component)}.max")


@rule(
    "wake-from-zero",
    "error",
    kinds=MODELS,
    source=sources.AUTOSCALING,
    en="minReplicaCount is 0 but {path} reads metrics of the pods themselves: at zero pods there are none, "
    "and nothing wakes the endpoint",
    ko="minReplicaCount가 0인데 {path}이(가) 파드 자신의 지표를 읽습니다. 파드가 없으면 지표도 없어 "
    "엔드포인트가 다시 시작되지 않습니다",
)
def wake_from_zero(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.whole((*SCALING, "minReplicaCount")) != 0:
        return
    triggers = [*_triggers(subject, "prometheus"), *_triggers(subject, "cloudWatch")]
    main = [(where, trigger) for where, trigger in triggers if where[: len(SCALING)] == SCALING]
    own = [
        (where, "query" if "query" in trigger else "metricName")
        for where, trigger in main
        if OWN_METRICS.search(str(trigger.get("query") or trigger.get("metricName") or ""))
    ]
    if len(own) == len(main):
        for where, name in own:
            yield hit((*where, name))
