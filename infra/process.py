"""Settings of the process that synthesizes and of its Node.js: imported before the CDK, which starts both.

They are worth seconds and change no template (docs/performance.md, "Synth"):

- Python's looking for cycles of objects frees next to nothing here;
- V8 compiles the CDK's validator by more threads than gain from it, and optimizes what runs once
  (`tiering.cjs`).

What `NODE_OPTIONS` holds already comes after these, and so wins.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

_PRELOAD = Path(__file__).with_name("tiering.cjs")


def node_options(given: str, preload: Path = _PRELOAD) -> str:
    """`NODE_OPTIONS` with ours before those `given`; quoted as Node.js reads it, in double quotes."""
    quoted = str(preload).replace("\\", "\\\\").replace('"', '\\"')
    return f'--v8-pool-size=1 --require "{quoted}" {given}'.rstrip()


gc.disable()
os.environ["NODE_OPTIONS"] = node_options(os.environ.get("NODE_OPTIONS", ""))
