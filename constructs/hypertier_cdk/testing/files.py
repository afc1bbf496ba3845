"""What CDK apps write in a test session goes with the session.

An app without a folder of its own writes tens of MB at each synth, into the machine's temporary folder, and
nobody removes them. Import this in `conftest.py`, before `aws_cdk`, whose process it starts: apps of this
process, and those that tests run as processes with its environment, then write beneath `FOLDER`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

if "jsii" in sys.modules:
    raise ImportError(
        "import hypertier_cdk.testing.files before aws_cdk, cdk8s and constructs: they have started jsii's "
        "process, which keeps the temporary folder that it began with"
    )

FOLDER = Path(tempfile.mkdtemp(prefix="hypertier-tests-"))
"""Removed when this process ends. Give it as `TMPDIR` to a process with an environment of its own."""

atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)  # before jsii's own, so it comes after that
os.environ["TMPDIR"] = str(FOLDER)  # this process's own temporary folder is settled already

import constructs  # noqa: E402, F401  # starts jsii's process, which keeps the variable
