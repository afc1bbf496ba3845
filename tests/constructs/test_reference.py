"""The reference deployment's template as the tools of the field judge it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.cli
def test_cfn_lint_finds_nothing(reference: Any, tmp_path: Path) -> None:
    template = tmp_path / "reference.template.json"
    template.write_text(json.dumps(reference.template), encoding="utf-8")
    cfn_lint = Path(sys.prefix) / "bin" / "cfn-lint"

    # W3005: the CDK writes DependsOn beside a Ref to the same resource.
    linted = subprocess.run(
        [str(cfn_lint), "--regions", "us-west-2", "--ignore-checks", "W3005", "--", str(template)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert linted.returncode == 0, linted.stdout + linted.stderr
