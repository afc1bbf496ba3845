"""What apps write in a test session goes with it, also what an app in a process of its own writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes_templates import new_stack

from hypertier_cdk.testing import files

APP = "import aws_cdk as cdk; print(cdk.App().synth().directory)"
SESSION = f"""
import subprocess, sys
import hypertier_cdk.testing.files as files
print(files.FOLDER)
{APP}
print(subprocess.run([sys.executable, "-c", "{APP}"], capture_output=True, text=True).stdout)
"""


@pytest.mark.cli
def test_nothing_is_left_of_a_session() -> None:
    without = {name: value for name, value in os.environ.items() if name not in ("TMPDIR", "CDK_OUTDIR")}

    ran = subprocess.run(
        [sys.executable, "-c", SESSION], env=without, capture_output=True, text=True, check=True, timeout=300
    )

    folder, *written = ran.stdout.split()
    assert len(written) == 2
    assert all(output.startswith(f"{folder}/") for output in written)
    assert not Path(folder).exists()


def test_apps_of_this_session_write_beneath_its_folder() -> None:
    assert Path(new_stack().node.root.synth().directory).is_relative_to(files.FOLDER)


@pytest.mark.cli
@pytest.mark.parametrize("before", ["aws_cdk", "cdk8s", "constructs"])
def test_coming_after_what_starts_jsii_is_refused(before: str) -> None:
    program = f"import {before}\nimport hypertier_cdk.testing.files"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)

    assert "import hypertier_cdk.testing.files before aws_cdk" in ran.stderr
