"""The lifecycle scripts that lie on the machine of whoever deploys: a bucket for them, and the way there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as s3_deployment
from constructs import Construct, IDependable

from hypertier.spec.lifecycle import LifecycleScript
from hypertier_cdk.nag import accept, accept_what_cdk_builds

# Asked for by HyperPod: see hypertier.spec.lifecycle.
BUCKET_PREFIX = "sagemaker-hypertier"


class LifecycleScripts(Construct):
    """The folders of `scripts`, by instance group, in a bucket that HyperPod takes them from.

    HyperPod copies all below an address, so each group has a folder of its own. Files are put there by the
    CDK's own custom resource: CloudFormation has no resource for an object. A changed script is for the nodes
    made after it.

    Attributes:
        bucket: closed to the public, TLS alone; it goes with the stack, and what it holds too.
        ready: what the cluster depends on.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, scripts: Mapping[str, LifecycleScript]
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        own = cdk.Names.unique_resource_name(self, max_length=12, separator="-").lower()
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=f"{BUCKET_PREFIX}-{stack.account}-{stack.region}-{own}",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        accept(self.bucket, "holds scripts without secrets, which nodes alone read", "S1")
        self.ready: list[IDependable] = []
        self._scripts: dict[str, LifecycleScript] = {}
        for group, script in scripts.items():
            source = Path(script.source)
            with _folder_of(source) as folder:
                uploaded = s3_deployment.BucketDeployment(
                    self,
                    group,
                    sources=[s3_deployment.Source.asset(str(folder))],
                    destination_bucket=self.bucket,
                    destination_key_prefix=group,
                    retain_on_delete=False,
                )
            self.ready.append(uploaded)
            self._scripts[group] = LifecycleScript(
                source=f"s3://{self.bucket.bucket_name}/{group}/", file=script.file or source.name
            )
            owner = uploaded.handler_role.node.scope
            assert owner is not None
            accept_what_cdk_builds(owner)

    def in_s3(self, group: str) -> LifecycleScript:
        """The script of a group, at its address in S3."""
        return self._scripts[group]


@contextmanager
def _folder_of(source: Path) -> Iterator[Path]:
    """`source`, or for a file a folder that holds it alone; the CDK copies what it uploads from there."""
    if source.is_dir():
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(source, Path(folder) / source.name)
        yield Path(folder)


def located(scripts: Mapping[str, LifecycleScript]) -> dict[str, LifecycleScript]:
    """The scripts that lie on this machine, each with where spelled out.

    Raises:
        ConfigError: a folder or script that is not there; names the instance group's setting.
    """
    return {
        group: script.found_from(Path.cwd(), f"instance_groups.{group}.lifecycle")
        for group, script in scripts.items()
        if script.is_local
    }
