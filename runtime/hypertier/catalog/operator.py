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

# The operator's release and the add-on's that carries it.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-inference-release-notes.html
# (read 2026-12-01)
ADDON_VERSIONS = {
    "3.0": "v1.0.0-eksbuild.1",
    "3.1": "v1.2.0-eksbuild.1",
    "3.2": "v1.3.0-eksbuild.1",
    "3.3": "v1.4.0-eksbuild.1",
    "3.4": "v1.5.0-eksbuild.1",
    "3.6": "v2.0.0-eksbuild.2",
    "3.7": "v2.1.0-eksbuild.1",
}
