"""The function's code as Lambda unpacks it: nothing beside it but boto3."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hypertier_lambdas

PACKAGE = Path(hypertier_lambdas.__file__).parent


@pytest.mark.parametrize(
    ("module", "inside"),
    [
        pytest.param(
            "hypertier_lambdas.replicas.handler", "hypertier_lambdas", id="the package in the asset"
        ),
        pytest.param("replicas.handler", ".", id="the package's content in the asset"),
    ],
)
def test_the_handler_is_found_in_an_asset_alone(module: str, inside: str, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / inside, dirs_exist_ok=True)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {module} as m; print(m.__file__)"

    ran = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(tmp_path))
