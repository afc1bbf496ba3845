"""What the charts render of every example, as the lab sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hypertier.lab.prepare import prepare_lab, render_file

pytestmark = pytest.mark.cli

ROOT = Path(__file__).parent.parent.parent
SELFHOSTED = [
    path
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    if (content := yaml.safe_load(path.read_text("utf-8"))).get("kind") == "Deployment"
    and content.get("serving", "selfhosted") == "selfhosted"
    and len(content["endpoints"]) == 1
]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.parent.name) for path in SELFHOSTED])
def test_the_lab_understands_what_is_rendered(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told: list[str] = []

    name, objects = render_file(path)
    lab = prepare_lab(objects, name, "simulated", 2, told.append)

    assert lab.missing[-3:] == ("engine-0", "engine-1", "router")
    assert any("--port" in line for line in told)
