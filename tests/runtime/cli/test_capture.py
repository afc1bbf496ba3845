"""`hypertier capture` carries what a router left to S3."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner
from fakes_moto import REGION, aws_environment, moto_server

from hypertier.cli.commands import cli
from hypertier.errors import ConfigError
from hypertier.router.capture.spool import Spool


def test_files_reach_the_bucket_encrypted_with_the_key_and_leave_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moto_server() as url:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        s3 = boto3.client("s3", region_name=REGION)
        s3.create_bucket(Bucket="captures", CreateBucketConfiguration={"LocationConstraint": REGION})
        Spool(tmp_path, 1024).write("acme", 0.0, [b"{}\n"])

        arguments = ["--spool", str(tmp_path), "--to", "s3://captures/llama", "--kms-key-id", "alias/ours"]
        result = CliRunner().invoke(cli, ["capture", *arguments, "--once"])

        assert (result.exit_code, result.output) == (0, "carried 1 files to s3://captures/llama\n")
        (found,) = s3.list_objects_v2(Bucket="captures")["Contents"]
        assert found["Key"].startswith("llama/tenant=acme/1970/01/01/00/00-00-000-")
        head = s3.head_object(Bucket="captures", Key=found["Key"])
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", "alias/ours")
        assert not [entry for entry in tmp_path.rglob("*") if entry.is_file()]


def test_a_file_that_the_bucket_does_not_take_stays_and_ends_the_command_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moto_server() as url:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        Spool(tmp_path, 1024).write("acme", 0.0, [b"{}\n"])

        result = CliRunner().invoke(cli, ["capture", "--spool", str(tmp_path), "--to", "s3://none", "--once"])

    assert (result.exit_code, result.output) == (1, "carried 0 files to s3://none\n")
    assert [entry for entry in tmp_path.rglob("*") if entry.is_file()]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    arguments = ["capture", "--spool", str(tmp_path / "typo"), "--to", "s3://captures", "--once"]

    result = CliRunner().invoke(cli, arguments)

    assert isinstance(result.exception, ConfigError)
    assert "--spool is" in str(result.exception)
