"""`app.py` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLLECTIONS = """
import gc
from pathlib import Path
app = compile(Path("app.py").read_text(encoding="utf-8"), "app.py", "exec")
seen = []
gc.callbacks.append(lambda phase, info: seen.append(phase))
exec(app)
gc.callbacks.clear()
print("collections:", len(seen))
"""


@pytest.mark.cli
def test_a_synth_does_not_look_for_cycles(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COLLECTIONS],
        cwd=ROOT,
        env=os.environ | {"CDK_OUTDIR": str(tmp_path), "CDK_VALIDATION": "false", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    assert ran.stdout.splitlines()[-1] == "collections: 0"
