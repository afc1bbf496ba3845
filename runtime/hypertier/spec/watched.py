"""What of an endpoint's routers, and of each replica, the exporter publishes where something goes by it."""

from __future__ import annotations

from hypertier.exporter.metrics import CAPTURE_SERIES, QUEUE_SERIES, REPLICA_SERIES, ROUTER_SERIES, Series
from hypertier.spec.capturing import router_capture
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.roles import roles_of, sleeps


def has_queue(deployment: Deployment) -> bool:
    """Whether requests wait in routers, rather than in engines."""
    return deployment.access is not None and deployment.access.queue is not None


def router_series(deployment: Deployment, endpoint: InferenceEndpointConfig) -> tuple[Series, ...]:
    """The series that come from routers; none where nothing needs them, so that nobody pays for them."""
    return (
        *(ROUTER_SERIES if sleeps(deployment, endpoint) is not None else ()),
        *(CAPTURE_SERIES if router_capture(endpoint) is not None else ()),
        *(QUEUE_SERIES if has_queue(deployment) else ()),
    )


def num_replica_metrics(deployment: Deployment, endpoint: InferenceEndpointConfig) -> int:
    """How many metrics there are of single replicas, at most; 0 where nothing asks which is worth least."""
    scaling = deployment.scaling
    stepped = [
        role.component for role in roles_of(deployment, endpoint) if scaling.is_stepped(role.component)
    ]
    counts = [scaling.most(component) for component in stepped]
    return len(REPLICA_SERIES) * sum(count for count in counts if count > 1)  # one alone is not chosen from
