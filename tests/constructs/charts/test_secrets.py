"""The Secrets that pods need and no chart makes are those that `hypertier doctor` says nobody asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hypertier.doctor.unasked import not_asked
from hypertier.spec.deployment import load_deployment
from hypertier_cdk.charts.render import render

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/deployment.yaml"))


def secrets_in(value: Any) -> Iterator[str]:
    """The name of each Secret that is mounted or read, however deep."""
    if isinstance(value, list):
        for entry in value:
            yield from secrets_in(entry)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key == "secret" and isinstance(entry, dict):
                yield entry.get("secretName") or entry["name"]
            elif key == "secretKeyRef":
                yield entry["name"]
            else:
                yield from secrets_in(entry)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_every_secret_that_a_pod_needs_is_named(file: Path) -> None:
    deployment = load_deployment(file)

    needed = set(secrets_in(render(deployment)))

    told = {line.split()[2].rstrip(":") for line in not_asked(deployment) if "Secret" in line}
    assert told == needed
