"""Where in a deployment's files a setting stands that cannot work, for errors that know its name alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from hypertier.errors import ConfigError, HypertierError, ManifestError
from hypertier.spec.arguments import PLACES, find_option
from hypertier.spec.source import read_documents, read_text
from hypertier.spec.tree import Document, Path, Place, objects, path

ARGUMENTS = "spec.worker.args "


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in one of a deployment's files, and its path in the document."""

    file: str
    place: Place
    where: Path


@contextmanager
def located(deployment_file: FilePath | str) -> Iterator[None]:
    """Name in a `ConfigError` the file, line and column of its setting, as `hypertier lint` does.

    Raises:
        ManifestError: in its place, where the setting is written in the deployment file or its manifests.
    """
    try:
        yield
    except ConfigError as error:
        spot = spot_of(error.setting, deployment_file)
        if spot is None:
            raise
        raise ManifestError(spot.file, spot.place.line, str(error), spot.place.column) from error


def spot_of(setting: str, deployment_file: FilePath | str) -> Spot | None:
    """Where `setting` is written, or else the nearest thing above it that is; None where nothing of it is,
    or the same in several files.
    """
    found: list[Spot] = []
    for file, document in _documents(FilePath(deployment_file)):
        where = _where(document, setting)
        if where:
            found.append(Spot(file, document.place(where), (*document.inside, *where)))
    deepest = max((len(spot.where) for spot in found), default=0)
    best = [spot for spot in found if len(spot.where) == deepest]
    return best[0] if len(best) == 1 else None


def _documents(file: FilePath) -> Iterator[tuple[str, Document]]:
    """The deployment file's document, and those of the manifests that it names; none that can't be read."""
    for document in _read(file):
        yield str(file), document
        for name in document.view.texts("endpoints"):
            for endpoint in _read(file.parent / name):
                yield str(file.parent / name), endpoint


def _read(file: FilePath) -> list[Document]:
    with suppress(HypertierError):
        text = read_text(str(file)).removeprefix("\ufeff")
        return [found for document in read_documents(text, str(file)) for found in objects(document)]
    return []


def _where(document: Document, setting: str) -> Path:
    """How far a document has `setting`: `name: spec.x[0].y`, `instanceGroups.gpu.count`, `--port`."""
    name, colon, bare = setting.partition(": ")
    if colon:
        own = document.view.text("metadata.name")
        if own is not None and own != name:
            return ()
        setting = bare
    setting = setting.removeprefix(ARGUMENTS)
    if setting.startswith("-"):
        for words in map(path, PLACES):
            found = find_option(document.view.texts(words), setting)
            if found is not None:
                return (*words, found[0])
        return ()
    return _followed(document.data, setting)


def _followed(value: Any, setting: str) -> Path:
    """`setting` as a path into `value` as far as it is there; entries of lists go by index or name."""
    where: Path = ()
    while setting:
        steps: list[tuple[str, str | int]] = []
        if isinstance(value, dict):
            steps = [(str(key), key) for key in value]
        elif isinstance(value, list):
            steps = [(f"[{index}]", index) for index in range(len(value))]
            steps += [(str(e["name"]), i) for i, e in enumerate(value) if isinstance(e, dict) and "name" in e]
        fits = [step for step in steps if _begins(setting, step[0])]
        if not fits:
            break
        spelled, key = max(fits, key=lambda step: len(step[0]))
        value, where = value[key], (*where, key)
        setting = setting[len(spelled) :].removeprefix(".")
    return where


def _begins(setting: str, step: str) -> bool:
    return setting.startswith(step) and setting[len(step) : len(step) + 1] in ("", ".", "[")
