"""AWS's HyperPod Inference Operator as an EKS add-on, with all that it must find when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable

from hypertier.catalog.addons import CERT_MANAGER, INFERENCE_OPERATOR, METRICS_SERVER
from hypertier.catalog.operator import ADDON_VERSIONS, REGIONS, ROLE_PREFIX
from hypertier.errors import ConfigError
from hypertier_cdk.addons import new_addon
from hypertier_cdk.arguments import checked
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.controllers import let_make_load_balancers, let_read_metrics
from hypertier_cdk.forms import BucketName
from hypertier_cdk.nag import accept, accept_managed_policies, accept_wildcards
from hypertier_cdk.roles import service_account_role

NAMESPACE = "hyperpod-inference-system"
# Releases that bring AWS's inference gateway; whether it is on by default differs, so it is always said.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-model-deployment-inference-gateway.html
# (read 2026-12-01)
WITH_GATEWAY = ("3.6", "3.7")
# Demanded by AWS's managed policy, which names buckets by their beginning.
BUCKET_PREFIX = "hyperpod-tls"
BY_NAME = "the operator asks for its policies by their names"


class InferenceOperator(Construct):
    """The operator, its four prerequisites, its roles, and the bucket for its certificates.

    It comes after the first nodes, since its pods need one, and after everything that it looks for when it
    starts. When a stack is deleted it goes last: an endpoint that outlives its operator can never be deleted.
    `read_buckets` names the buckets that hold model weights. `gateway` turns on AWS's inference gateway, for
    endpoints with `spec.inferenceGateway`. The add-on brings KEDA and a load balancer controller of its own;
    `keda=False` and `load_balancer_controller=False` leave out what is in the cluster already.

    Attributes:
        ready: what an endpoint depends on.
        role: the operator's own.
        tls_bucket: where the operator leaves its certificates.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: ClusterBase,
        version: str = "3.7",
        read_buckets: Sequence[BucketName] = (),
        gated_models: bool = False,
        custom_domains: bool = False,
        gateway: bool = False,
        keda: bool = True,
        load_balancer_controller: bool = True,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        _check(version, stack.region, gateway)
        cluster.addons.refuse_second(
            INFERENCE_OPERATOR,
            "no InferenceOperator: an endpoint then takes operator_ready=cluster.nodes_ready",
        )
        cluster.network.reach("operator")

        drivers = [cluster.read_bucket(bucket) for bucket in read_buckets] or [cluster.s3_driver()]
        prerequisites: list[IDependable] = [
            *drivers,
            cluster.mount_fsx(),
            cluster.addons.add(CERT_MANAGER),
            cluster.addons.add(METRICS_SERVER),
        ]
        self.tls_bucket = self._new_bucket()
        self.role = self._new_role(cluster, custom_domains)
        self.load_balancer_role = self._new_load_balancer_role(cluster) if load_balancer_controller else None
        self.autoscaler_role = self._new_autoscaler_role(cluster) if keda else None
        self.gated_model_role = self._new_gated_model_role(cluster) if gated_models else None
        roles = [self.role]
        configuration: dict[str, Any] = {
            "executionRoleArn": self.role.role_arn,
            "tlsCertificateS3Bucket": self.tls_bucket.bucket_name,
            "hyperpodClusterArn": cluster.cluster_arn,
            "alb": {"enabled": load_balancer_controller},
            "keda": {"enabled": keda},
        }
        if self.load_balancer_role is not None:
            balancers = {"create": True, "roleArn": self.load_balancer_role.role_arn}
            configuration["alb"]["serviceAccount"] = balancers
            roles.append(self.load_balancer_role)
        if self.autoscaler_role is not None:
            irsa = {"enabled": True, "roleArn": self.autoscaler_role.role_arn}
            configuration["keda"]["auth"] = {"aws": {"irsa": irsa}}
            roles.append(self.autoscaler_role)
        if self.gated_model_role is not None:
            configuration["jumpstartGatedModelDownloadRoleArn"] = self.gated_model_role.role_arn
            roles.append(self.gated_model_role)
        if version in WITH_GATEWAY:
            configuration["inferenceGateway"] = {"enabled": gateway}
        if gateway:
            gateway_role = self._new_gateway_role(cluster)
            configuration["inferenceGateway"]["serviceAccount"] = {"roleArn": gateway_role.role_arn}
            roles.append(gateway_role)
        self.resource = new_addon(
            self,
            "Addon",
            cluster=cluster.eks_cluster,
            name=INFERENCE_OPERATOR,
            version=ADDON_VERSIONS[version],
            configuration=configuration,
            overwrite=cluster.adopted is None,
            after=[cluster.nodes_ready, *prerequisites, *roles, self.tls_bucket],
        )
        self.ready: IDependable = self.resource

    def _new_bucket(self) -> s3.Bucket:
        stack = cdk.Stack.of(self)
        own = cdk.Names.unique_resource_name(self, max_length=20, separator="-").lower()
        bucket = s3.Bucket(
            self,
            "Certificates",
            bucket_name=f"{BUCKET_PREFIX}-{stack.account}-{stack.region}-{own}",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            versioned=True,
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        accept(bucket, "holds certificates, which are public", "S1")
        return bucket

    def _new_role(self, cluster: ClusterBase, custom_domains: bool) -> iam.Role:
        stack = cdk.Stack.of(self)
        own = cdk.Names.unique_resource_name(self, max_length=20, separator="-")
        role = service_account_role(
            self,
            "Role",
            provider=cluster.oidc_provider,
            namespace=NAMESPACE,
            service_account="hyperpod-inference-controller-manager",
            description="HyperPod Inference Operator",
            # IAM is global: the Region tells this role from the same stack's elsewhere.
            role_name=f"{ROLE_PREFIX}-{own}-{stack.region}",
            also_trusted=["sagemaker.amazonaws.com"],
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerHyperPodInferenceAccess")
            ],
        )
        accept_managed_policies(role, BY_NAME, "AmazonSageMakerHyperPodInferenceAccess")
        if custom_domains:
            zones = f"arn:{stack.partition}:route53:::hostedzone/*"
            certificates = stack.format_arn(service="acm", resource="certificate", resource_name="*")
            accept_wildcards(role, "the manifest names them, at run time", certificates, zones)
            role.add_to_policy(
                iam.PolicyStatement(
                    sid="Certificates",
                    actions=["acm:DescribeCertificate", "acm:GetCertificate"],
                    resources=[certificates],
                )
            )
            role.add_to_policy(
                iam.PolicyStatement(
                    sid="Records",
                    actions=["route53:ChangeResourceRecordSets", "route53:ListResourceRecordSets"],
                    resources=[zones],
                )
            )
        return role

    def _new_load_balancer_role(self, cluster: ClusterBase) -> iam.Role:
        role = service_account_role(
            self,
            "LoadBalancerRole",
            provider=cluster.oidc_provider,
            namespace=NAMESPACE,
            service_account="aws-load-balancer-controller",
            description="load balancers of the HyperPod Inference Operator",
        )
        let_make_load_balancers(role, cluster)
        return role

    def _new_autoscaler_role(self, cluster: ClusterBase) -> iam.Role:
        role = service_account_role(
            self,
            "AutoscalerRole",
            provider=cluster.oidc_provider,
            namespace=NAMESPACE,
            service_account="keda-operator",
            description="KEDA of the HyperPod Inference Operator",
        )
        let_read_metrics(role)
        return role

    def _new_gateway_role(self, cluster: ClusterBase) -> iam.Role:
        role = service_account_role(
            self,
            "GatewayRole",
            provider=cluster.oidc_provider,
            namespace=NAMESPACE,
            service_account="inference-gateway-controller",
            description="certificates of the HyperPod Inference Gateway",
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(
                    "AmazonSageMakerHyperPodInferenceGatewayAccess"
                )
            ],
        )
        accept_managed_policies(role, BY_NAME, "AmazonSageMakerHyperPodInferenceGatewayAccess")
        return role

    def _new_gated_model_role(self, cluster: ClusterBase) -> iam.Role:
        role = service_account_role(
            self,
            "GatedModelRole",
            provider=cluster.oidc_provider,
            namespace="*",
            service_account="hyperpod-inference-service-account*",
            description="downloads gated JumpStart models",
            also_trusted=["sagemaker.amazonaws.com"],
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerHyperPodGatedModelAccess")
            ],
        )
        accept_managed_policies(role, BY_NAME, "AmazonSageMakerHyperPodGatedModelAccess")
        return role


def _check(version: str, region: str, gateway: bool) -> None:
    if version not in ADDON_VERSIONS:
        raise ConfigError("version", version, f"a release that is an add-on: {', '.join(ADDON_VERSIONS)}")
    if gateway and version not in WITH_GATEWAY:
        raise ConfigError(
            "version", version, f"a release with the inference gateway: {', '.join(WITH_GATEWAY)}"
        )
    if not cdk.Token.is_unresolved(region) and region not in REGIONS:
        raise ConfigError(
            "region",
            region,
            f"a Region that has the operator's images: {', '.join(REGIONS)}; or serving: selfhosted",
        )
