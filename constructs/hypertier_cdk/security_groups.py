"""Who may talk to whom: HyperPod nodes among themselves and with the EKS control plane, and the way out."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

ALL_PROTOCOLS = "-1"


def carry_group_of(scope: Construct, eks_cluster: eks.ICluster) -> ec2.ISecurityGroup:
    """EKS's own group of somebody else's cluster, for a function to carry: no rule opens it from outside."""
    return ec2.SecurityGroup.from_security_group_id(
        scope, "OfEks", eks_cluster.cluster_security_group_id, mutable=False
    )


class NodeSecurityGroup(Construct):
    """The group of all HyperPod nodes: open among themselves and to the control plane, and free to call out.

    EFA traffic is allowed by rules for all protocols that name the group itself, in and out; a rule out to
    0.0.0.0/0 does not cover it.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html (read 2026-12-01)
    HyperPod's nodes do not carry the group that EKS makes for its cluster, so both are opened to each other;
    on an `adopted` cluster, whose group is left as it is, they do (`carried`).

    Attributes:
        group: the security group.
        rules: its rules as resources; nodes that start before them cannot join.
        carried: the groups that the nodes carry.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        eks_cluster: eks.ICluster,
        adopted: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self.group = ec2.SecurityGroup(
            self, "Group", vpc=vpc, description="HyperPod nodes", allow_all_outbound=True
        )
        nodes = self.group.security_group_id
        control_plane = eks_cluster.cluster_security_group_id
        self.carried = [nodes, *([control_plane] if adopted else [])]
        opened = (
            []
            if adopted
            else [self._ingress("ToControlPlane", "from HyperPod nodes", into=control_plane, source=nodes)]
        )
        self.rules = [
            self._ingress("FromItself", "among nodes, EFA", into=nodes, source=nodes),
            self._ingress("FromControlPlane", "from the EKS control plane", into=nodes, source=control_plane),
            *opened,
            ec2.CfnSecurityGroupEgress(
                self,
                "ToItself",
                group_id=nodes,
                destination_security_group_id=nodes,
                ip_protocol=ALL_PROTOCOLS,
                description="among nodes, EFA",
            ),
        ]

    def _ingress(
        self, rule_id: str, description: str, *, into: str, source: str
    ) -> ec2.CfnSecurityGroupIngress | ec2.CfnSecurityGroupEgress:
        return ec2.CfnSecurityGroupIngress(
            self,
            rule_id,
            group_id=into,
            source_security_group_id=source,
            ip_protocol=ALL_PROTOCOLS,
            description=description,
        )
