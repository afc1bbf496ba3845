"""What an endpoint's own objects need in the cluster: KEDA, and the AWS Load Balancer Controller.

Helm charts of the versions that AWS's own chart of its inference operator (2.6.1) brings, installed by the
CDK's function that applies manifests, each with a role by EKS Pod Identity.
https://github.com/aws/sagemaker-hyperpod-cli/tree/main/helm_chart/HyperPodHelmChart/charts/inference-operator
(read 2026-12-01)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from hypertier.errors import ConfigError
from hypertier.spec.deployment import REGISTRY, REGISTRY_FORM
from hypertier_cdk.arguments import checked
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.load_balancer_policy import load_balancer_statements, wildcards_of_load_balancers
from hypertier_cdk.nag import accept_wildcards

INSTALL_TIMEOUT = cdk.Duration.minutes(10)  # the function behind it lives 15 minutes


@dataclass(frozen=True, slots=True)
class Chart:
    """A Helm chart of `version` in `repository`, and the images that its pods run, by their names there."""

    name: str
    version: str
    repository: str
    registry: str
    images: tuple[str, ...]
    tag: str

    def source(self, registry: str | None) -> str:
        """Where Helm takes it from: its own repository, or `charts/NAME` in a registry with a copy."""
        return self.repository if registry is None else f"oci://{registry}/charts/{self.name}"

    @property
    def to_copy(self) -> str:
        """What a registry must hold, in words."""
        images = ", ".join(f"{self.registry}/{image}:{self.tag} as {image}" for image in self.images)
        return f"chart {self.name} {self.version} of {self.repository} as charts/{self.name}, and {images}"


KEDA = Chart(
    name="keda",
    version="2.17.1",
    repository="https://kedacore.github.io/charts",
    registry="ghcr.io",
    images=("kedacore/keda", "kedacore/keda-metrics-apiserver", "kedacore/keda-admission-webhooks"),
    tag="2.17.1",
)
LOAD_BALANCER_CONTROLLER = Chart(
    name="aws-load-balancer-controller",
    version="1.13.2",
    repository="https://aws.github.io/eks-charts",
    registry="public.ecr.aws",
    images=("eks/aws-load-balancer-controller",),
    tag="v2.13.2",
)


class Keda(Construct):
    """KEDA, which scales an endpoint by the triggers of its `autoScalingSpec`.

    Its role may read metrics of CloudWatch, which know no resource, and query the Prometheus workspaces of
    the account. `registry` holds copies of the chart and its images; a closed network needs one.

    Attributes:
        ready: what an endpoint depends on, as `keda_ready`.
        role: the operator's.
    """

    @checked
    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: ClusterBase, registry: str | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        _check_registry(cluster, KEDA, registry)
        cluster.network.reach("keda")
        self.role = cluster.pod_role("Role", "keda", "keda-operator", scope=self)
        let_read_metrics(self.role)
        images = {
            part: {"registry": registry or KEDA.registry, "repository": image, "tag": KEDA.tag}
            for part, image in zip(("keda", "metricsApiServer", "webhooks"), KEDA.images, strict=True)
        }
        self.resource = _install(self, cluster, KEDA, registry, "keda", {"image": images})
        self.ready: IDependable = self.resource


class LoadBalancerController(Construct):
    """The AWS Load Balancer Controller, which makes the load balancer of an endpoint's `tlsConfig`.

    Its role may change what carries the controller's tag. It leaves Services alone: endpoints come by
    Ingress. `registry` holds copies of the chart and its image; a closed network needs one.

    Attributes:
        ready: what an endpoint depends on, as `load_balancer_controller_ready`.
        role: the controller's.
    """

    @checked
    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: ClusterBase, registry: str | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        _check_registry(cluster, LOAD_BALANCER_CONTROLLER, registry)
        cluster.network.reach("load balancers")
        account = LOAD_BALANCER_CONTROLLER.name
        self.role = cluster.pod_role("Role", "kube-system", account, scope=self)
        let_make_load_balancers(self.role, cluster)
        (image,) = LOAD_BALANCER_CONTROLLER.images
        values = {
            "clusterName": cluster.eks_cluster.cluster_name,
            "region": cdk.Stack.of(self).region,
            # Pods are not let in to the metadata service, which would tell it.
            "vpcId": cluster.network.vpc.vpc_id,
            "serviceAccount": {"create": True, "name": account},
            "image": {
                "repository": f"{registry or LOAD_BALANCER_CONTROLLER.registry}/{image}",
                "tag": LOAD_BALANCER_CONTROLLER.tag,
            },
            # A webhook for every Service of the cluster, which fails while the controller is away.
            "enableServiceMutatorWebhook": False,
            # What no Ingress of ours asks for, and no endpoint of a closed network reaches.
            "enableShield": False,
            "enableWaf": False,
            "enableWafv2": False,
        }
        self.resource = _install(self, cluster, LOAD_BALANCER_CONTROLLER, registry, "kube-system", values)
        self.ready: IDependable = self.resource


def let_read_metrics(role: iam.Role) -> None:
    """What KEDA's triggers read."""
    stack = cdk.Stack.of(role)
    workspaces = stack.format_arn(service="aps", resource="workspace", resource_name="*")
    accept_wildcards(role, "CloudWatch's read calls know no resource", "*")
    accept_wildcards(role, "the manifest names the workspace, at run time", workspaces)
    role.add_to_policy(
        iam.PolicyStatement(
            sid="CloudWatch",  # its read calls know no resource
            actions=["cloudwatch:GetMetricData", "cloudwatch:GetMetricStatistics", "cloudwatch:ListMetrics"],
            resources=["*"],
        )
    )
    role.add_to_policy(
        iam.PolicyStatement(
            sid="Prometheus",
            actions=["aps:GetLabels", "aps:GetMetricMetadata", "aps:GetSeries", "aps:QueryMetrics"],
            resources=[workspaces],
        )
    )


