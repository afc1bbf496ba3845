"""The pages on constructs and on testing are true: their examples run, and they name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hypertier_cdk
from hypertier_cdk.testing.files import FOLDER

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.cli
@pytest.mark.parametrize("page", ["constructs.md", "testing.md"])
def test_the_example_runs(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)

    ran = run(example, tmp_path)

    assert ran.returncode == 0, ran.stderr


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a program did in a folder of its own."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(Path.home()),
            "CDK_VALIDATION": "false",
            "TMPDIR": str(FOLDER),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def fragment(page: str, holding: str) -> str:
    """The one block of a page that holds a text."""
    blocks = re.findall(r"(?ms)^```\w*\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"))
    (found,) = [block for block in blocks if holding in block]
    return str(found)


@pytest.mark.cli
def test_fragments_run_behind_what_they_take_for_granted(tmp_path: Path) -> None:
    for file in (DOCS.parent / "examples" / "reference").glob("*.yaml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    app = fragment("constructs.md", "instance_groups=[").replace("app.synth()\n", "")
    program = [
        app,
        fragment("constructs.md", 'InferenceEndpoint(stack, "Llama"'),
        fragment("review.md", "write_review"),
        "from types import SimpleNamespace",
        "deployment, secret = load_deployment('deployment.yaml'), SimpleNamespace(secret_arn='arn')",
        fragment("charts.md", "ChartInputs(l2_url"),
        "assert {entry['kind'] for entry in objects} > {'Deployment', 'Service'}",
        "from hypertier_cdk.testing import Emulator",
        "Arms, url = object, 'http://127.0.0.1:1'",
        fragment("testing.md", "AWS::Robots::Arm"),
    ]

    ran = run("\n".join(program), tmp_path)

    assert ran.returncode == 0, ran.stderr


@pytest.mark.cli
def test_what_exists_is_adopted_as_the_page_says(tmp_path: Path) -> None:
    for file in (DOCS.parent / "examples" / "reference").glob("*.yaml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    program = [
        "import aws_cdk as cdk",
        "app = cdk.App()",
        "stack = cdk.Stack(app, 'Inference', env=cdk.Environment(region='us-west-2'))",
        fragment("constructs.md", "from_vpc_attributes"),
        "app.synth()",
    ]

    ran = run("\n".join(program), tmp_path)

    assert ran.returncode == 0, ran.stderr


def test_every_construct_in_the_table_can_be_imported() -> None:
    text = (DOCS / "constructs.md").read_text(encoding="utf-8")

    table = re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)

    assert len(table) == 7
    assert all(getattr(hypertier_cdk, name) for name in table)
