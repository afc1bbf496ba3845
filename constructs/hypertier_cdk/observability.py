"""Metrics of nodes and GPUs: AWS's observability add-on for HyperPod, and the workspace that it writes to."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_aps as aps
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from hypertier.catalog.addons import OBSERVABILITY
from hypertier.errors import ConfigError
from hypertier_cdk.addons import new_addon
from hypertier_cdk.arguments import checked
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.forms import AddonVersion
from hypertier_cdk.nag import accept_wildcards
from hypertier_cdk.roles import WRITE_LOGS, allow, policies

SERVICE_ACCOUNT = "hyperpod-observability-operator-otel-collector"
CATEGORIES = (
    "acceleratedComputeMetrics",
    "customMetrics",
    "inferenceMetrics",
    "networkMetrics",
    "nodeMetrics",
    "scalingMetrics",
    "taskGovernanceMetrics",
    "trainingMetrics",
)
LEVELS = ("BASIC", "ADVANCED")
DEFAULT_METRICS = {
    "acceleratedComputeMetrics": "BASIC",
    "customMetrics": "BASIC",
    "inferenceMetrics": "BASIC",
    "nodeMetrics": "BASIC",
}
SCRAPE_SECONDS = 30


class Observability(Construct):
    """The add-on, its role, and an Amazon Managed Prometheus workspace of its own, under a key of its own.

    `metrics` maps the add-on's categories to BASIC or ADVANCED; what is not named is off. It comes after the
    first nodes, since its collector needs one.

    Attributes:
        workspace: the Prometheus workspace.
        resource: the add-on.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: ClusterBase,
        metrics: Mapping[str, str] | None = None,
        logs: bool = True,
        addon_version: AddonVersion | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        chosen = dict(DEFAULT_METRICS if metrics is None else metrics)
        for category, level in chosen.items():
            if category not in CATEGORIES:
                raise ConfigError("metrics", category, " or ".join(CATEGORIES))
            if level not in LEVELS:
                raise ConfigError(f"metrics.{category}", level, " or ".join(LEVELS))
        cluster.addons.refuse_second(OBSERVABILITY, "no Observability: the cluster's own collects")
        cluster.network.reach("observability")
        stack = cdk.Stack.of(self)
        self.key = kms.Key(self, "Key", description="metrics of HyperPod", enable_key_rotation=True)
        self.workspace = aps.CfnWorkspace(
            self, "Workspace", alias=cluster.cluster_name, kms_key_arn=self.key.key_arn
        )
        groups = (
            f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:/aws/sagemaker/Clusters/*"
        )
        write_logs = allow(
            "Logs",
            [*WRITE_LOGS, "logs:CreateLogGroup", "logs:DescribeLogGroups", "logs:DescribeLogStreams"],
            [groups],
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.SessionTagsPrincipal(
                iam.ServicePrincipal(
                    "pods.eks.amazonaws.com",
                    conditions={
                        "StringEquals": {"aws:SourceAccount": stack.account},
                        "ArnEquals": {"aws:SourceArn": cluster.eks_cluster.cluster_arn},
                    },
                )
            ),
            description="collector of HyperPod's metrics",
            inline_policies=policies(
                allow("Write", ["aps:RemoteWrite"], [self.workspace.attr_arn]),
                *([write_logs] if logs else []),
            ),
        )
        if logs:
            accept_wildcards(self.role, "HyperPod names the groups by ids of its own", groups)
        self.resource = new_addon(
            self,
            "Addon",
            cluster=cluster.eks_cluster,
            name=OBSERVABILITY,
            version=addon_version,
            configuration={
                "ampWorkspace": {
                    "prometheusEndpoint": self.workspace.attr_prometheus_endpoint,
                    "arn": self.workspace.attr_arn,
                },
                "metricsProvider": {
                    category: {"level": level, "scrapeInterval": SCRAPE_SECONDS}
                    for category, level in sorted(chosen.items())
                },
                "logging": {"enabled": logs},
            },
            pod_identity={SERVICE_ACCOUNT: self.role},
            overwrite=cluster.adopted is None,
            after=[cluster.nodes_ready, *cluster.addons.before_nodes, self.role],
        )
