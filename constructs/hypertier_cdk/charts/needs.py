"""Which controllers must be in the cluster for an endpoint's objects to do anything."""

from __future__ import annotations

from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.roles import roles_of
from hypertier_cdk.charts.autoscaling import router_spec, triggers_of


def needs_keda(deployment: Deployment, endpoint: InferenceEndpointConfig) -> bool:
    """Whether KEDA scales the endpoint's engines or routers; the operator asks its own KEDA."""
    if deployment.serving != "selfhosted":
        return False
    router = router_spec(endpoint)
    engines = [role.endpoint.spec.auto_scaling_spec for role in roles_of(deployment, endpoint)]
    return any(spec is not None for spec in engines) or bool(router and triggers_of(router))


def needs_load_balancer_controller(deployment: Deployment, endpoint: InferenceEndpointConfig) -> bool:
    """Whether an Ingress stands before the endpoint; the operator makes its own."""
    return deployment.serving == "selfhosted" and endpoint.spec.tls_config is not None
