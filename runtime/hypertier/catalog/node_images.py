"""Images of what runs on every node of a kind: where AWS and NVIDIA keep them."""

from __future__ import annotations

# https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html, and the chart of
# https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin (read 2026-12-01)
EKS_IMAGES_ACCOUNT = "602401143452"
EFA_PLUGIN = "eks/aws-efa-k8s-device-plugin:v0.5.8"
NVIDIA_PLUGIN_IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.16.1"
HEALTH_AGENT_TAG = "1.0.935.0_1.0.282.0"
# Whose registry holds the health agent's image, by Region: from the chart's own table.
HEALTH_AGENT_ACCOUNTS = {
    "ap-northeast-1": "533267052152",
    "ap-south-1": "011528288864",
    "ap-southeast-1": "905418428165",
    "ap-southeast-2": "851725636348",
    "eu-central-1": "211125453373",
    "eu-north-1": "654654141839",
    "eu-west-1": "533267293120",
    "eu-west-2": "011528288831",
    "sa-east-1": "025066253954",
    "us-east-1": "767398015722",
    "us-east-2": "851725546812",
    "us-west-1": "011528288828",
    "us-west-2": "905418368575",
}


def health_agent_image(region: str) -> str | None:
    """HyperPod's health monitoring agent in the Region's own registry; None where AWS keeps none."""
    account = HEALTH_AGENT_ACCOUNTS.get(region)
    if account is None:
        return None
    return f"{account}.dkr.ecr.{region}.amazonaws.com/hyperpod-health-monitoring-agent:{HEALTH_AGENT_TAG}"


def efa_image(region: str) -> str:
    """AWS's EFA device plugin in the registry that Amazon EKS keeps in most Regions.

    The account is that of every Region in `HEALTH_AGENT_ACCOUNTS`. Some newer Regions, and those of other
    partitions, have accounts of their own: there `efa_plugin_image` (images.efaDevicePlugin) names the image.
    """
    return f"{EKS_IMAGES_ACCOUNT}.dkr.ecr.{region}.amazonaws.com/{EFA_PLUGIN}"
