"""A deployment's Kubernetes objects; what `hypertier render`, `hypertier lab` and the CDK constructs call."""

from __future__ import annotations

from typing import Any

import cdk8s

from hypertier.spec.deployment import Deployment
from hypertier_cdk.charts.endpoint import EndpointChart, NamespaceChart
from hypertier_cdk.charts.inputs import ChartInputs


def render(deployment: Deployment, inputs: ChartInputs | None = None) -> list[dict[str, Any]]:
    """Return all objects in the order in which they are to be applied.

    Where a value only AWS knows is missing from `inputs` and from the files, a placeholder stands, and the
    workload's annotation `hypertier.dev/placeholders` says how to replace it.

    Raises:
        ConfigError: a setting that cannot work, or would silently be without effect.
    """
    app = cdk8s.App()
    charts: list[cdk8s.Chart] = [NamespaceChart(app, "namespaces", deployment=deployment)]
    for endpoint in deployment.endpoints:
        charts.append(
            EndpointChart(
                app,
                f"{endpoint.namespace}-{endpoint.name}",
                deployment=deployment,
                endpoint=endpoint,
                inputs=inputs,
            )
        )
    return [entry for chart in charts for entry in chart.to_json()]
