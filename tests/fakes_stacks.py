"""The examples' stacks, synthesized in memory with the flags of cdk.json as the CLI would set them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hypertier.spec.deployment import Deployment, load_deployment
from infra.stacks import add_stacks, new_app

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*/deployment.yaml"))
FLAGS = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]


def synthesized(deployment: Deployment) -> Path:
    """The folder with the templates of a deployment."""
    app = new_app({**FLAGS, "aws:cdk:enable-path-metadata": True})
    add_stacks(app, deployment)
    return Path(app.synth().directory)


@cache
def example_folder(file: Path) -> Path:
    """The folder with an example's templates; made once."""
    return synthesized(load_deployment(file))


def example_templates(file: Path) -> dict[str, dict[str, Any]]:
    """The templates of an example, by the stack's name."""
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(example_folder(file).glob("*.template.json"))
    }
