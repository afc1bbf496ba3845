"""Who may talk to whom: HyperPod nodes among themselves, the EKS control plane, and the way out."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct


def node_security_group(scope: Construct, construct_id: str, vpc: ec2.IVpc) -> ec2.SecurityGroup:
    """The group of all HyperPod nodes: everything among themselves, as EFA needs it.

    EFA traffic is only allowed by rules for all protocols that name the group itself, in and out; a rule out
    to 0.0.0.0/0 does not cover it.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html (read 2026-12-01)
    """
    group = ec2.SecurityGroup(
        scope, construct_id, vpc=vpc, description="HyperPod nodes", allow_all_outbound=False
    )
    group.add_ingress_rule(group, ec2.Port.all_traffic(), "among nodes, EFA")
    # Not add_egress_rule for itself: the CDK drops rules to a group's own peers once a wider one exists.
    ec2.CfnSecurityGroupEgress(
        scope,
        f"{construct_id}ToItself",
        group_id=group.security_group_id,
        ip_protocol="-1",
        destination_security_group_id=group.security_group_id,
        description="among nodes, EFA",
    )
    ec2.CfnSecurityGroupEgress(
        scope,
        f"{construct_id}ToAnywhere",
        group_id=group.security_group_id,
        ip_protocol="-1",
        cidr_ip="0.0.0.0/0",
        description="AWS endpoints and registries",
    )
    return group


def open_to_each_other(scope: Construct, nodes: ec2.ISecurityGroup, cluster: eks.ICluster) -> None:
    """Open HyperPod's nodes and the group that EKS makes for its control plane to each other."""
    cluster_group = ec2.SecurityGroup.from_security_group_id(
        scope, "ControlPlane", cluster.cluster_security_group_id
    )
    nodes.add_ingress_rule(cluster_group, ec2.Port.all_traffic(), "from the EKS control plane")
    cluster_group.add_ingress_rule(nodes, ec2.Port.all_traffic(), "from HyperPod nodes")
