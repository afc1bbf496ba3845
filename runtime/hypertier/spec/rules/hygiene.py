"""What no manifest should hold: values that were never filled in, and secrets in the clear."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypertier.catalog.zones import REGION
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import CLUSTER, DEPLOYMENT, GATEWAY, MODELS, Hit, hit, rule
from hypertier.spec.rules.subject import Subject
from hypertier.spec.said import Said
from hypertier.spec.tree import leaves, path

PLACEHOLDER = re.compile(
    r"\\?\$\{[A-Za-z_][A-Za-z0-9_:./-]*\}"  # ${VAR}
    r"|(?<![\w$])\$[A-Z_][A-Z0-9_]{2,}\b"  # $VAR
    r"|<[A-Za-z][A-Za-z0-9 _./|-]*>"  # <your bucket>
    r"|(?<![{$])\{[A-Z][A-Z0-9_]{2,}\}(?!\})"  # {VAR}
    r"|\{\{\s*[\w.]+\s*\}\}"  # {{ values.x }}
    r"|\b(?:YOUR|REPLACE|CHANGE)[-_](?:ME|WITH|THIS|[A-Z]+)(?:[-_][A-Z]+)*\b"
)
SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|PASSWORD|PASSWD|SECRET|API_KEY|APIKEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|CREDENTIALS?)(_|$)"
)
NO_SECRET_NAME = re.compile(
    r"(MAX|NUM|MIN|LIMIT|COUNT|LENGTH|SIZE|NAME|ARN|FILE|PATH|ID)(_|$)|TOKENS"
    r"|(PAD|EOS|BOS|STOP|START|END|UNK|MASK|SEP|CLS|SPECIAL|THINK)_TOKEN"
)
NO_SECRET_VALUE = re.compile(r"(?i)true|false|yes|no|on|off|none|[0-9.]*")
# `<think>` and `</s>` are words of models; a placeholder there says so: <YOUR_TOKEN>, <model name>.
MARKUP = re.compile(r"<[a-z]+>")
SECRET_VALUE = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b|\bASIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{30,}"
    r"|\bsk-[A-Za-z0-9_-]{24,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)


@rule(
    "placeholder",
    "error",
    kinds=(*MODELS, DEPLOYMENT, GATEWAY, CLUSTER),
    source=sources.SAMPLES,
    en="{path} still holds the placeholder {placeholder}; expected a value",
    ko="{path}에 자리표시자 {placeholder}이(가) 그대로 있습니다. 실제 값을 넣으십시오",
)
def placeholder(subject: Subject) -> Iterator[Hit]:
    for where, value in leaves(subject.manifest.data):
        if not isinstance(value, str) or ("metadata" in where[:1] and "annotations" in where[1:2]):
            continue
        found = PLACEHOLDER.search(MARKUP.sub("", value) if "worker" in where else value)
        if found is not None and not _is_shell(where, subject):
            yield hit(where, placeholder=found[0])


def _is_shell(where: tuple[str | int, ...], subject: Subject) -> bool:
    """Whether `$VAR` in it is the shell's: an argument after `-c`, or a chat template."""
    if len(where) < 2 or not isinstance(where[-1], int):
        return False
    words = subject.manifest.texts(where[:-1])
    before = [*subject.manifest.texts((*where[:-2], "command")), *words[: where[-1]]]
    return any(word in ("-c", "-lc", "-ec", "--chat-template") for word in before)


# What the CRD lets through and Kubernetes or S3 refuses, once the pod or its volume is made.
_FORMS = {
    "spec.worker.modelVolumeMount.name": (
        re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
        Said("at most 63 lower-case letters, digits and hyphens", "63자 이하의 소문자, 숫자, 하이픈"),
    ),
    "spec.worker.modelVolumeMount.mountPath": (
        re.compile(r"/[^:\n]*"),
        Said("a path that begins with / and has no colon", "/로 시작하고 콜론이 없는 경로"),
    ),
    "spec.modelSourceConfig.s3Storage.bucketName": (
        re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
        Said("the name of an S3 bucket", "S3 버킷 이름"),
    ),
    "spec.modelSourceConfig.s3Storage.region": (
        REGION,
        Said("a Region of AWS, such as us-west-2", "us-west-2 같은 AWS 리전"),
    ),
}
_VARIABLE = re.compile(r"[!-<>-~]+")
_VARIABLE_FORM = Said("a variable's name, without spaces and =", "공백과 =가 없는 변수 이름")


@rule(
    "refused-later",
    "error",
    source=sources.NAMES,
    en="{path} is {got}; expected {expected}: the CRD takes it, and what is made from it is refused",
    ko="{path} 값이 {got}입니다. 다음이어야 합니다: {expected}. CRD는 통과하지만 이후 단계에서 거부됩니다",
)
def refused_later(subject: Subject) -> Iterator[Hit]:
    replicas = subject.manifest.whole("spec.replicas")
    if replicas is not None and replicas < 0:
        yield hit(path("spec.replicas"), expected=Said("0 or more", "0 이상"))
    for dotted, (form, expected) in _FORMS.items():
        value = subject.manifest.text(dotted)
        if value is not None and not form.fullmatch(value) and not PLACEHOLDER.search(value):
            yield hit(path(dotted), expected=expected)
    for index, entry in subject.manifest.mappings(subject.environment_path):
        name = entry.get("name")
        if isinstance(name, str) and not _VARIABLE.fullmatch(name):
            yield hit((*subject.environment_path, index, "name"), expected=_VARIABLE_FORM)


@rule(
    "literal-secret",
    "error",
    kinds=(*MODELS, DEPLOYMENT, GATEWAY, CLUSTER),
    source=sources.SECRETS,
    en="{path} holds a secret in the clear, for everyone who may read the manifest; take it from a Secret "
    "with valueFrom.secretKeyRef",
    ko="{path}에 비밀 값이 평문으로 들어 있습니다. valueFrom.secretKeyRef로 Secret에서 가져오십시오",
)
def literal_secret(subject: Subject) -> Iterator[Hit]:
    named = set()
    for name, (index, entry) in subject.environment.items():
        value = entry.get("value")
        is_secret = SECRET_NAME.search(name.upper()) and not NO_SECRET_NAME.search(name.upper())
        if not is_secret or not isinstance(value, str) or NO_SECRET_VALUE.fullmatch(value):
            continue
        if not PLACEHOLDER.search(value):
            where = (*subject.environment_path, index, "value")
            named.add(where)
            yield hit(where)
    for where, value in leaves(subject.manifest.data):
        if where not in named and isinstance(value, str) and SECRET_VALUE.search(value):
            yield hit(where)
    for flag in ("--api-key", "--hf-token"):
        found = subject.argument_place(flag)
        if (
            found is not None
            and found[1]
            and not PLACEHOLDER.search(found[1])
            and not found[1].startswith("$(")
            and found[0] not in named
            and not SECRET_VALUE.search(found[1])
        ):
            yield hit(found[0])
