"""`hypertier capture` carries what a router left to S3."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner
from fakes_moto import REGION, aws_environment, moto_server

from hypertier.cli.commands import cli
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

        assert result.exit_code == 0, result.output
        (found,) = s3.list_objects_v2(Bucket="captures")["Contents"]
        assert found["Key"].startswith("llama/tenant=acme/1970/01/01/00/00-00-000-")
        head = s3.head_object(Bucket="captures", Key=found["Key"])
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", "alias/ours")
        assert not [entry for entry in tmp_path.rglob("*") if entry.is_file()]
