"""KEDA and the load balancer controller, where an endpoint of the deployment needs them."""

from __future__ import annotations

from dataclasses import dataclass

from constructs import Construct, IDependable

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier_cdk import Keda, LoadBalancerController
from hypertier_cdk.charts.needs import needs_keda, needs_load_balancer_controller
from hypertier_cdk.cluster_base import ClusterBase


@dataclass(frozen=True, slots=True)
class Controllers:
    """What endpoints wait for; None where none of them needs it."""

    keda_ready: IDependable | None = None
    load_balancer_controller_ready: IDependable | None = None


def add_controllers(scope: Construct, deployment: Deployment, cluster: ClusterBase) -> Controllers:
    """Install what endpoints need and the deployment does not say is there.

    Raises:
        ConfigError: a cluster that exists already, where it must be said whether a controller does too.
    """
    asked = deployment.controllers
    registry = asked.registry
    with_keda = [endpoint.name for endpoint in deployment.endpoints if needs_keda(deployment, endpoint)]
    with_ingress = [
        endpoint.name
        for endpoint in deployment.endpoints
        if needs_load_balancer_controller(deployment, endpoint)
    ]
    keda: IDependable | None = None
    if with_keda:
        keda = cluster.nodes_ready
        if _is_to_install(deployment, "controllers.keda", asked.keda, with_keda):
            keda = Keda(scope, "Keda", cluster=cluster, registry=registry).ready
    balancers: IDependable | None = None
    if with_ingress:
        balancers = cluster.nodes_ready
        if _is_to_install(deployment, "controllers.loadBalancer", asked.load_balancer, with_ingress):
            balancers = LoadBalancerController(
                scope, "LoadBalancers", cluster=cluster, registry=registry
            ).ready
    return Controllers(keda, balancers)


def _is_to_install(deployment: Deployment, setting: str, asked: str | None, needed_by: list[str]) -> bool:
    if asked is None and deployment.cluster.existing_eks is not None:
        raise ConfigError(
            setting,
            None,
            f"existing, or install where the cluster {deployment.cluster.existing_eks} has none: "
            f"{', '.join(needed_by)} need it, and two of them would fight",
        )
    return asked != "existing"
