"""The IAM roles of a HyperPod cluster, each with no more than its user needs."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnJson, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from hypertier.spec.lifecycle import S3_SCHEME, LifecycleScript
from hypertier_cdk.nag import accept_managed_policies, accept_what_cdk_builds, accept_wildcards

CLUSTER_TAG = "hypertier:cluster"
VOLUME_GRANTS = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
    "RetireGrant",
)


def execution_role(scope: Construct, construct_id: str, *, vpc: ec2.IVpc, cluster: eks.ICluster) -> iam.Role:
    """The role of HyperPod's nodes: network interfaces for pods, images, and the pods' own roles.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html
    """
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
        description="HyperPod nodes",
        managed_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerClusterInstanceRolePolicy")
        ],
    )
    accept_managed_policies(
        role, "HyperPod asks for it by its name", "AmazonSageMakerClusterInstanceRolePolicy"
    )
    ec2_arn = Stack.of(scope).format_arn
    interfaces = ec2_arn(service="ec2", resource="network-interface", resource_name="*")
    instances = ec2_arn(service="ec2", resource="instance", resource_name="*")
    subnets = ec2_arn(service="ec2", resource="subnet", resource_name="*")
    security_groups = ec2_arn(service="ec2", resource="security-group", resource_name="*")
    accept_wildcards(role, "made at run time, for pods", interfaces, instances, subnets, security_groups)
    images = f"arn:{Stack.of(scope).partition}:ecr:*:*:repository/*"
    accept_wildcards(role, "AWS's own images lie in one account a Region", images)
    accept_wildcards(role, "EC2's Describe calls and the registry's login know no resource", "*")
    statements = [
        iam.PolicyStatement(
            sid="PodNetworkInterfaces",
            actions=[
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
            resources=[
                interfaces,
                instances,
                ec2_arn(service="ec2", resource="vpc", resource_name=vpc.vpc_id),
                subnets,
                security_groups,
            ],
        ),
        iam.PolicyStatement(sid="TagInterfaces", actions=["ec2:CreateTags"], resources=[interfaces]),
        iam.PolicyStatement(
            sid="Describe",  # EC2's Describe calls and the registry's login know no resource
            actions=[
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
            resources=["*"],
        ),
        iam.PolicyStatement(
            sid="PullImages",  # AWS's own images lie in its registry accounts, one for each Region
            actions=[
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:GetDownloadUrlForLayer",
            ],
            resources=[images],
        ),
        iam.PolicyStatement(
            sid="PodIdentity",
            actions=["eks-auth:AssumeRoleForPodIdentity"],
            resources=[cluster.cluster_arn],
        ),
    ]
    for statement in statements:
        role.add_to_policy(statement)
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
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal("hyperpod.sagemaker.amazonaws.com"),
        description="Karpenter of HyperPod",
    )
    clusters = Stack.of(scope).format_arn(service="sagemaker", resource="cluster", resource_name="*")
    accept_wildcards(role, "a cluster's ARN ends in an id of AWS's; a tag narrows it", clusters)
    role.add_to_policy(
        iam.PolicyStatement(
            sid="ScaleNodes",
            actions=["sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes"],
            # A cluster's ARN ends in an id that AWS gives it, so the tag tells it from others.
            resources=[clusters],
            conditions={"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": cluster_name}},
        )
    )
    if volume_key_arns:
        _let_lend(role, volume_key_arns)
    return role


def _let_lend(role: iam.Role, key_arns: Sequence[str]) -> None:
    through_sagemaker = {"StringLike": {"kms:ViaService": "sagemaker.*.amazonaws.com"}}
    for_services = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    for_volumes = {"ForAllValues:StringEquals": {"kms:GrantOperations": list(VOLUME_GRANTS)}}
    role.add_to_policy(
        iam.PolicyStatement(
            sid="LendKey",
            actions=["kms:CreateGrant"],
            resources=list(key_arns),
            conditions=through_sagemaker | for_services | for_volumes,
        )
    )
    role.add_to_policy(
        iam.PolicyStatement(
            sid="DescribeKey",
            actions=["kms:DescribeKey"],
            resources=list(key_arns),
            conditions=through_sagemaker,
        )
    )


def service_account_role(
    scope: Construct,
    construct_id: str,
    *,
    provider: iam.IOpenIdConnectProvider,
    namespace: str,
    service_account: str,
    description: str,
    role_name: str | None = None,
    also_trusted: Sequence[iam.IPrincipal] = (),
    managed_policies: Sequence[iam.IManagedPolicy] = (),
) -> iam.Role:
    """A role for pods of a service account, by the cluster's OIDC `provider`; for what knows no Pod Identity.

    `service_account` and `namespace` may hold `*`.
    """
    issuer = provider.open_id_connect_provider_issuer
    operator = "StringLike" if "*" in namespace + service_account else "StringEquals"
    # The issuer is known at deployment alone and stands in a key, which CloudFormation cannot fill in.
    condition = CfnJson(
        scope,
        f"{construct_id}Condition",
        value={
            f"{issuer}:aud": "sts.amazonaws.com",
            f"{issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
        },
    )
    singleton = Stack.of(scope).node.try_find_child("AWSCDKCfnUtilsProviderCustomResourceProvider")
    if isinstance(singleton, Construct):
        accept_what_cdk_builds(singleton)
    pods = iam.OpenIdConnectPrincipal(provider).with_conditions({operator: condition})
    role = iam.Role(
        scope,
        construct_id,
        role_name=role_name,
        assumed_by=pods,
        description=description,
        managed_policies=list(managed_policies),
    )
    policy = role.assume_role_policy
    assert policy is not None
    for principal in also_trusted:
        policy.add_statements(iam.PolicyStatement(actions=["sts:AssumeRole"], principals=[principal]))
    return role
