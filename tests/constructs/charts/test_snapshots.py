"""What every example renders to, as reviewed; `UPDATE_SNAPSHOTS=1 pytest` writes what is rendered now."""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from kubernetes_gate import findings, load_strictly

from hypertier.spec.deployment import load_deployment
from hypertier_cdk.charts.render import render

EXAMPLES = Path(__file__).parents[3] / "examples"
SNAPSHOTS = Path(__file__).parent / "snapshots"
FILES = sorted(EXAMPLES.glob("*/deployment*.yaml"))


def masked(text: str) -> str:
    """The text without what changes from build to build: digests, and hypertier's own version."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    return text.replace(f":{version('hypertier')}", ":VERSION")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_an_example_renders_to_what_was_reviewed(file: Path) -> None:
    snapshot = SNAPSHOTS / f"{file.parent.name}-{file.stem}.yaml"

    text = masked(yaml.safe_dump_all(render(load_deployment(file)), sort_keys=False, width=110))

    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(text, encoding="utf-8")
    assert text == snapshot.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_an_example_passes_the_gate_as_yaml(file: Path) -> None:
    deployment = load_deployment(file)

    texts = [yaml.safe_dump(entry, sort_keys=False) for entry in render(deployment)]

    objects = [load_strictly(text) for text in texts]
    assert findings(objects, deployment.cluster.kubernetes_version) == []
