"""What comes out only when a deployment's objects are made: some of it contradicts the rest of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment, load_deployment

GROUP = "hypertier.objects"
"""Of entry points: what makes a deployment's objects as plain data, which takes neither Node.js nor AWS."""


def refusal(deployment_file: str) -> ConfigError | None:
    """Why `hypertier render` and synth would refuse a deployment whose files keep every rule, or None.

    Also None where nothing that makes objects is installed.

    Raises:
        ManifestError: a file cannot be read.
    """
    makers: list[Callable[[Deployment], Sequence[Any]]] = [
        entry.load() for entry in entry_points(group=GROUP)
    ]
    try:
        for make in makers:
            make(load_deployment(Path(deployment_file)))
    except ConfigError as error:
        return error
    return None
