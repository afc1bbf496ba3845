"""Where the code that stacks carry to AWS lies: found from its package, never from the working directory."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from hypertier.errors import MissingPackageError

NOT_IN_ASSETS = ["**/__pycache__", "**/*.pyc", "**/.DS_Store"]


def package_folder(package: str) -> Path:
    """The folder of an installed package, without importing it.

    Raises:
        MissingPackageError: it is not installed.
    """
    spec = find_spec(package)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    if not locations:
        raise MissingPackageError("an asset of hypertier_cdk", package, "cdk")
    return Path(locations[0])
