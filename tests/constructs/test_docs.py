"""docs/constructs.md is true: its example synthesizes, and it names what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hypertier_cdk

PAGE = Path(__file__).parent.parent.parent / "docs" / "constructs.md"


@pytest.mark.cli
def test_the_example_synthesizes(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)

    ran = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "CDK_VALIDATION": "false"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr


def test_every_construct_in_the_table_can_be_imported() -> None:
    table = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert len(table) == 5
    assert all(getattr(hypertier_cdk, name) for name in table)
