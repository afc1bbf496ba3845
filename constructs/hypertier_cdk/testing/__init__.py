"""Deploy an app without AWS: `Emulator` makes what a cloud assembly asks for, in this process.

For tests of a whole app: the order in which things are made and deleted, what custom resources really do,
which manifests reach Kubernetes, what happens when an alarm rings. A resource type that it does not know is
refused, never skipped. `CloudFormationServer` lets the CDK CLI deploy to it.
"""

from __future__ import annotations

from hypertier_cdk.testing.cluster_access import Ask
from hypertier_cdk.testing.emulator import Emulator
from hypertier_cdk.testing.providers import Made, Provider, Resource
from hypertier_cdk.testing.server import CloudFormationServer
from hypertier_cdk.testing.shapes import SHAPES, Shape, ShapeProvider
from hypertier_cdk.testing.stack import Event

__all__ = [
    "SHAPES",
    "Ask",
    "CloudFormationServer",
    "Emulator",
    "Event",
    "Made",
    "Provider",
    "Resource",
    "Shape",
    "ShapeProvider",
]
