"""What no manifest should hold: values that were never filled in, and secrets in the clear."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import CLUSTER, DEPLOYMENT, GATEWAY, MODELS, Hit, hit, rule
from hypertier.spec.rules.subject import Subject
from hypertier.spec.tree import leaves

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
