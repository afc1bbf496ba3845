"""EKS add-ons of a HyperPod cluster, by AWS's names for them."""

from __future__ import annotations

from collections.abc import Collection

# Nodes without these do not become ready; they run on every node as it joins.
BEFORE_NODES = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
# Their pods wait for a node, and CloudFormation waits for them: before the first node they fail.
AFTER_NODES = ("coredns",)
S3_DRIVER = "aws-mountpoint-s3-csi-driver"
FSX_DRIVER = "aws-fsx-csi-driver"
CERT_MANAGER = "cert-manager"
METRICS_SERVER = "metrics-server"
INFERENCE_OPERATOR = "amazon-sagemaker-hyperpod-inference"
OBSERVABILITY = "amazon-sagemaker-hyperpod-observability"
# What the operator looks for when it starts.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-model-deployment-setup.html
# (read 2026-12-01)
OPERATOR_PREREQUISITES = (S3_DRIVER, FSX_DRIVER, CERT_MANAGER, METRICS_SERVER)


def existing_with(named: Collection[str]) -> frozenset[str]:
    """The add-ons that a cluster with those `named` has: where the operator runs, what it needs is there."""
    return frozenset((*named, *(OPERATOR_PREREQUISITES if INFERENCE_OPERATOR in named else ())))
