"""Where CDK apps without a folder of their own write in tests: beneath one that is removed at the end.

An app writes tens of MB at each synth, into the temporary folder of jsii's process, and nobody removes them.
Import this before `aws_cdk`, which starts that process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_before = os.environ.get("TMPDIR")
_folder = tempfile.mkdtemp(prefix="hypertier-tests-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)  # before jsii's own, so it comes after that
os.environ["TMPDIR"] = _folder

import constructs  # noqa: E402, F401  # starts the process, which keeps the variable

if _before is None:
    del os.environ["TMPDIR"]
else:
    os.environ["TMPDIR"] = _before
