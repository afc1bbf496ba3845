"""Captured files from a router's folder to S3, each removed once it is there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Protocol

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.router.capture.spool import waiting_in

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
except ModuleNotFoundError as error:
    raise MissingPackageError("hypertier capture", "boto3", "exporter") from error

log = logging.getLogger("hypertier.capture")


class PutObject(Protocol):
    """boto3's method of that name."""

    def __call__(self, **parameters: Any) -> Any: ...


def parse_destination(text: str) -> tuple[str, str]:
    """Read `s3://BUCKET/PREFIX`: the bucket, and the prefix with its slash, if any. Raises ConfigError."""
    scheme, _, rest = text.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme != "s3" or not bucket or len(text) > 512:
        raise ConfigError("--to", text, "s3://BUCKET/PREFIX, of at most 512 characters")
    prefix = prefix.strip("/")
    return bucket, f"{prefix}/" if prefix else ""


class Uploader:
    """Puts files below `spool` under the same names below `s3://bucket/prefix`, the oldest first.

    With `kms_key_id` S3 encrypts them with that key, else as the bucket says.
    """

    def __init__(
        self, spool: Path, bucket: str, prefix: str, put_object: PutObject, kms_key_id: str | None = None
    ) -> None:
        self._spool = spool
        self._bucket = bucket
        self._prefix = prefix
        self._put_object = put_object
        self._encryption = (
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_id} if kms_key_id else {}
        )
        self.is_refused = False
        """Whether the latest step ended at a file that S3 did not take."""

    def step(self) -> int:
        """Carry all files that are there; return how many. One that S3 does not take stays, and ends it."""
        carried = 0
        self.is_refused = False
        for file in waiting_in(self._spool):
            key = self._prefix + file.relative_to(self._spool).as_posix()
            try:
                self._put_object(
                    Bucket=self._bucket,
                    Key=key,
                    Body=file.read_bytes(),
                    ContentType="application/jsonlines",
                    **self._encryption,
                )
            except FileNotFoundError:
                continue  # another one carried it
            except (BotoCoreError, ClientError, OSError) as error:
                log.warning("%s is not in S3 yet: %s", key, error)
                self.is_refused = True
                return carried
            file.unlink(missing_ok=True)
            carried += 1
        return carried


def s3_put_object(region: str | None) -> PutObject:
    """S3's, with the pod's own credentials."""
    config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 3})
    put_object: PutObject = boto3.client("s3", region_name=region, config=config).put_object
    return put_object
