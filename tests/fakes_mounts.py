"""Files as Kubernetes mounts a Secret or a ConfigMap, and swaps them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path


class Mounted:
    """A folder whose files are links through `..data`, which leads to another folder after each `swap`.

    https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/volume/util/atomic_writer.go (read 2026-12-03)
    """

    def __init__(self, folder: Path, files: Mapping[str, bytes | str]) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        folder.mkdir()
        self.swap(files)
        for name in files:
            (folder / name).symlink_to(Path("..data", name))

    def path(self, name: str) -> str:
        """Where a program finds it."""
        return str(self._folder / name)

    def swap(self, files: Mapping[str, bytes | str]) -> None:
        """Other files under the same names, all at once."""
        made = self._folder / f"..{next(self._numbers)}"
        made.mkdir()
        for name, data in files.items():
            (made / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        link = self._folder / "..data_tmp"
        link.symlink_to(made.name)
        link.replace(self._folder / "..data")
