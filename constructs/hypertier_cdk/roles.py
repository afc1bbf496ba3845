"""The IAM roles of a HyperPod cluster, each with no more than its user needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Stack, Token
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from hypertier.spec.lifecycle import S3_SCHEME, LifecycleScript
from hypertier_cdk.nag import accept_managed_policies, accept_wildcards

CLUSTER_TAG = "hypertier:cluster"
WRITE_LOGS = ("logs:CreateLogStream", "logs:PutLogEvents")
VOLUME_GRANTS = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
    "RetireGrant",
)


def allow(
    sid: str, actions: Sequence[str], resources: Sequence[str], conditions: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A statement as IAM writes it."""
    statement = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return statement | {"Condition": dict(conditions)} if conditions else statement


def policies(*statements: Mapping[str, Any]) -> dict[str, iam.PolicyDocument]:
    """What a role may do from its beginning, as `inline_policies` takes it.

    Whatever depends on the role then has its permissions, too; each statement added later is a resource
    more, or two calls to the CDK's process more.
    """
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    return {"Permissions": iam.PolicyDocument.from_json(document)}


def execution_role(scope: Construct, construct_id: str, *, vpc: ec2.IVpc, cluster: eks.ICluster) -> iam.Role:
    """The role of HyperPod's nodes: network interfaces for pods, images, and the pods' own roles.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html
    """
    stack = Stack.of(scope)
    ec2_arn = f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}"
    interfaces = f"{ec2_arn}:network-interface/*"
    made_for_pods = (
        interfaces,
        f"{ec2_arn}:instance/*",
        f"{ec2_arn}:subnet/*",
        f"{ec2_arn}:security-group/*",
    )
    images = f"arn:{stack.partition}:ecr:*:*:repository/*"
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
        description="HyperPod nodes",
        managed_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerClusterInstanceRolePolicy")
        ],
        inline_policies=policies(
            allow(
                "PodNetworkInterfaces",
                [
                    "ec2:AssignPrivateIpAddresses",
                    "ec2:AttachNetworkInterface",
                    "ec2:CreateNetworkInterface",
                    "ec2:CreateNetworkInterfacePermission",
                    "ec2:DeleteNetworkInterface",
                    "ec2:DeleteNetworkInterfacePermission",
                    "ec2:DetachNetworkInterface",
                    "ec2:ModifyNetworkInterfaceAttribute",
                    "ec2:UnassignPrivateIpAddresses",
                ],
                [*made_for_pods, f"{ec2_arn}:vpc/{vpc.vpc_id}"],
            ),
            allow("TagInterfaces", ["ec2:CreateTags"], [interfaces]),
            allow(
                "Describe",  # EC2's Describe calls and the registry's login know no resource
                [
                    "cloudwatch:DescribeAlarms",
                    "ec2:DescribeDhcpOptions",
                    "ec2:DescribeInstanceTypes",
                    "ec2:DescribeInstances",
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeSubnets",
                    "ec2:DescribeTags",
                    "ec2:DescribeVpcs",
                    "ecr:GetAuthorizationToken",
                    "fsx:DescribeFileSystems",
                ],
                ["*"],
            ),
            allow(
                "PullImages",  # AWS's own images lie in its registry accounts, one for each Region
                ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
                [images],
            ),
            allow("PodIdentity", ["eks-auth:AssumeRoleForPodIdentity"], [cluster.cluster_arn]),
        ),
    )
    accept_managed_policies(
        role, "HyperPod asks for it by its name", "AmazonSageMakerClusterInstanceRolePolicy"
    )
    accept_wildcards(role, "made at run time, for pods", *made_for_pods)
    accept_wildcards(role, "AWS's own images lie in one account a Region", images)
    accept_wildcards(role, "EC2's Describe calls and the registry's login know no resource", "*")
    return role


def let_read_scripts(role: iam.Role, scripts: Sequence[LifecycleScript]) -> None:
    """Let nodes list and read what lies below the address of each script in S3, and nothing beside it."""
    partition = Stack.of(role).partition
    for source in dict.fromkeys(script.source for script in scripts):
        bucket, _, prefix = source.removeprefix(S3_SCHEME).partition("/")
        below = f"{prefix.rstrip('/')}/*" if prefix.rstrip("/") else "*"
        scripts_arn = f"arn:{partition}:s3:::{bucket}/{below}"
        accept_wildcards(role, "every file of the lifecycle script's folder", scripts_arn)
        role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[scripts_arn]))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[f"arn:{partition}:s3:::{bucket}"],
                conditions={"StringLike": {"s3:prefix": [below, prefix.rstrip("/")]}} if prefix else None,
            )
        )


