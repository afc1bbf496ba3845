"""What AWS's inference operator demands of where it runs, and of what it is called."""

from __future__ import annotations

ROLE_PREFIX = "SageMakerHyperPodInference"
"""AWS's managed policy lets the operator pass roles of such names alone."""

REGIONS = (
    "ap-northeast-1",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "eu-central-1",
    "eu-north-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)
"""Regions whose registries hold its images, from the operator's own chart (2.2.2)."""
