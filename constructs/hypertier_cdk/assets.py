"""Where the code that stacks carry to AWS lies: found from its package, never from the working directory."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from hypertier.errors import MissingPackageError

# What is made of the sources on one machine: its own, and an image's is made in the image.
MADE_FOLDERS = ("__pycache__", "_compiled")
NOT_IN_ASSETS = [*(f"**/{folder}" for folder in MADE_FOLDERS), "**/*.pyc", "**/.DS_Store"]


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


def fingerprint(folder: Path) -> str:
    """A hash of the names and contents of all that `NOT_IN_ASSETS` leaves in, as hex digits.

    The CDK would find its own by matching each path with each pattern, at several times the cost.
    """
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if (
            file.is_file()
            and not set(MADE_FOLDERS) & set(file.relative_to(folder).parts)
            and file.suffix != ".pyc"
            and file.name != ".DS_Store"
        ):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            found.update(f"{file.relative_to(folder).as_posix()}\0{content}\n".encode())
    return found.hexdigest()
