"""EKS add-ons of a HyperPod cluster, by AWS's names for them."""

from __future__ import annotations

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
