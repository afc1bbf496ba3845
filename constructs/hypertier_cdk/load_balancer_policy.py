"""What the load balancer controller of HyperPod's inference operator may do. Plain data.

No statement gives more than the controller's own policy for v2.13, which aws-cdk-lib carries a copy of. Left
out is what an internal load balancer with a certificate of ACM never uses (Cognito, server certificates of
IAM, changes of WAF and Shield, Outposts, address pools). The controller tags all that it makes with the
cluster's name; each change of a load balancer, target group or security group of its own asks for that tag,
and none may set or take it. Of the groups of others it opens and closes those of the cluster's VPC alone, as
its installation guide advises. Listeners and their rules are left as published: their tags are a feature that
can be turned off.
https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/v2.13.0/docs/install/iam_policy.json
https://kubernetes-sigs.github.io/aws-load-balancer-controller/v2.13/deploy/installation/ (read 2026-12-01)
https://docs.aws.amazon.com/service-authorization/latest/reference/list_elasticloadbalancingv2.html
"""

from __future__ import annotations

from typing import Any

CLUSTER_TAG = "elbv2.k8s.aws/cluster"
OWN = {"Null": {f"aws:ResourceTag/{CLUSTER_TAG}": "false"}}
OWN_WITHOUT_ITS_MARK = {
    "Null": {f"aws:RequestTag/{CLUSTER_TAG}": "true", f"aws:ResourceTag/{CLUSTER_TAG}": "false"}
}
TAGGED_AS_OWN = {"Null": {f"aws:RequestTag/{CLUSTER_TAG}": "false"}}

DESCRIBE = (
    "acm:DescribeCertificate",
    "acm:ListCertificates",
    "ec2:DescribeAccountAttributes",
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeInstances",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcPeeringConnections",
    "ec2:DescribeVpcs",
    "ec2:GetSecurityGroupsForVpc",
    "elasticloadbalancing:DescribeCapacityReservation",
    "elasticloadbalancing:DescribeListenerAttributes",
    "elasticloadbalancing:DescribeListenerCertificates",
    "elasticloadbalancing:DescribeListeners",
    "elasticloadbalancing:DescribeLoadBalancerAttributes",
    "elasticloadbalancing:DescribeLoadBalancers",
    "elasticloadbalancing:DescribeRules",
    "elasticloadbalancing:DescribeSSLPolicies",
    "elasticloadbalancing:DescribeTags",
    "elasticloadbalancing:DescribeTargetGroupAttributes",
    "elasticloadbalancing:DescribeTargetGroups",
    "elasticloadbalancing:DescribeTargetHealth",
    "elasticloadbalancing:DescribeTrustStores",
    "shield:GetSubscriptionState",
    "wafv2:GetWebACL",
    "wafv2:GetWebACLForResource",
)
MAKING = ("CreateLoadBalancer", "CreateTargetGroup")
TAGGING = ("elasticloadbalancing:AddTags", "elasticloadbalancing:RemoveTags")
CHANGE_OWN = (
    "elasticloadbalancing:DeleteLoadBalancer",
    "elasticloadbalancing:DeleteTargetGroup",
    "elasticloadbalancing:ModifyCapacityReservation",
    "elasticloadbalancing:ModifyListenerAttributes",
    "elasticloadbalancing:ModifyLoadBalancerAttributes",
    "elasticloadbalancing:ModifyTargetGroup",
    "elasticloadbalancing:ModifyTargetGroupAttributes",
    "elasticloadbalancing:SetIpAddressType",
    "elasticloadbalancing:SetSecurityGroups",
    "elasticloadbalancing:SetSubnets",
)
RULES_OF_LISTENERS = (
    "elasticloadbalancing:AddListenerCertificates",
    "elasticloadbalancing:CreateRule",
    "elasticloadbalancing:DeleteListener",
    "elasticloadbalancing:DeleteRule",
    "elasticloadbalancing:ModifyListener",
    "elasticloadbalancing:ModifyRule",
    "elasticloadbalancing:RemoveListenerCertificates",
    "elasticloadbalancing:SetRulePriorities",
)


def load_balancer_statements(partition: str, region: str, account: str, vpc_arn: str) -> list[dict[str, Any]]:
    """The policy's statements, in the shape of IAM's JSON."""
    ec2 = f"arn:{partition}:ec2:{region}:{account}"
    elb = f"arn:{partition}:elasticloadbalancing:{region}:{account}"
    security_groups = f"{ec2}:security-group/*"
    groups = f"{elb}:targetgroup/*/*"
    balancers = [f"{elb}:loadbalancer/app/*/*", f"{elb}:loadbalancer/net/*/*"]
    listeners = [f"{elb}:listener/app/*/*/*", f"{elb}:listener/net/*/*/*"]
    rules = [f"{elb}:listener-rule/app/*/*/*", f"{elb}:listener-rule/net/*/*/*"]
    return [
        _allow("Describe", DESCRIBE, "*"),
        _allow(
            "LinkedRole",
            ("iam:CreateServiceLinkedRole",),
            f"arn:{partition}:iam::{account}:role/aws-service-role/elasticloadbalancing.amazonaws.com/*",
            {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
        _allow("MakeGroups", ("ec2:CreateSecurityGroup",), [security_groups, vpc_arn]),
        _allow(
            "TagNewGroups",
            ("ec2:CreateTags",),
            security_groups,
            TAGGED_AS_OWN | {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}},
        ),
        _allow("TagOwnGroups", ("ec2:CreateTags", "ec2:DeleteTags"), security_groups, OWN_WITHOUT_ITS_MARK),
        _allow("DeleteOwnGroups", ("ec2:DeleteSecurityGroup",), security_groups, OWN),
        # The nodes' group too, which the controller did not make: it lets the load balancer reach the pods.
        _allow(
            "OpenGroups",
            ("ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"),
            security_groups,
            {"ArnEquals": {"ec2:Vpc": vpc_arn}},
        ),
        _allow(
            "MakeBalancers",
            tuple(f"elasticloadbalancing:{making}" for making in MAKING),
            [*balancers, groups],
            TAGGED_AS_OWN,
        ),
        _allow(
            "TagNewBalancers",
            ("elasticloadbalancing:AddTags",),
            [*balancers, groups],
            TAGGED_AS_OWN
            | {
                "StringEquals": {
                    "elasticloadbalancing:CreateAction": ["CreateLoadBalancer", "CreateTargetGroup"]
                }
            },
        ),
        _allow("ChangeOwn", CHANGE_OWN, [*balancers, *listeners, groups], OWN),
        _allow("TagOwn", TAGGING, [*balancers, groups], OWN_WITHOUT_ITS_MARK),
        _allow("ChangeListeners", RULES_OF_LISTENERS, [*listeners, *rules]),
        _allow("TagListeners", TAGGING, [*listeners, *rules]),
        _allow("Listen", ("elasticloadbalancing:CreateListener",), balancers, OWN),
        _allow(
            "Register",
            ("elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"),
            groups,
            OWN,
        ),
    ]


def wildcards_of_load_balancers(partition: str, region: str, account: str) -> list[str]:
    """Every resource in the statements that holds a `*`, each once, in order."""
    statements = load_balancer_statements(partition, region, account, "")
    named = [
        resource
        for statement in statements
        for resource in (
            statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        )
    ]
    return list(dict.fromkeys(resource for resource in named if "*" in resource))


def _allow(
    sid: str, actions: tuple[str, ...], resource: str | list[str], condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    statement: dict[str, Any] = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": resource}
    return statement | ({"Condition": condition} if condition else {})
