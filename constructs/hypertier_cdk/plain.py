"""Resources in CloudFormation's own words, for what stays inside a construct.

A class of the CDK's for each type would bring its module into Node.js and its annotations into Python, at
every synth. What others are handed keeps its class, and so does what cdk-nag has rules for, since it knows a
resource by that. Types and properties are held to their schemas by the tests, which lint every template.
"""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct


def resource(scope: Construct, construct_id: str, resource_type: str, **properties: Any) -> cdk.CfnResource:
    """A resource such as `AWS::EKS::AccessEntry`, with its properties as CloudFormation names them."""
    return cdk.CfnResource(scope, construct_id, type=resource_type, properties=properties)
