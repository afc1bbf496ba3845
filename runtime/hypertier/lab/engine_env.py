"""Where the lab's vLLM is installed: an environment of its own, apart from the one that runs hypertier."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from hypertier.errors import LabError

PYTHON_VARIABLE = "HYPERTIER_ENGINE_PYTHON"
DEFAULT_PYTHON = Path(".venv-engine/bin/python")


def find_engine_python(environ: Mapping[str, str], directory: Path, own: Path = Path(sys.prefix)) -> Path:
    """Find the Python that has vLLM.

    `HYPERTIER_ENGINE_PYTHON`, or `.venv-engine` in `directory`, above it, or beside `own`, the environment
    that runs this.

    Raises:
        LabError: there is none; says how to get one.
    """
    named = environ.get(PYTHON_VARIABLE)
    candidates = (
        [Path(named)]
        if named
        else [parent / DEFAULT_PYTHON for parent in (directory, *directory.parents, own.parent)]
    )
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate.absolute()
    where = (
        f"{PYTHON_VARIABLE} is {named!r}, which is no program" if named else f"{DEFAULT_PYTHON} is not there"
    )
    raise LabError(
        f"no Python with vLLM: {where}. Run `make setup`, or set {PYTHON_VARIABLE} to the Python of an "
        "environment with vLLM for CPU and hypertier, or try `--engine simulated`"
    )
