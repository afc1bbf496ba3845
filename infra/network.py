"""The stack that changes least: the VPC."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from hypertier.spec.deployment import Deployment
from hypertier_cdk import Network


class NetworkStack(cdk.Stack):
    """The network of a deployment, in the zones that its instance groups name."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, **options: Any
    ) -> None:
        super().__init__(scope, construct_id, description=f"{deployment.name}: network", **options)
        zones = [group.availability_zone_id for group in deployment.instance_groups]
        self.network = Network(
            self,
            "Network",
            availability_zone_ids=[zone for zone in zones if zone],
            closed=deployment.cluster.closed_network,
        )