def let_read_secret(
    role: iam.IGrantable, secret: secretsmanager.ISecret, key: kms.IKey | None = None
) -> iam.Grant:
    """Let whoever has the role read a secret, and decrypt it through the secret's service alone.

    By the role's own policy, not by the key's as well: the role may stand in a later stack.
    """
    decrypt: iam.Grant | None = None
    if key is not None:
        service = f"secretsmanager.{secret.env.region}.amazonaws.com"
        decrypt = iam.Grant.add_to_principal(
            grantee=role,
            actions=["kms:Decrypt"],
            resource_arns=[key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": service}},
        )
    read = iam.Grant.add_to_principal(
        grantee=role,
        actions=["secretsmanager:GetSecretValue"],
        resource_arns=[secret.secret_arn],
    )
    return read if decrypt is None else read.combine(decrypt)


def autoscaling_role(
    scope: Construct, construct_id: str, cluster_name: str, volume_key_arns: Sequence[str] = ()
) -> iam.Role:
    """The role with which HyperPod's Karpenter adds and removes nodes of its own cluster.

    It may lend the keys of the nodes' volumes to SageMaker, for the nodes that it adds.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-iam.html
    (read 2026-12-01)
    """
    clusters = Stack.of(scope).format_arn(service="sagemaker", resource="cluster", resource_name="*")
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal("hyperpod.sagemaker.amazonaws.com"),
        description="Karpenter of HyperPod",
        inline_policies=policies(
            allow(
                "ScaleNodes",
                ["sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes"],
                # A cluster's ARN ends in an id that AWS gives it, so the tag tells it from others.
                [clusters],
                {"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": cluster_name}},
            ),
            *(_lend(volume_key_arns) if volume_key_arns else ()),
        ),
    )
    accept_wildcards(role, "a cluster's ARN ends in an id of AWS's; a tag narrows it", clusters)
    return role


def _lend(key_arns: Sequence[str]) -> list[dict[str, Any]]:
    through_sagemaker = {"StringLike": {"kms:ViaService": "sagemaker.*.amazonaws.com"}}
    for_services = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    for_volumes = {"ForAllValues:StringEquals": {"kms:GrantOperations": list(VOLUME_GRANTS)}}
    lending = through_sagemaker | for_services | for_volumes
    return [
        allow("LendKey", ["kms:CreateGrant"], key_arns, lending),
        allow("DescribeKey", ["kms:DescribeKey"], key_arns, through_sagemaker),
    ]


def service_account_role(
    scope: Construct,
    construct_id: str,
    *,
    provider: iam.IOpenIdConnectProvider,
    namespace: str,
    service_account: str,
    description: str,
    role_name: str | None = None,
    also_trusted: Sequence[str] = (),
    managed_policies: Sequence[iam.IManagedPolicy] = (),
) -> iam.Role:
    """A role for pods of a service account, by the cluster's OIDC `provider`; for what knows no Pod Identity.

    `service_account` and `namespace` may hold `*`; `also_trusted` names services of AWS's.
    """
    role = iam.Role(
        scope,
        construct_id,
        role_name=role_name,
        assumed_by=iam.OpenIdConnectPrincipal(provider),
        description=description,
        managed_policies=list(managed_policies),
    )
    issuer = provider.open_id_connect_provider_issuer
    operator = "StringLike" if "*" in namespace + service_account else "StringEquals"
    pods = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": provider.open_id_connect_provider_arn},
        "Condition": {
            operator: {
                f"{issuer}:aud": "sts.amazonaws.com",
                f"{issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
            }
        },
    }
    services = [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}}
        for service in also_trusted
    ]
    resource = role.node.default_child
    assert isinstance(resource, iam.CfnRole)
    document = {"Version": "2012-10-17", "Statement": [pods, *services]}
    # As text where the issuer is known at deployment alone: it stands in a key, which CloudFormation fills in
    # nowhere else. The property takes either, by the type's schema in CloudFormation's registry.
    resource.assume_role_policy_document = json.dumps(document) if Token.is_unresolved(issuer) else document
    return role
