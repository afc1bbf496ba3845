"""HyperPod's managed tiered storage as L2: a share of every node's memory, kept by a daemon of AWS's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_iam as iam

from hypertier.catalog.instance_types import GIB, InstanceType, find_instance_type
from hypertier.errors import ConfigError
from hypertier.spec.keywords import named_fields
from hypertier_cdk.arguments import check_fields, checked


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class TieredStorage:
    """`memory_percent` of each node's memory. Takes the place of a `CacheStore` as an endpoint's L2.

    It has no address and no credentials: pods reach the daemon on their own node. What it keeps is neither
    encrypted at rest nor kept apart by endpoint, and checkpoints of training jobs share it.
    """

    memory_percent: int = 20

    backend = "tieredstorage"
    url = None
    secret = None

    def __post_init__(self) -> None:
        check_fields(self, "tiered_storage")
        if not 0 < self.memory_percent <= 100:
            raise ConfigError("memory_percent", self.memory_percent, "1 to 100, percent of a node's memory")

    @classmethod
    @checked
    def of_gib(cls, gib_per_node: float, instance_type: str) -> TieredStorage:
        """So many GiB of each node of that type, rounded up to whole percents of its memory.

        Raises:
            ConfigError: the type is not in the catalog, or a node has less.
        """
        node = _node(instance_type)
        percent = math.ceil(gib_per_node * GIB * 100 / node.memory_bytes)
        if not 0 < percent <= 100:
            raise ConfigError(
                "gib_per_node",
                gib_per_node,
                f"more than 0 and at most {node.memory_bytes // GIB}, as {node.name} has",
            )
        return cls(memory_percent=percent)

    @classmethod
    @checked
    def of_tokens(cls, tokens_per_node: int, kv_bytes_per_token: int, instance_type: str) -> TieredStorage:
        """Room for the KV cache of so many tokens on each node, `kv_bytes_per_token` for each of them.

        Raises:
            ConfigError: the type is not in the catalog, or a node has less memory than that.
        """
        node = _node(instance_type)
        num_bytes = tokens_per_node * kv_bytes_per_token
        if not 0 < num_bytes <= node.memory_bytes:
            fitting = node.memory_bytes // max(kv_bytes_per_token, 1)
            raise ConfigError(
                "tokens_per_node",
                tokens_per_node,
                f"1 to {fitting}, whose KV cache fits into one {node.name}",
            )
        return cls(memory_percent=math.ceil(num_bytes * 100 / node.memory_bytes))

    def grant_read_secret(self, role: iam.IRole) -> None:
        """Nothing to grant: the daemon asks for no credentials."""

    def to_property(self) -> dict[str, Any]:
        """As `AWS::SageMaker::Cluster` takes it."""
        return {"Mode": "Enable", "InstanceMemoryAllocationPercentage": self.memory_percent}


def _node(instance_type: str) -> InstanceType:
    node = find_instance_type(instance_type)
    if node is None:
        raise ConfigError(
            "instance_type", instance_type, "a type whose memory hypertier knows; else give memory_percent"
        )
    return node
