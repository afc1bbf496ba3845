"""The engine's command line: vLLM's options, how they are written, and those that cannot work here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypertier.catalog.vllm_options import OPTIONS, VERSIONS_READ
from hypertier.spec.arguments import PLACES, as_written, find_option, option_name
from hypertier.spec.routing import ENGINE_TLS_ARGUMENTS
from hypertier.spec.rules import sources
from hypertier.spec.rules.cache import vllm_version
from hypertier.spec.rules.hygiene import PLACEHOLDER
from hypertier.spec.rules.rule import Hit, did_you_mean, hit, rule
from hypertier.spec.rules.subject import VLLM, Subject, small_whole
from hypertier.spec.said import Said
from hypertier.spec.suggest import nearest
from hypertier.spec.tree import Path, path

_SEVERAL = re.compile(r"\s--[a-z]")
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"  # what word processors make of -- among them
_COUNT = (re.compile(r"[1-9][0-9]{0,5}"), Said("a whole number, 1 or more", "1 이상의 정수"))
# Lengths may end with k, m, g or t, decimal in lower case.
# https://docs.vllm.ai/en/latest/cli/ (read 2026-12-01)
_LENGTH = (
    re.compile(r"-1|auto|[0-9]{1,12}[KMGT]?|[0-9]{1,12}(\.[0-9]{1,6})?[kmgt]"),
    Said("a number of tokens, such as 65536 or 64K", "65536 또는 64K 같은 토큰 수"),
)
_SHARE = (re.compile(r"0?\.[0-9]{1,6}|1(\.0{1,6})?"), Said("more than 0, at most 1", "0 초과 1 이하"))
ARGUMENT_FORMS = {
    ("--tensor-parallel-size", "-tp"): _COUNT,
    ("--pipeline-parallel-size", "-pp"): _COUNT,
    ("--data-parallel-size", "-dp"): _COUNT,
    ("--max-num-seqs",): _COUNT,
    ("--port",): _COUNT,
    ("--max-model-len",): _LENGTH,
    ("--max-num-batched-tokens",): _LENGTH,
    ("--gpu-memory-utilization",): _SHARE,
}


@rule(
    "argument-form",
    "error",
    source=sources.VLLM_ARGUMENTS,
    en="{name} is {value}; expected {expected}: vLLM would not start",
    ko="{name} 값이 {value}입니다. 다음이어야 합니다: {expected}. vLLM이 시작하지 못합니다",
)
def argument_form(subject: Subject) -> Iterator[Hit]:
    if subject.engine != VLLM:
        return
    for names, (form, expected) in ARGUMENT_FORMS.items():
        found = subject.argument_place(*names)
        if found is None or form.fullmatch(found[1]) or "$" in found[1] or PLACEHOLDER.search(found[1]):
            continue
        yield hit(found[0], name=names[0], value=repr(found[1][:80]), expected=expected)


@rule(
    "engine-tls-arguments",
    "error",
    source=sources.HYPERTIER,
    en="{path} is {got}; expected no TLS of the engine's own: routers, the exporter and probes would go on "
    "asking it by HTTP. routing.engineTls of the deployment file sets it for all of them",
    ko="{path} 값이 {got}입니다. 엔진에 직접 TLS를 설정하지 마십시오. 라우터, 익스포터, 프로브는 계속 HTTP로 "
    "요청합니다. 배포 파일의 routing.engineTls가 모두에게 설정합니다",
)
def engine_tls_arguments(subject: Subject) -> Iterator[Hit]:
    if subject.around.serving != "selfhosted":
        return
    for where, word in subject.engine_words():
        if option_name(word) in ENGINE_TLS_ARGUMENTS:
            yield hit(where)


@rule(
    "argument-unknown",
    "error",
    source=sources.VLLM_ARGUMENTS,
    en="{path} is {got}, which vLLM {version} does not know{meant}: the engine would not start",
    ko="{path} 값 {got}은(는) vLLM {version}이(가) 알지 못하는 옵션입니다{meant}. 엔진이 시작하지 못합니다",
)
def argument_unknown(subject: Subject) -> Iterator[Hit]:
    version = vllm_version(subject)
    if version is not None and version[:2] in VERSIONS_READ and _starts_vllm(subject):
        for where, meant in _unknown_arguments(subject):
            yield hit(where, meant=meant, version=_version(version))


@rule(
    "argument-doubtful",
    "warning",
    source=sources.VLLM_ARGUMENTS,
    en="{path} is {got}, which none of vLLM {versions} knows{meant}: with such an argument it does not start",
    ko="{path} 값 {got}은(는) vLLM {versions} 모두 알지 못하는 옵션입니다{meant}. 모르는 옵션으로는 vLLM이 "
    "시작하지 않습니다",
)
def argument_doubtful(subject: Subject) -> Iterator[Hit]:
    version = vllm_version(subject)
    if version is not None and version[:2] in VERSIONS_READ:
        return  # known for certain: the rule argument-unknown
    if subject.engine == VLLM and _starts_vllm(subject):
        for where, meant in _unknown_arguments(subject):
            yield hit(where, meant=meant, versions=[_version(read) for read in VERSIONS_READ])


def _starts_vllm(subject: Subject) -> bool:
    """Whether the container's words go to vLLM: its own entrypoint, or a command that names it."""
    command = subject.manifest.texts("spec.worker.command")
    return not command or any("vllm" in word for word in command)


def _unknown_arguments(subject: Subject) -> Iterator[tuple[Path, object]]:
    """Where an option stands that no vLLM known here has, and what was probably meant."""
    is_shell = "-c" in subject.manifest.texts("spec.worker.command")
    for where, word in subject.engine_words():
        bare = word.lstrip(_DASHES)
        if word != bare and not word.startswith("--") and as_written(f"--{bare}") in OPTIONS:
            yield where, did_you_mean(as_written(f"--{bare}"))
        if not is_shell and not word.startswith("-") and _SEVERAL.search(word):
            yield where, Said(" (several items in one)", " (여러 항목이 하나에 있습니다)")
        name = option_name(word).partition(".")[0]
        if not name.startswith("--") or name in OPTIONS or "$" in word or PLACEHOLDER.search(word):
            continue
        yield where, _meant(name)


def _meant(name: str) -> object:
    first, *behind = name.split(maxsplit=1)
    if behind and option_name(first) in OPTIONS:
        return Said(
            f" ({first} and {behind[0]} are two items)", f" ({first}와(과) {behind[0]}은(는) 두 항목입니다)"
        )
    several = sorted(option for option in OPTIONS if option.startswith(name))
    if several:
        return Said(f" (it is short for {_some(several)})", f" (다음의 줄임입니다: {_some(several)})")
    near = nearest(name, OPTIONS)
    return did_you_mean(near) if near else ""


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@rule(
    "several-nodes",
    "error",
    source=sources.VLLM_ARGUMENTS,
    en="{path} has {name} {value}; expected an engine on one node: a replica is one pod, so it would wait "
    "for the others for ever, and L1 lies in one node's memory",
    ko="{path}에 {name} {value}이(가) 있습니다. 엔진은 노드 하나에서 실행되어야 합니다. 복제본은 파드 "
    "하나이므로 나머지를 끝없이 기다리고, L1은 노드 하나의 메모리에 있습니다",
)
def several_nodes(subject: Subject) -> Iterator[Hit]:
    if subject.engine != VLLM:
        return
    for where in map(path, PLACES):
        found = find_option(subject.manifest.texts(where), "--nnodes", "-n")
        if found is not None and small_whole(found[1]) != 1 and "$" not in found[1]:
            yield hit((*where, found[0]), name="--nnodes", value=found[1][:20])
