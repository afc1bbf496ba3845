"""The templates of every example, as reviewed; `UPDATE_SNAPSHOTS=1 pytest` writes what is synthesized now."""

from __future__ import annotations

import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_stacks import EXAMPLES, example_templates

from hypertier_cdk.review.kubernetes import MANIFEST
from hypertier_cdk.review.templates import text_of

SNAPSHOTS = Path(__file__).parent / "snapshots"


def readable(template: dict[str, Any]) -> dict[str, Any]:
    """A template without the CDK's own notes, the Kubernetes objects in it as objects."""
    resources = {}
    for logical_id, resource in template["Resources"].items():
        kept = {key: value for key, value in resource.items() if key != "Metadata"}
        if resource["Type"] == MANIFEST:
            objects = json.loads(text_of(resource["Properties"]["Manifest"]))
            kept["Properties"] = resource["Properties"] | {"Manifest": objects}
        resources[logical_id] = kept
    return {"Resources": resources} | {key: template[key] for key in ("Outputs",) if key in template}


def masked(text: str) -> str:
    """The text without what changes from build to build: digests of assets, and hypertier's own version."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    return text.replace(f":{version('hypertier')}", ":VERSION")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_an_example_s_templates_are_those_that_were_reviewed(file: Path) -> None:
    snapshot = SNAPSHOTS / f"{file.parent.name}.yaml"

    documents = {name: readable(template) for name, template in example_templates(file).items()}
    text = masked(yaml.safe_dump(documents, sort_keys=True, width=110))

    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(text, encoding="utf-8")
    assert text == snapshot.read_text(encoding="utf-8")


def test_no_snapshot_is_left_of_an_example_that_is_gone() -> None:
    assert {file.stem for file in SNAPSHOTS.iterdir()} == {file.parent.name for file in EXAMPLES}
