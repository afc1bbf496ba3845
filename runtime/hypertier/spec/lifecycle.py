"""A lifecycle script: what HyperPod runs on a node that it made, after its own setup of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from hypertier.errors import ConfigError
from hypertier.spec.keywords import named_fields

# The managed policy of HyperPod's nodes reads these buckets, and AWS asks for the name in its own words:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterLifeCycleConfig.html (read 2026-12-01)
S3_SCHEME = "s3://"
_S3_URI = re.compile(r"s3://sagemaker-[a-z0-9.-]{1,53}(/[!-~]{0,900})?")
_FILE = re.compile(r"[!-~]{1,128}")


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleScript:
    """`file` of `source`: an address in S3, or a folder on this machine, which a deployment then uploads.

    A `source` that is a file needs no `file`: it is the script, and nothing beside it is uploaded.
    """

    source: str
    file: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether it lies on this machine and is to be uploaded."""
        return not self.source.startswith(S3_SCHEME)

    def check(self, setting: str) -> None:
        """Refuse what cannot work whatever lies where; `setting` is what the script was given as.

        Raises:
            ConfigError: names `source` or `file` of it.
        """
        if not isinstance(self.source, str) or not self.source.strip():
            raise ConfigError(
                f"{setting}.source", self.source, "a folder or file, or s3://sagemaker-... for one in S3"
            )
        if not self.is_local and not _S3_URI.fullmatch(self.source):
            raise ConfigError(
                f"{setting}.source",
                self.source,
                "s3://sagemaker-..., the buckets that the managed policy of HyperPod's nodes lets them read; "
                "or a folder on this machine, which is uploaded",
            )
        if self.file is None and not self.is_local:
            raise ConfigError(f"{setting}.file", None, "the script's name below source, such as on_create.sh")
        if self.file is not None and (
            not isinstance(self.file, str) or not _FILE.fullmatch(self.file) or ".." in self.file.split("/")
        ):
            raise ConfigError(
                f"{setting}.file", self.file, "the script's name below source, 1 to 128 characters, no '..'"
            )

    def found_from(self, folder: Path, setting: str) -> LifecycleScript:
        """The same with where it lies on this machine spelled out: `source` a folder, or the script itself.

        Raises:
            ConfigError: there is no such folder or file.
        """
        if not self.is_local:
            return self
        source = folder / self.source
        if source.is_file() and self.file is None:
            return replace(self, source=str(source.resolve()))
        if not source.is_dir():
            raise ConfigError(
                f"{setting}.source", self.source, f"a folder, or one script; looked for in {folder.resolve()}"
            )
        if self.file is None or not (source / self.file).is_file():
            held = ", ".join(sorted(entry.name for entry in source.iterdir() if entry.is_file())[:10])
            raise ConfigError(
                f"{setting}.file", self.file, f"one of the files in {self.source}: {held or 'it has none'}"
            )
        return replace(self, source=str(source.resolve()))
