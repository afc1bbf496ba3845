"""`hypertier render`: the Kubernetes objects of a deployment as YAML files, one an object."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import yaml

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.located import located
from hypertier.spec.refuse import refuse_errors
from hypertier.spec.report import as_line

RENDERER_GROUP = "hypertier.renderer"
NOTES = {
    "hypertier.dev/placeholders": "placeholder",
    "hypertier.dev/without-effect": "without effect",
}
HEADER = "# Rendered by `hypertier render`: what is changed here is lost with the next rendering.\n"
# `kubectl apply -f DIR` goes by file name: what others refer to comes first
FIRST_KINDS = (
    "Namespace",
    "ServiceAccount",
    "NetworkPolicy",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
)

Object = Mapping[str, Any]
Renderer = Callable[[Deployment], Sequence[Object]]


@click.command("render", epilog="Example: hypertier render examples/reference/deployment.yaml -o rendered")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the manifests; made if it is not there. Files of an earlier rendering are replaced.",
)
def command(file: Path, output: Path) -> None:
    """Write the Kubernetes manifests of deployment FILE as plain YAML. Needs no AWS, no cluster, no network.

    The files are held to every rule of `hypertier lint` first. What only AWS knows is taken from the
    manifests, or is a placeholder; those, and settings without effect, are named at the end.
    """
    for warning in refuse_errors(str(file)):
        click.echo(as_line(warning), err=True)
    with located(file):
        objects = load_renderer()(load_deployment(file))
    written, removed = write_objects(objects, output)
    for name in written:
        click.echo(f"wrote   {output / name}")
    for name in removed:
        click.echo(f"removed {output / name}")
    for line in notes(objects):
        click.echo(line)
    click.echo(f"{len(written)} objects; apply them with: kubectl apply -f {output}")


def load_renderer() -> Renderer:
    """The installed renderer.

    Raises:
        MissingPackageError: no renderer, or something that it needs, is installed.
        ConfigError: there is no Node.js, which cdk8s runs on.
    """
    renderers = entry_points(group=RENDERER_GROUP)
    if not renderers:
        raise MissingPackageError("hypertier render", "cdk8s", "cdk")
    node = os.environ.get("JSII_NODE")
    if shutil.which(node or "node") is None:
        raise ConfigError("JSII_NODE", node, "the path of Node.js 20 or newer, or `node` on the PATH")
    try:
        renderer: Renderer = next(iter(renderers)).load()
    except ModuleNotFoundError as error:
        raise MissingPackageError("hypertier render", error.name or "cdk8s", "cdk") from error
    return renderer


def write_objects(objects: Sequence[Object], directory: Path) -> tuple[list[str], list[str]]:
    """Write one file an object, and remove those of an earlier rendering that are not written any more.

    Returns:
        The names of the files written, in the order of `objects`, and of those removed.

    Raises:
        ConfigError: the folder cannot be written.
    """
    texts = {file_name(entry): to_yaml(entry) for entry in objects}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        stale = sorted(path for path in directory.glob("*.yaml") if path.name not in texts and is_ours(path))
        for name, text in texts.items():
            (directory / name).write_text(text, encoding="utf-8")
        for path in stale:
            path.unlink()
    except OSError as error:
        raise ConfigError(
            "--output", str(directory), f"a folder that can be written ({error.strerror})"
        ) from error
    return list(texts), [path.name for path in stale]


def file_name(entry: Object) -> str:
    """`5-service-inference-llama-70b-router.yaml`: order, kind, namespace, name."""
    kind, metadata = str(entry["kind"]), entry["metadata"]
    order = FIRST_KINDS.index(kind) if kind in FIRST_KINDS else 9
    parts = (str(order), kind.lower(), metadata.get("namespace"), metadata["name"])
    return "-".join(part for part in parts if part) + ".yaml"


def to_yaml(entry: Object) -> str:
    """The object as a file of ours."""
    return HEADER + yaml.safe_dump(dict(entry), sort_keys=False, width=110, allow_unicode=True)


def is_ours(path: Path) -> bool:
    """Whether an earlier rendering wrote the file."""
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()


def notes(objects: Sequence[Object]) -> list[str]:
    """What in the objects is not the real thing yet, and which settings say nothing here; one line each."""
    lines = []
    for entry in objects:
        annotations = entry["metadata"].get("annotations") or {}
        for key, title in NOTES.items():
            texts = annotations.get(key, "").split("; ")
            lines += [f"{title} in {entry['kind']} {entry['metadata']['name']}: {t}" for t in texts if t]
    return lines
