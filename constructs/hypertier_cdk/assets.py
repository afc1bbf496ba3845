"""Where the code that stacks carry to AWS lies: found from its package, never from the working directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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


def package_asset(package: str) -> dict[str, Any]:
    """A package as the CDK's asset of a file: where it is, what is left out, its hash."""
    folder = package_folder(package)
    return {"path": str(folder), "exclude": NOT_IN_ASSETS, "asset_hash": fingerprint(folder)}


def fingerprint(folder: Path) -> str:
    """A hash of the names and contents of all that `NOT_IN_ASSETS` leaves in, as hex digits.

    The CDK would find its own by matching each path with each pattern, at several times the cost.
    """
    found = hashlib.sha256()
    for name in sorted(_names(str(folder)), key=lambda name: name.split("/")):
        with open(f"{folder}/{name}", "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
        found.update(f"{name}\0{content}\n".encode())
    return found.hexdigest()


def _names(folder: str, below: str = "") -> Iterator[str]:
    """The files of an asset, by their way from its folder."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name not in MADE_FOLDERS:
                yield from _names(entry.path, f"{below}{entry.name}/")
        elif not entry.name.endswith(".pyc") and entry.name != ".DS_Store":
            yield f"{below}{entry.name}"
