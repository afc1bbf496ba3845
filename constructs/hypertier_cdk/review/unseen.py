"""What a review can't see: what exists already is known by its names alone, since nothing is asked of AWS."""

from __future__ import annotations

from collections.abc import Mapping

from hypertier_cdk.review.templates import Assembly

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
NOT_KNOWN: Mapping[str, str] = {
    "AWS::EC2::VPC": "the VPC: how many addresses of its subnets are free, its routes, endpoints and network "
    "ACLs, what its security groups let through, whether its subnets are tagged for load balancers",
    "AWS::EKS::Cluster": "the EKS cluster: its Kubernetes version, whether it takes access entries, has the "
    "Pod Identity agent and enforces network policies, which add-ons it has, what else runs in it",
    "AWS::SageMaker::Cluster": "the HyperPod cluster: whether it has the nodes that the deployment names",
}
"""A type of resource -> what nobody knows of it where it was made elsewhere."""


def unseen_in(assembly: Assembly) -> tuple[str, ...]:
    """What an app that brings something into a cluster uses and does not make; nothing for others."""
    if not assembly.of_type(MANIFEST):
        return ()
    return tuple(said for made, said in NOT_KNOWN.items() if not assembly.of_type(made))
