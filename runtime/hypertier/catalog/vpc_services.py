"""Which AWS services a network must reach privately, by what runs in it. Plain data."""

from __future__ import annotations

from collections.abc import Iterable

from hypertier.errors import ConfigError

# What each part calls. Interface endpoints; S3 is a gateway, free of charge, and every network has it. Nodes
# have those that AWS's Terraform modules for HyperPod make (https://github.com/awslabs/awsome-distributed-ai),
# with EKS and SageMaker, which a closed node must reach too; the rest follow from the calls.
# https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html
SERVICES_BY_NEED: dict[str, tuple[str, ...]] = {
    "nodes": (
        "ec2",
        "ec2messages",
        "ecr.api",
        "ecr.dkr",
        "eks",
        "eks-auth",
        "logs",
        "monitoring",
        "sagemaker.api",
        "ssm",
        "ssmmessages",
        "sts",
    ),
    "manifests": ("eks", "lambda", "sts"),
    "secrets": ("kms", "secretsmanager"),
    "operator": ("acm", "elasticloadbalancing", "sagemaker.api", "sagemaker.runtime", "sts"),
    "keda": ("aps-workspaces", "monitoring", "sts"),
    "load balancers": ("ec2", "elasticloadbalancing", "sts"),
    "observability": ("aps-workspaces", "logs", "sts"),
    "scaling": ("eks", "monitoring", "sqs", "sts"),
}


def services_for(needs: Iterable[str]) -> tuple[str, ...]:
    """The services that all these needs call, each once, in order.

    Raises:
        ConfigError: for a need that the table does not have.
    """
    wanted: set[str] = set()
    for need in needs:
        if need not in SERVICES_BY_NEED:
            raise ConfigError("needs", need, " or ".join(SERVICES_BY_NEED))
        wanted.update(SERVICES_BY_NEED[need])
    return tuple(sorted(wanted))
