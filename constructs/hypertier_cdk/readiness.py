"""The wait for nodes: what is complete once pods could run on a HyperPod cluster."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import custom_resources as cr
from constructs import Construct, IDependable

from hypertier.errors import ConfigError
from hypertier_cdk.assets import package_asset
from hypertier_cdk.manifest import new_manifest
from hypertier_cdk.nag import INTO_A_NETWORK, VPC_POLICY, accept_managed_policies, accept_what_cdk_builds
from hypertier_cdk.network import Network
from hypertier_cdk.plain import resource
from hypertier_cdk.roles import WRITE_LOGS, allow, policies
from hypertier_cdk.security_groups import carry_group_of

KUBERNETES_GROUP = "hypertier-readiness"
MAX_TIMEOUT = cdk.Duration.minutes(55)  # CloudFormation gives a custom resource an hour
INTERVAL = cdk.Duration.seconds(30)
MARGIN_SECONDS = 180


class NodeReadiness(Construct):
    """Complete once so many nodes of each instance group are ready; else fails, and says what is missing.

    HyperPod's own resource is complete before any node exists: with continuous provisioning nodes come one by
    one, as AWS has them. Whatever needs a node to be scheduled on depends on this instead. The functions
    behind it may list nodes and nothing else; they stand `inside` the network where the Kubernetes API is not
    open to all.

    Attributes:
        ready: what to depend on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        eks_cluster: eks.ICluster,
        network: Network,
        inside: bool,
        hyperpod_name: str,
        nodes_by_group: Mapping[str, int],
        timeout: cdk.Duration = MAX_TIMEOUT,
        after: IDependable,
        adopted: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        seconds = timeout.to_seconds()
        if not INTERVAL.to_seconds() <= seconds <= MAX_TIMEOUT.to_seconds():
            raise ConfigError(
                "timeout",
                f"{seconds:g} seconds",
                f"{INTERVAL.to_seconds():g} to {MAX_TIMEOUT.to_seconds():g} seconds: from one look to what "
                "CloudFormation waits for",
            )
        if not nodes_by_group:
            raise ConfigError("nodes_by_group", {}, "one instance group at least")
        log_group = logs.LogGroup(
            self, "Logs", retention=logs.RetentionDays.ONE_MONTH, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="looks whether HyperPod's nodes are ready",
            inline_policies=policies(
                allow("FindCluster", ["eks:DescribeCluster"], [eks_cluster.cluster_arn]),
                allow("Log", WRITE_LOGS, [log_group.log_group_arn]),
            ),
        )
        permissions = self._admit(eks_cluster, role)
        inner = network if inside else None
        functions = self._functions(eks_cluster, inner, role, log_group, adopted=adopted)
        provider = cr.Provider(
            self,
            "Provider",
            on_event_handler=functions["OnEvent"],
            is_complete_handler=functions["IsComplete"],
            query_interval=INTERVAL,
            disable_waiter_state_machine_logging=False,
            waiter_state_machine_log_options=cr.LogOptions(level=sfn.LogLevel.ALL),
            # The function's own deadline comes first, since its message says what is missing.
            total_timeout=cdk.Duration.seconds(seconds + MARGIN_SECONDS),
        )
        accept_what_cdk_builds(provider, "SF2")  # it waits once a deployment: its log says more than a trace
        self.ready: IDependable = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::HypertierNodeReadiness",
            service_token=provider.service_token,
            properties={
                "ClusterName": eks_cluster.cluster_name,
                "HyperPodName": hyperpod_name,
                "Groups": {group: str(count) for group, count in nodes_by_group.items()},
                "TimeoutSeconds": str(int(seconds)),
            },
        )
        self.ready.node.add_dependency(after, *permissions)

    def _functions(
        self,
        eks_cluster: eks.ICluster,
        network: Network | None,
        role: iam.Role,
        log_group: logs.ILogGroup,
        *,
        adopted: bool,
    ) -> dict[str, lambda_.Function]:
        vpc = network.vpc if network else None
        group: ec2.ISecurityGroup | None = None
        if vpc:
            role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name(VPC_POLICY))
            accept_managed_policies(role, INTO_A_NETWORK, VPC_POLICY)
        if vpc and adopted:
            group = carry_group_of(self, eks_cluster)
        elif vpc:
            group = ec2.SecurityGroup(self, "SecurityGroup", vpc=vpc, description="node readiness")
            eks_cluster.connections.allow_default_port_from(group, "node readiness")
        code = lambda_.Code.from_asset(**package_asset("hypertier_lambdas"))
        return {
            name: lambda_.Function(
                self,
                name,
                runtime=lambda_.Runtime.PYTHON_3_14,
                architecture=lambda_.Architecture.ARM_64,
                handler=f"readiness.handler.{function}",
                code=code,
                description="looks whether HyperPod's nodes are ready",
                role=role,
                log_group=log_group,
                timeout=cdk.Duration.seconds(60),
                memory_size=256,
                vpc=vpc,
                vpc_subnets=ec2.SubnetSelection(subnets=list(network.private_subnets)) if network else None,
                security_groups=[group] if group else None,
            )
            for name, function in (("OnEvent", "on_event"), ("IsComplete", "is_complete"))
        }

    def _admit(self, eks_cluster: eks.ICluster, role: iam.Role) -> list[IDependable]:
        """Let the functions' role list nodes, and nothing else in the cluster."""
        entry = resource(
            self,
            "AccessEntry",
            "AWS::EKS::AccessEntry",
            ClusterName=eks_cluster.cluster_name,
            PrincipalArn=role.role_arn,
            KubernetesGroups=[KUBERNETES_GROUP],
        )
        api_group = "rbac.authorization.k8s.io"
        manifest = new_manifest(
            self,
            "Permissions",
            cluster=eks_cluster,
            overwrite=True,
            objects=[
                {
                    "apiVersion": f"{api_group}/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": KUBERNETES_GROUP},
                    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
                },
                {
                    "apiVersion": f"{api_group}/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": KUBERNETES_GROUP},
                    "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": KUBERNETES_GROUP},
                    "subjects": [{"apiGroup": api_group, "kind": "Group", "name": KUBERNETES_GROUP}],
                },
            ],
        )
        return [entry, manifest]