def let_make_load_balancers(role: iam.Role, cluster: ClusterBase) -> None:
    """What the AWS Load Balancer Controller does."""
    stack = cdk.Stack.of(role)
    vpc_arn = stack.format_arn(service="ec2", resource="vpc", resource_name=cluster.network.vpc.vpc_id)
    for statement in load_balancer_statements(stack.partition, stack.region, stack.account, vpc_arn):
        role.add_to_policy(iam.PolicyStatement.from_json(statement))
    accept_wildcards(
        role,
        "made at run time, and tags narrow it; Describe calls know no resource",
        *wildcards_of_load_balancers(stack.partition, stack.region, stack.account),
    )


def _check_registry(cluster: ClusterBase, chart: Chart, registry: str | None) -> None:
    if registry is None:
        cluster.network.refuse_internet(
            "registry", None, f"an Amazon ECR registry that holds {chart.to_copy}"
        )
    elif not cdk.Token.is_unresolved(registry) and not REGISTRY.fullmatch(registry):
        raise ConfigError("registry", registry, REGISTRY_FORM)


def _install(
    scope: Construct,
    cluster: ClusterBase,
    chart: Chart,
    registry: str | None,
    namespace: str,
    values: Mapping[str, Any],
) -> eks.HelmChart:
    release = eks.HelmChart(
        scope,
        "Chart",
        cluster=cluster.eks_cluster,
        release=chart.name,
        chart=chart.name,
        repository=chart.source(registry),
        version=chart.version,
        namespace=namespace,
        create_namespace=namespace != "kube-system",
        values=dict(values),
        wait=True,
        timeout=INSTALL_TIMEOUT,
    )
    # Pods get their role when they start, and they start on a node.
    role = scope.node.find_child("Role")
    release.node.add_dependency(cluster.nodes_ready, role)
    return release
