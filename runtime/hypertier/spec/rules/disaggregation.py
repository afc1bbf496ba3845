"""Disaggregated prefill and decode: what pdSpec needs to work, and when it pays."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.catalog.models import find_model
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import Hit, hit, rule, suggested
from hypertier.spec.rules.subject import Subject
from hypertier.spec.tree import path

PD = path("spec.pdSpec")
FAMILIES = ("ml.p5.", "ml.p5e.", "ml.p5en.", "ml.p6-b200.", "ml.p6-b300.")
MIN_PARAMETERS = 70_000_000_000
MIN_INPUT_TOKENS = 4096


@rule(
    "disaggregation-instance",
    "error",
    source=sources.DISAGGREGATION,
    en="{path} is {got}; pdSpec works on p5, p5e, p5en, p6-b200 and p6-b300, whose EFA moves KV between pods",
    ko="{path} 값이 {got}입니다. pdSpec은 EFA로 KV를 옮기는 p5, p5e, p5en, p6-b200, p6-b300에서만 동작합니다",
)
def disaggregation_instance(subject: Subject) -> Iterator[Hit]:
    if not subject.manifest.has(PD):
        return
    one = path("spec.instanceType")
    many = path("spec.instanceTypes")
    for where in [one, *((*many, index) for index in range(len(subject.manifest.items(many))))]:
        name = subject.manifest.text(where)
        if name and name.startswith("ml.") and not name.startswith(FAMILIES):
            yield hit(where)


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
    for role in ("prefillSpec", "decodingSpec"):
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
