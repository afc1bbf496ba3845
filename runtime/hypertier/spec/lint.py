"""Files in, findings out: reads manifests and deployment files, and asks every rule about each document."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from hypertier.errors import ConfigError, ManifestError, shown
from hypertier.spec import codec
from hypertier.spec.deployment import API_VERSION as DEPLOYMENT_VERSION
from hypertier.spec.endpoint import API_GROUP
from hypertier.spec.finding import UNREADABLE, Finding, Report, Source, once_a_place
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.located import spot_of
from hypertier.spec.paste import Repair, plain_line_ends, understand
from hypertier.spec.rendering import refusal
from hypertier.spec.rules import RULES, Edit
from hypertier.spec.rules.rule import (
    CLUSTER,
    DEPLOYMENT,
    GATEWAY,
    MODELS,
    SERVICE_ACCOUNT,
)
from hypertier.spec.rules.subject import Subject, Surroundings, Version, parse_version
from hypertier.spec.said import Language
from hypertier.spec.source import read_text
from hypertier.spec.suggest import nearest
from hypertier.spec.tree import Document, View, dotted, objects

DEPLOYMENT_GROUP = DEPLOYMENT_VERSION.partition("/")[0]
SUFFIXES = (".yaml", ".yml", ".json")
NOT_A_MANIFEST = "not-a-manifest"
NOT_RENDERED = "not-rendered"
NOT_SERVED = "not-served-here"
"""Of fields that have to go: no other rule is asked about them, or about what they would need."""
OPERATOR_SERVICE_ACCOUNT = "hyperpod-inference-controller-manager"


@dataclass(slots=True)
class _File:
    """A file that was read: its documents that are ours as subjects, and the others."""

    name: str
    source: Source | None = None
    subjects: list[tuple[int, Subject]] = field(default_factory=list)
    others: list[View] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    asked_for: bool = True


def lint_files(
    names: Iterable[str], *, language: Language = "en", operator_version: Version | None = None
) -> Report:
    """Check files, folders (every YAML and JSON file below) and, with them, what deployment files name.

    Args:
        names: paths as typed; findings carry them unchanged.
        language: of the messages.
        operator_version: the operator that manifests without a deployment file will meet, where it is known.
    """
    files: dict[FilePath, _File] = {}
    for name in names:
        found = _expanded(name)
        if not found:
            problem = ManifestError(name, None, f"holds no file that ends with {', '.join(SUFFIXES)}")
            files[_identity(name)] = _File(name, findings=[_unreadable(name, problem, language)])
        for file in found:
            key = _identity(file)
            if key not in files:
                files[key] = _read(file, file == name, language)
    for key, read in list(files.items()):
        for _, subject in read.subjects:
            if subject.kind == DEPLOYMENT:
                _gather_endpoints(key, read.name, subject, files, language)
    siblings = [
        other for read in files.values() for other in (*read.others, *(s.manifest for _, s in read.subjects))
    ]
    for read in files.values():
        for _, subject in read.subjects:
            deployment = subject.around.deployment
            version = operator_version
            if deployment is not None:
                version = parse_version(str(deployment.get("operator.version") or "3.7"))
            subject.around = Surroundings(deployment, version, siblings)
    findings = [finding for read in files.values() for finding in _findings(read, language)]
    findings += _unrendered(files, findings, language)
    sources = {read.name: read.source for read in files.values() if read.source is not None}
    named = set(names)
    num_foreign = sum(
        not read.subjects and not read.findings and read.name not in named for read in files.values()
    )
    return Report(tuple(findings), tuple(read.name for read in files.values()), sources, num_foreign)


def lint_text(
    text: str, name: str = "-", *, language: Language = "en", operator_version: Version | None = None
) -> Report:
    """Check the documents of one text, without looking at any file."""
    read = _from_text(text, name, True, language)
    siblings = [*read.others, *(subject.manifest for _, subject in read.subjects)]
    for _, subject in read.subjects:
        subject.around = Surroundings(None, operator_version, siblings)
    sources = {} if read.source is None else {name: read.source}
    return Report(tuple(_findings(read, language)), (name,), sources)


def _expanded(name: str) -> list[str]:
    if not os.path.isdir(name):
        return [name]
    files: list[str] = []
    for folder, below, names in os.walk(name):
        below[:] = [each for each in below if not _is_others(each)]
        files += [str(FilePath(folder, file)) for file in names if FilePath(file).suffix in SUFFIXES]
    return sorted(file for file in files if os.path.isfile(file))


def _is_others(folder: str) -> bool:
    """Whether programs keep it for themselves: there are thousands of files in it, and none is a manifest."""
    return folder.startswith(".") or folder in ("node_modules", "cdk.out")


def _identity(name: str | FilePath) -> FilePath:
    """Where a file lies, its links followed; a name that leads nowhere stands for itself."""
    return FilePath(name if "\0" in str(name) else os.path.realpath(name))


def _read(name: str, alone: bool, language: Language) -> _File:
    try:
        text = read_text(name)
    except ManifestError as error:
        return _File(name, findings=[_unreadable(name, error, language)])
    return _from_text(text, name, alone, language)


def _from_text(text: str, name: str, alone: bool, language: Language) -> _File:
    read = _File(name)
    try:
        understood = understand(text, name)
    except ManifestError as error:
        read.findings.append(_unreadable(name, error, language))
        return read
    read.source = Source(plain_line_ends(text), understood.text)
    read.findings.extend(_repair(name, repair, language) for repair in understood.repairs)
    documents = [
        (index, found) for index, document in enumerate(understood.documents) for found in objects(document)
    ]
    for index, document in documents:
        kind = kind_of(document.data)
        if kind is not None:
            read.subjects.append((index, Subject(kind, document)))
        elif isinstance(document.data, dict) and document.data.get("kind"):
            read.others.append(document.view)
            if (meant := _kind_meant(document.data)) is not None:
                read.findings.append(_not_ours(name, index, document, meant, language))
        elif alone:
            read.findings.append(_not_ours(name, index, document, None, language))
    for _, subject in read.subjects:
        subject.num_documents = len(documents)
    if alone and not documents:
        read.findings.append(_unreadable(name, ManifestError(name, None, "holds no document"), language))
    return read


def kind_of(data: Any) -> str | None:
    """Which kind of ours a document is, by its apiVersion and kind; None for everything else."""
    if not isinstance(data, dict):
        return None
    kind, version = data.get("kind"), data.get("apiVersion")
    if kind == DEPLOYMENT:
        is_ours = str(version).startswith(DEPLOYMENT_GROUP) or ("endpoints" in data and "spec" not in data)
        return DEPLOYMENT if is_ours else None
    if kind in (*MODELS, GATEWAY):
        return str(kind)
    if kind is None and "ClusterName" in data:
        return CLUSTER
    if kind == SERVICE_ACCOUNT and View(data).text("metadata.name") == OPERATOR_SERVICE_ACCOUNT:
        return SERVICE_ACCOUNT
    return None


def _kind_meant(data: dict[str, Any]) -> str | None:
    """The kind of ours that a misspelled one stands for, or None for a kind of somebody else."""
    kind, version = str(data.get("kind")), str(data.get("apiVersion"))
    if version.startswith(DEPLOYMENT_GROUP):
        return DEPLOYMENT
    if API_GROUP in version or re.match(r"inference\.sagemaker", version):
        return nearest(kind, MODELS)
    meant = nearest(kind, MODELS)
    return meant if meant is not None and meant.lower() == kind.lower() else None


def _not_ours(name: str, index: int, document: Document, meant: str | None, language: Language) -> Finding:
    place = document.place(("kind",))
    if meant is not None:
        got = document.data.get("kind")
        where = (*document.inside, "kind")
        message = f"kind is {shown(got)}; expected {meant}"
        if language == "ko":
            message = f"kind 값이 {shown(got)}입니다. {meant}이어야 합니다"
        edits = (Edit("set", where, meant),)
        return Finding(
            name,
            place.line,
            place.column,
            dotted(where),
            "error",
            NOT_A_MANIFEST,
            message,
            meant,
            edits,
            index,
        )
    expected = f"a mapping with apiVersion and kind, such as {API_GROUP}/v1 and {MODELS[0]}"
    what = "kind is not set" if isinstance(document.data, dict) else "the document is no mapping"
    message = f"{what}; expected {expected}"
    if language == "ko":
        what = "kind 값이 없습니다" if isinstance(document.data, dict) else "문서가 매핑이 아닙니다"
        message = f"{what}. {API_GROUP}/v1의 {MODELS[0]}처럼 apiVersion과 kind가 있어야 합니다"
    return Finding(
        name,
        document.first_line,
        1,
        dotted((*document.inside, "kind") if isinstance(document.data, dict) else document.inside),
        "error",
        NOT_A_MANIFEST,
        message,
        document=index,
    )


def _repair(name: str, repair: Repair, language: Language) -> Finding:
    message = repair.ko if language == "ko" else repair.en
    return Finding(name, repair.line, 1, "", "error", repair.rule, message)


def _unreadable(name: str, error: ManifestError, language: Language) -> Finding:
    message = f"읽을 수 없는 파일입니다: {error.problem}" if language == "ko" else error.problem
    return Finding(name, error.line or 0, 1, "", "error", UNREADABLE, message)


def _gather_endpoints(
    key: FilePath, name: str, deployment: Subject, files: dict[FilePath, _File], language: Language
) -> None:
    """Read the manifests that a deployment file names, and tell each which deployment it belongs to."""
    endpoints: list[Subject] = []
    missing: dict[int, str] = {}
    for index, entry in enumerate(deployment.manifest.items("endpoints")):
        if not isinstance(entry, str):
            continue
        file = _identity(key.parent / entry)
        if file not in files:
            shown = str(FilePath(name).parent / entry)
            files[file] = _read(shown, True, language)
        read = files[file]
        problem = _why_no_endpoint(read)
        if problem is not None:
            missing[index] = problem
        if not read.subjects and "cannot be read" in (problem or ""):
            del files[file]  # said once, where the deployment file names it
        for _, subject in read.subjects:
            if subject.kind in MODELS:
                subject.around = Surroundings(deployment.manifest)
                endpoints.append(subject)
    deployment.endpoints = endpoints
    deployment.missing_endpoints = missing
    deployment.missing_scripts = dict(_missing_scripts(deployment, key.parent))


def _missing_scripts(deployment: Subject, folder: FilePath) -> Iterator[tuple[int, ConfigError]]:
    """The groups whose lifecycle script is not there; of those that are wrong whatever lies there, none."""
    for index, entry in deployment.manifest.mappings(("instanceGroups",)):
        try:
            group = codec.decode(InstanceGroup, dict(entry), "", [])
        except ConfigError:
            continue
        try:
            if group is not None:
                group.found_from(folder)
        except ConfigError as error:
            yield index, error
        except OSError:
            continue  # no name of a file: rendering says so


def _why_no_endpoint(read: _File) -> str | None:
    """What keeps a file from being a deployment's endpoint: it must hold one, and nothing else."""
    unreadable = [finding for finding in read.findings if finding.rule == UNREADABLE]
    if unreadable:
        return unreadable[0].message
    kinds = [subject.kind for _, subject in read.subjects]
    if len(kinds) + len(read.others) != 1:
        return f"holds {len(kinds) + len(read.others)} documents; expected one {MODELS[0]}"
    return None if kinds == [MODELS[0]] else f"holds no {MODELS[0]}, the one kind that a deployment serves"


