"""Captured files reach S3 whole, once, encrypted as asked, and stay where S3 takes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from hypertier.capture_upload import Uploader, parse_destination
from hypertier.errors import ConfigError


class Bucket:
    """What S3 was given; after `most` objects it takes no more."""

    def __init__(self, most: int = 10) -> None:
        self.put: list[dict[str, Any]] = []
        self._most = most

    def __call__(self, **parameters: Any) -> None:
        if len(self.put) == self._most:
            raise ClientError({"Error": {"Code": "SlowDown", "Message": "later"}}, "PutObject")
        self.put.append(parameters)


def spool_with(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / "tenant=acme" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return folder


def left_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file())


def test_files_go_under_their_own_names_and_are_gone_then(tmp_path: Path) -> None:
    bucket = Bucket()
    spool = spool_with(tmp_path, "2.jsonl", "1.jsonl", ".3.jsonl")

    carried = Uploader(spool, "ours", "llama/", bucket, "alias/captures").step()

    assert carried == 2
    assert [entry["Key"] for entry in bucket.put] == [
        "llama/tenant=acme/1.jsonl",
        "llama/tenant=acme/2.jsonl",
    ]
    assert bucket.put[0] == {
        "Bucket": "ours",
        "Key": "llama/tenant=acme/1.jsonl",
        "Body": b"1.jsonl",
        "ContentType": "application/jsonlines",
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": "alias/captures",
    }
    assert left_in(spool) == [".3.jsonl"]  # which a router still writes


def test_without_a_key_the_bucket_says_how_it_is_encrypted(tmp_path: Path) -> None:
    bucket = Bucket()

    Uploader(spool_with(tmp_path, "1.jsonl"), "ours", "", bucket).step()

    assert set(bucket.put[0]) == {"Bucket", "Key", "Body", "ContentType"}


def test_what_s3_does_not_take_stays_for_the_next_time(tmp_path: Path) -> None:
    bucket = Bucket(most=1)
    spool = spool_with(tmp_path, "1.jsonl", "2.jsonl")

    assert Uploader(spool, "ours", "", bucket).step() == 1
    assert left_in(spool) == ["2.jsonl"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("s3://ours", ("ours", "")), ("s3://ours/a/b/", ("ours", "a/b/")), ("s3://ours/a", ("ours", "a/"))],
)
def test_a_destination_is_a_bucket_and_a_prefix(text: str, expected: tuple[str, str]) -> None:
    assert parse_destination(text) == expected


@pytest.mark.parametrize("text", ["ours/a", "https://ours/a", "s3:///a", "s3://" + "a" * 600])
def test_what_is_no_destination_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--to is .*; expected s3://BUCKET/PREFIX"):
        parse_destination(text)
