"""Where assets lie: in a cloud assembly's folder, or unpacked from an archive."""

from __future__ import annotations

import io
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable
from pathlib import Path

from hypertier_cdk.testing.providers import Resource


class AssetFolders:
    """`folder_of` gives the folder of a stack's assembly, if it has one; else `read` gives archives."""

    def __init__(
        self, folder_of: Callable[[str], Path | None], read: Callable[[str, str], bytes] | None
    ) -> None:
        self._folder_of = folder_of
        self._read = read
        self._unpacked: dict[str, Path] = {}
        self._scratch = Path(tempfile.mkdtemp(prefix="hypertier-emulator-"))
        weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)

    def code_of(self, function: Resource) -> Path | None:
        """Where a function's code lies; None where it is no asset."""
        code = function.properties.get("Code", {})
        return self.find(function, str(code.get("S3Bucket", "")), str(code.get("S3Key", "")))

    def find(self, resource: Resource, bucket: str, key: str) -> Path | None:
        """An asset of a resource's stack, unpacked where it is a zip; None where there is no such asset."""
        digest = key.rpartition("/")[2].partition(".")[0]
        if not digest:
            return None
        if digest not in self._unpacked:
            folder = self._folder_of(resource.stack)
            if folder is not None and (folder / f"asset.{digest}").is_dir():
                return folder / f"asset.{digest}"
            archive = self._archive(folder, bucket, key)
            if archive is None:
                return None
            self._unpacked[digest] = self._scratch / digest
            with zipfile.ZipFile(io.BytesIO(archive)) as opened:
                opened.extractall(self._unpacked[digest])
        return self._unpacked[digest]

    def _archive(self, folder: Path | None, bucket: str, key: str) -> bytes | None:
        if folder is not None:
            file = folder / f"asset.{key}"
            return file.read_bytes() if file.is_file() else None
        return self._read(bucket, key) if self._read else None
