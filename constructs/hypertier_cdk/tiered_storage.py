"""HyperPod's managed tiered storage as L2: a share of every node's memory, kept by a daemon of AWS's."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker

from hypertier.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredStorage:
    """`memory_percent` of each node's memory. Takes the place of a `CacheStore` as an endpoint's L2.

    It has no address and no credentials: pods reach the daemon on their own node.
    """

    memory_percent: int = 20

    backend = "tieredstorage"
    url = None
    secret = None

    def __post_init__(self) -> None:
        if not 0 < self.memory_percent <= 100:
            raise ConfigError("memory_percent", self.memory_percent, "1 to 100, percent of a node's memory")

    def grant_read_secret(self, role: iam.IRole) -> None:
        """Nothing to grant: the daemon asks for no credentials."""

    def to_property(self) -> sagemaker.CfnCluster.TieredStorageConfigProperty:
        """As `AWS::SageMaker::Cluster` takes it."""
        return sagemaker.CfnCluster.TieredStorageConfigProperty(
            mode="Enable", instance_memory_allocation_percentage=self.memory_percent
        )
