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

    ran = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
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

    assert ran.returncode == 0, ran.stderr


def test_every_construct_in_the_table_can_be_imported() -> None:
    text = (DOCS / "constructs.md").read_text(encoding="utf-8")

    table = re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)

    assert len(table) == 7
    assert all(getattr(hypertier_cdk, name) for name in table)
