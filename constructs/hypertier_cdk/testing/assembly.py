"""A cloud assembly as the emulator reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypertier.errors import DeploymentError


def stacks_of(assembly: Path) -> list[tuple[str, str, dict[str, Any]]]:
    """The assembly's stacks, each after those that it depends on: name, Region or "", template.

    Raises:
        DeploymentError: the folder holds no cloud assembly.
    """
    try:
        artifacts = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    except (OSError, ValueError, KeyError) as error:
        raise DeploymentError(f"{assembly} is no cloud assembly: {error}") from error
    stacks = {
        name: artifact
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    ordered: list[str] = []
    waiting = list(stacks)
    while waiting:
        name = next(
            entry
            for entry in waiting
            if all(other in ordered for other in stacks[entry].get("dependencies", []) if other in stacks)
        )
        waiting.remove(name)
        ordered.append(name)
    found = []
    for name in ordered:
        region = stacks[name]["environment"].rpartition("/")[2]
        template = json.loads(
            (assembly / stacks[name]["properties"]["templateFile"]).read_text(encoding="utf-8")
        )
        found.append((name, "" if region.startswith("unknown") else region, template))
    return found