def _unrendered(
    files: Mapping[FilePath, _File], findings: Sequence[Finding], language: Language
) -> Iterator[Finding]:
    """What keeps deployments that every rule lets through from being rendered."""
    broken = {finding.file for finding in findings if finding.severity == "error"}
    for key, read in files.items():
        for _, subject in read.subjects:
            entries = subject.manifest.texts("endpoints") if subject.kind == DEPLOYMENT else []
            names = {
                files[file].name for entry in entries if (file := _identity(key.parent / entry)) in files
            }
            if not names or broken & {read.name, *names}:
                continue
            error = refusal(read.name)
            if error is None:
                continue
            spot = spot_of(error.setting, read.name)
            message = str(error)
            if language == "ko":
                message = (
                    f"{error.setting} 값이 {shown(error.got)}입니다. 다음이어야 합니다: {error.expected}"
                )
            line, column = (spot.place.line, spot.place.column) if spot else (0, 1)
            where = dotted(spot.where) if spot else error.setting
            same = (name for name in names if spot and _identity(name) == _identity(spot.file))
            yield Finding(next(same, read.name), line, column, where, "error", NOT_RENDERED, message)


def _findings(read: _File, language: Language) -> list[Finding]:
    found = list(read.findings)
    for index, subject in read.subjects:
        found.extend(_check(read.name, index, subject, language))
    unique = {(f.document, f.path, f.rule, f.message): f for f in reversed(found)}
    return sorted(unique.values(), key=lambda f: (f.line, f.column, f.path, f.rule))


def _check(name: str, index: int, subject: Subject, language: Language) -> Sequence[Finding]:
    findings, inside = [], subject.document.inside
    is_refused = subject.kind in RULES[NOT_SERVED].kinds
    refused = {hit.where for hit in RULES[NOT_SERVED].check(subject)} if is_refused else ()
    served = subject.without(refused)
    for rule in RULES.values():
        if subject.kind not in rule.kinds:
            continue
        for hit in rule.check(subject if rule.name == NOT_SERVED else served):
            place = subject.document.place(hit.where)
            findings.append(
                Finding(
                    name,
                    place.line,
                    place.column,
                    dotted((*inside, *hit.where)),
                    rule.severity,
                    rule.name,
                    rule.message(hit, subject, language),
                    hit.fix,
                    tuple(edit.below(inside) for edit in hit.edits),
                    index,
                )
            )
    return once_a_place(findings)
