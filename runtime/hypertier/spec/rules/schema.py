"""Rules that follow from the types: what is missing, of a wrong kind, or no field at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypertier.spec.deployment import API_VERSION
from hypertier.spec.endpoint import API_GROUP
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import (
    CLUSTER,
    DEPLOYMENT,
    GATEWAY,
    MODELS,
    Edit,
    Hit,
    did_you_mean,
    fixed,
    hit,
    rule,
    suggested,
)
from hypertier.spec.rules.subject import Subject
from hypertier.spec.said import Said
from hypertier.spec.structure import Fault, FaultKind
from hypertier.spec.tree import dotted, path

# Patterns that a rule of their own explains better.
HAVE_OWN_RULES = ("instanceType", "l2CacheBackend", "serverAddress")
TYPED = (*MODELS, DEPLOYMENT)

DROP = Said("silently drop", "아무 말 없이 버립니다")
REFUSE = Said("refuse", "거부합니다")


def is_ours(subject: Subject) -> bool:
    """Whether no API server ever sees the document."""
    return subject.kind == DEPLOYMENT


def reader(subject: Subject) -> Said:
    """Who takes the document, or does not."""
    return Said("hypertier", "hypertier가") if is_ours(subject) else Said("the API server", "API 서버가")


def faults_of(subject: Subject, *kinds: FaultKind) -> Iterator[Fault]:
    """The faults of these kinds, all of one walk over the document."""
    return (fault for fault in subject.faults if fault.kind in kinds)


_IN_KOREAN = {
    "a mapping of fields": "필드의 매핑",
    "a list": "목록",
    "true or false": "true 또는 false",
    "a whole number": "정수",
    "a number": "숫자",
    "text, in quotes": "따옴표로 묶은 문자열",
}


def said(expected: str) -> Said:
    """What a type expects, in both languages."""
    korean = _IN_KOREAN.get(expected, expected)
    korean = re.sub(r"^at most (\d+) (entries|characters)$", r"최대 \1개", korean)
    korean = re.sub(r"^(-?\d+) or more$", r"\1 이상", korean)
    korean = re.sub(r"^(-?\d+) to (-?\d+)$", r"\1~\2", korean)
    return Said(expected, korean.replace(" or ", ", "))


@rule(
    "duplicate-key",
    "error",
    kinds=(*MODELS, DEPLOYMENT, GATEWAY, CLUSTER),
    source=sources.YAML,
    en="{path} stands there twice; the last one wins and the first is dropped without a word",
    ko="{path} 키가 두 번 나옵니다. 마지막 값만 쓰이고 앞의 값은 아무 말 없이 버려집니다",
)
def duplicate_key(subject: Subject) -> Iterator[Hit]:
    for where in subject.document.duplicates:
        yield hit(where)


@rule(
    "unknown-field",
    "error",
    kinds=TYPED,
    source=sources.CRD_PRUNING,
    en="{path} is no field of {kind}{hint}; {who} would {drop} it",
    ko="{path} 필드는 {kind}에 없습니다{hint}. {who} {drop}",
)
def unknown_field(subject: Subject) -> Iterator[Hit]:
    drop = REFUSE if is_ours(subject) else DROP
    values = {"kind": subject.kind, "hint": "", "who": reader(subject), "drop": drop}
    for fault in faults_of(subject, "unknown"):
        parent = subject.manifest.mapping(fault.where[:-1])
        if fault.rename is not None:
            free = fault.rename not in parent
            edits = (Edit("rename", fault.where, fault.rename),) if free else ()
            meant = dotted((*fault.where[:-1], fault.rename))
            yield Hit(fault.where, None, edits, {**values, "hint": did_you_mean(meant)})
        elif fault.move is not None:
            free = not subject.manifest.has(fault.move)
            edits = (Edit("move", fault.where, fault.move),) if free else ()
            yield Hit(fault.where, None, edits, {**values, "hint": did_you_mean(dotted(fault.move))})
        else:
            yield hit(fault.where, **values)


@rule(
    "missing-field",
    "error",
    kinds=TYPED,
    source=sources.CRD,
    en="{path} is not set; {who} refuses {kind} without it",
    ko="{path} 값이 없습니다. {kind}의 필수 필드라서 {who} 거부합니다",
)
def missing_field(subject: Subject) -> Iterator[Hit]:
    for fault in faults_of(subject, "missing"):
        is_generated = fault.where == ("metadata", "name") and subject.manifest.text("metadata.generateName")
        if not is_generated:
            yield hit(fault.where, kind=subject.kind, who=reader(subject))


@rule(
    "wrong-type",
    "error",
    kinds=TYPED,
    source=sources.CRD,
    en="{path} is {got}; expected {expected}",
    ko="{path} 값이 {got}입니다. {expected} 형식이어야 합니다",
)
def wrong_type(subject: Subject) -> Iterator[Hit]:
    for fault in faults_of(subject, "type"):
        fix = fault.convert
        if isinstance(fix, str):  # as it was written: 3.10 is not 3.1
            fix = subject.document.written.get(fault.where, fix)
        if fix is not None:
            yield fixed(fault.where, fix, expected=said(fault.expected))
        else:
            yield hit(fault.where, expected=said(fault.expected))


@rule(
    "not-a-choice",
    "error",
    kinds=TYPED,
    source=sources.CRD,
    en="{path} is {got}; expected {expected}",
    ko="{path} 값이 {got}입니다. 다음 중 하나여야 합니다: {expected}",
)
def not_a_choice(subject: Subject) -> Iterator[Hit]:
    for fault in faults_of(subject, "choice"):
        if fault.rename is not None:
            yield fixed(fault.where, fault.rename, expected=said(fault.expected))
        else:
            yield hit(fault.where, expected=said(fault.expected))


@rule(
    "out-of-bounds",
    "error",
    kinds=TYPED,
    source=sources.CRD,
    en="{path} is {got}; expected {expected}",
    ko="{path} 값이 {got}입니다. 허용 범위: {expected}",
)
def out_of_bounds(subject: Subject) -> Iterator[Hit]:
    for fault in faults_of(subject, "range", "pattern"):
        if fault.where[-1] not in HAVE_OWN_RULES:
            yield hit(fault.where, expected=said(fault.expected))


@rule(
    "kind-or-version",
    "error",
    kinds=TYPED,
    source=sources.CRD,
    en="apiVersion is {got}; expected {expected}, the version that {kind} is served in",
    ko="apiVersion 값이 {got}입니다. {kind}은(는) {expected} 버전으로 제공됩니다",
)
def kind_or_version(subject: Subject) -> Iterator[Hit]:
    version = subject.manifest.get("apiVersion")
    if is_ours(subject):
        versions: tuple[str, ...] = (API_VERSION,)
    else:
        versions = (f"{API_GROUP}/v1", f"{API_GROUP}/v1alpha1")
    if version not in versions:
        yield fixed(("apiVersion",), versions[0], kind=subject.kind, expected=versions[0])


@rule(
    "version-v1alpha1",
    "error",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} does not exist in v1alpha1; the API server would drop it. Use apiVersion {v1}",
    ko="{path} 필드는 v1alpha1에 없어서 API 서버가 버립니다. apiVersion {v1}을(를) 쓰십시오",
)
def version_v1alpha1(subject: Subject) -> Iterator[Hit]:
    if not str(subject.manifest.get("apiVersion")).endswith("/v1alpha1"):
        return
    v1 = "inference.sagemaker.aws.amazon.com/v1"
    edits = (Edit("set", ("apiVersion",), v1),)
    for fault in faults_of(subject, "alpha"):
        yield Hit(fault.where, None, edits, {"v1": v1})
    source = path("spec.modelSourceConfig.modelSourceType")
    if subject.manifest.text(source) in ("huggingface", "kubernetesVolume"):
        yield Hit(source, None, edits, {"v1": v1})


@rule(
    "operator-too-old",
    "error",
    kinds=MODELS,
    source=sources.RELEASES,
    en="{path} needs operator {since}; the deployment has operator {has}, which drops it without a word",
    ko="{path} 필드는 오퍼레이터 {since}부터 있습니다. 배포의 오퍼레이터 {has}은(는) 이 값을 버립니다",
)
def operator_too_old(subject: Subject) -> Iterator[Hit]:
    has = subject.around.operator_version
    if has is None or subject.around.serving == "selfhosted":
        return
    for fault in faults_of(subject, "since"):
        needed = tuple(int(part) for part in fault.expected.split("."))
        if has < needed:
            yield hit(fault.where, since=fault.expected, has=".".join(str(part) for part in has))


@rule(
    "name-too-long",
    "error",
    kinds=MODELS,
    source=sources.NAMES,
    en="metadata.name is {got}; expected a DNS label: lower-case letters, digits and hyphens, at most 63",
    ko="metadata.name 값이 {got}입니다. 소문자, 숫자, 하이픈으로 된 63자 이하의 DNS 레이블이어야 합니다",
)
def name_is_a_label(subject: Subject) -> Iterator[Hit]:
    name = subject.manifest.text("metadata.name")
    if name is None or re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        return
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    yield suggested(("metadata", "name"), label) if 0 < len(label) <= 63 else hit(("metadata", "name"))
