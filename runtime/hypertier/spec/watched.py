"""What of an endpoint's routers the exporter publishes, so that something can scale or ring by it."""

from __future__ import annotations

from hypertier.exporter.metrics import CAPTURE_SERIES, ROUTER_SERIES, Series
from hypertier.spec.capturing import router_capture
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.roles import sleeps


def router_series(deployment: Deployment, endpoint: InferenceEndpointConfig) -> tuple[Series, ...]:
    """The series that come from routers; none where nothing needs them, so that nobody pays for them."""
    return (
        *(ROUTER_SERIES if sleeps(deployment, endpoint) is not None else ()),
        *(CAPTURE_SERIES if router_capture(endpoint) is not None else ()),
    )
