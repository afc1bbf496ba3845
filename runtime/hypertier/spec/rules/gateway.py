"""AWS's inference gateway, the successor of intelligent routing."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import GATEWAY, Edit, Hit, hit, rule
from hypertier.spec.rules.subject import Subject
from hypertier.spec.tree import path

SCHEDULERS = path("spec.schedulers")
MAX_SCHEDULERS = 100
MAX_ADAPTERS = 50


@rule(
    "gateway-without-authentication",
    "warning",
    kinds=(GATEWAY,),
    source=sources.GATEWAY,
    en="{path} is not set: whoever reaches the gateway may use every model behind it",
    ko="{path} 값이 없습니다. 게이트웨이에 접근할 수 있는 누구나 뒤의 모든 모델을 쓸 수 있습니다",
)
def gateway_without_authentication(subject: Subject) -> Iterator[Hit]:
    where = path("spec.auth.jwt")
    if not subject.manifest.has(where):
        yield hit(where)


@rule(
    "gateway-schedulers",
    "error",
    kinds=(GATEWAY,),
    source=sources.GATEWAY,
    en="{path} has {count} entries; a gateway takes at most 100",
    ko="{path} 항목이 {count}개입니다. 게이트웨이는 최대 100개까지 받습니다",
)
def gateway_schedulers(subject: Subject) -> Iterator[Hit]:
    count = len(subject.manifest.items(SCHEDULERS))
    if count > MAX_SCHEDULERS:
        yield hit(SCHEDULERS, count=count)


@rule(
    "gateway-adapters",
    "error",
    kinds=(GATEWAY,),
    source=sources.GATEWAY,
    en="{path} has {count} entries; a scheduler takes at most 50 adapters",
    ko="{path} 항목이 {count}개입니다. 스케줄러 하나는 최대 50개의 어댑터를 받습니다",
)
def gateway_adapters(subject: Subject) -> Iterator[Hit]:
    for index, entry in subject.manifest.mappings(SCHEDULERS):
        adapters = entry.get("adapters")
        if isinstance(adapters, list) and len(adapters) > MAX_ADAPTERS:
            yield hit((*SCHEDULERS, index, "adapters"), count=len(adapters))


@rule(
    "gateway-model-twice",
    "error",
    kinds=(GATEWAY,),
    source=sources.GATEWAY,
    en="{path} is {got}, which another scheduler has already: requests would go to one of them alone",
    ko="{path} 값 {got}은(는) 다른 스케줄러에 이미 있습니다. 요청이 그중 하나로만 갑니다",
)
def gateway_model_twice(subject: Subject) -> Iterator[Hit]:
    yield from map(hit, subject.manifest.repeated(SCHEDULERS, "modelName"))


@rule(
    "gateway-weights",
    "error",
    kinds=(GATEWAY,),
    source=sources.GATEWAY,
    en="{path} and configMapRef are both set; expected one of them",
    ko="{path}와 configMapRef가 모두 있습니다. 하나만 지정하십시오",
)
def gateway_weights(subject: Subject) -> Iterator[Hit]:
    for index, entry in subject.manifest.mappings(SCHEDULERS):
        if entry.get("weights") is not None and entry.get("configMapRef") is not None:
            yield hit((*SCHEDULERS, index, "weights"))


@rule(
    "gateway-lru",
    "error",
    kinds=(GATEWAY,),
    source=sources.GATEWAY,
    en="{path} is a scorer of llm-d alone; this scheduler is {type}",
    ko="{path} 스코어러는 llm-d에만 있습니다. 이 스케줄러는 {type}입니다",
)
def gateway_lru(subject: Subject) -> Iterator[Hit]:
    for index, entry in subject.manifest.mappings(SCHEDULERS):
        weights, kind = entry.get("weights"), entry.get("type")
        if isinstance(weights, dict) and weights.get("lru") is not None and kind == "epp":
            where = (*SCHEDULERS, index, "weights", "lru")
            yield Hit(where, None, (Edit("remove", where),), {"type": kind})
