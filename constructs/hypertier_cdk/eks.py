"""The EKS cluster that orchestrates HyperPod, and the handler that applies Kubernetes manifests to it."""

from __future__ import annotations

import importlib
import ipaddress
from collections.abc import Sequence
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.spec.cluster import KUBERNETES_VERSIONS, KUBERNETES_VERSIONS_FORM
from hypertier_cdk.nag import accept_managed_policies, accept_what_cdk_builds
from hypertier_cdk.network import Network

KUBECTL_VERSION = "1.35"  # of the layer that comes with hypertier; kubectl serves one version up and down


def new_eks_cluster(
    scope: Construct,
    construct_id: str,
    *,
    network: Network,
    kubernetes_version: str,
    api_cidrs: Sequence[str] | None = None,
) -> eks.ICluster:
    """An EKS cluster for HyperPod: no nodes of its own, API authentication, secrets under a key of its own.

    Its API answers inside the VPC, and outside to `api_cidrs`: everybody for None, nobody for none or in a
    closed network.

    Raises:
        ConfigError: for a version that HyperPod does not support, or an address range that is none.
    """
    if kubernetes_version not in KUBERNETES_VERSIONS:
        raise ConfigError("kubernetes_version", kubernetes_version, KUBERNETES_VERSIONS_FORM)
    key = kms.Key(
        scope,
        f"{construct_id}SecretsKey",
        description="Kubernetes secrets of the EKS cluster",
        enable_key_rotation=True,
        removal_policy=cdk.RemovalPolicy.RETAIN,
    )
    cluster = eks.Cluster(
        scope,
        construct_id,
        version=eks.KubernetesVersion.of(kubernetes_version),
        vpc=network.vpc,
        vpc_subnets=[{"subnets": network.private_subnets}],
        endpoint_access=_endpoint_access(network, api_cidrs),
        # Not Auto Mode: HyperPod brings the nodes.
        default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
        default_capacity=0,
        bootstrap_cluster_creator_admin_permissions=False,
        # The add-ons come from EKS, versioned, instead.
        bootstrap_self_managed_addons=False,
        secrets_encryption_key=key,
        cluster_logging=list(eks.ClusterLoggingTypes),
        kubectl_provider_options=eks.KubectlProviderOptions(
            kubectl_layer=kubectl_layer(scope, kubernetes_version),
            memory=cdk.Size.mebibytes(1024),
            private_subnets=network.private_subnets,
        ),
        output_config_command=False,
    )
    assert isinstance(cluster.role, iam.Role)
    accept_managed_policies(cluster.role, "EKS asks for this policy by its name", "AmazonEKSClusterPolicy")
    accept_what_cdk_builds(cluster.node.find_child("KubectlProvider"))
    if network.closed:
        cdk.Annotations.of(cluster).acknowledge_warning(
            "@aws-cdk/aws-eks:isolatedSubnetsForKubectlPrivateSubnets",
            "the function that applies manifests reaches EKS by the network's endpoints",
        )
    # The protocol has a member more than the class, by the generated code of aws-cdk-lib 2.275.
    return cast("eks.ICluster", cluster)


def _endpoint_access(network: Network, api_cidrs: Sequence[str] | None) -> eks.EndpointAccess:
    for cidr in api_cidrs or ():
        try:
            ipaddress.IPv4Network(cidr)
        except ValueError as error:
            raise ConfigError("api_cidrs", cidr, f"IPv4 ranges such as 192.0.2.0/24 ({error})") from error
    if network.closed or (api_cidrs is not None and not api_cidrs):
        return eks.EndpointAccess.PRIVATE
    if api_cidrs is None:
        return eks.EndpointAccess.PUBLIC_AND_PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*api_cidrs)


def kubectl_layer(scope: Construct, kubernetes_version: str) -> Any:
    """The Lambda layer with the kubectl that fits the cluster.

    Raises:
        MissingPackageError: the layer for this version is not installed.
    """
    minor = int(kubernetes_version.partition(".")[2])
    own = int(KUBECTL_VERSION.partition(".")[2])
    wanted = own if abs(minor - own) <= 1 else minor
    try:
        module = importlib.import_module(f"aws_cdk.lambda_layer_kubectl_v{wanted}")
    except ImportError:
        package = f"aws-cdk.lambda-layer-kubectl-v{wanted}"
        raise MissingPackageError(f"kubernetes_version {kubernetes_version}", package) from None
    return getattr(module, f"KubectlV{wanted}Layer")(scope, "KubectlLayer")
