"""A mistake that only a construct could find, or the CDK: told in one line, by the name that was typed."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from fakes_mutations import mutations
from fakes_stacks import EXAMPLES, ROOT
from fakes_templates import UNSTAGED

from hypertier.errors import HypertierError
from hypertier.spec.deployment import load_deployment
from hypertier.spec.lint import lint_files
from infra.settings import AS_TYPED
from infra.stacks import add_stacks, new_app

SAMPLE = 6  # of some hundred: each builds the constructs of all stacks
RICHEST = [file for file in EXAMPLES if file.parent.name in ("adopt-existing", "closed-network")]


def beside_its_manifests(file: Path, folder: Path) -> Path:
    for manifest in file.parent.glob("*.yaml"):
        (folder / manifest.name).write_text(manifest.read_text(encoding="utf-8"), encoding="utf-8")
    return folder / file.name


@pytest.mark.parametrize("file", RICHEST, ids=lambda file: file.parent.name)
def test_what_lint_lets_through_is_built_or_refused_as_typed(file: Path, tmp_path: Path) -> None:
    written = beside_its_manifests(file, tmp_path)
    readable = []
    for mutation in mutations(yaml.safe_load(file.read_text(encoding="utf-8"))):
        written.write_text(yaml.safe_dump(mutation.document), encoding="utf-8")
        with suppress(HypertierError):
            readable.append((mutation, load_deployment(written)))
    told, num_built = [], 0

    # Sampled before they are linted, since lint makes the objects of what it finds no other fault with.
    for mutation, deployment in readable[:: max(len(readable) // SAMPLE, 1)]:
        written.write_text(yaml.safe_dump(mutation.document), encoding="utf-8")
        if any(finding.severity == "error" for finding in lint_files([str(written)]).findings):
            continue
        try:
            num_built += 1
            add_stacks(new_app(UNSTAGED), deployment)
        except HypertierError as error:
            told.append(f"{mutation}: {error}")

    assert num_built
    assert [line for line in told if any(f": {argument} is " in line for argument in AS_TYPED)] == []


@pytest.mark.cli
@pytest.mark.parametrize(
    ("section", "said"),
    [
        pytest.param({"cluster": {"existing": "prod"}}, "cluster.attributes is not set", id="a construct's"),
        pytest.param({"cluster": {"kubernetesVersion": 1.31}}, "kubernetesVersion is 1.31", id="a kind"),
        pytest.param({"routing": {"modelAliases": {"x": "nobody"}}}, "modelAliases.x", id="a chart's"),
    ],
)
def test_the_app_ends_in_one_line(section: dict[str, object], said: str, tmp_path: Path) -> None:
    file = ROOT / "examples" / "small" / "deployment.yaml"
    written = beside_its_manifests(file, tmp_path)
    document = yaml.safe_load(file.read_text(encoding="utf-8")) | section
    written.write_text(yaml.safe_dump(document), encoding="utf-8")
    context = f'{{"deployment": "{written}"}}'

    ran = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=os.environ | {"CDK_CONTEXT_JSON": context, "CDK_OUTDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    (error,) = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert ran.returncode == 1
    assert said in error
    assert "Traceback" not in ran.stderr
