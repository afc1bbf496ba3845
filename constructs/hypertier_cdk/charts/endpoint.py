"""An endpoint as a cdk8s chart, for `cluster.add_cdk8s_chart` or a cdk8s app of one's own."""

from __future__ import annotations

from collections.abc import Sequence

import cdk8s
from constructs import Construct

from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier_cdk.arguments import checked
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.objects import endpoint_objects, namespace_objects
from hypertier_cdk.charts.pods import Object


class ObjectChart(cdk8s.Chart):
    """A chart of ready-made objects; `to_json` gives them back in their order."""

    def __init__(self, scope: Construct, construct_id: str, objects: Sequence[Object]) -> None:
        super().__init__(scope, construct_id, disable_resource_name_hashes=True)
        previous: cdk8s.ApiObject | None = None
        for entry in objects:
            meta = entry["metadata"]
            child = cdk8s.ApiObject(
                self,
                "-".join(filter(None, (entry["kind"], meta.get("namespace"), meta["name"]))),
                api_version=entry["apiVersion"],
                kind=entry["kind"],
            )
            # Python's ApiObject takes no spec: everything but the type is patched in
            child.add_json_patch(
                *(
                    cdk8s.JsonPatch.add(f"/{key}", value)
                    for key, value in entry.items()
                    if key not in ("apiVersion", "kind")
                )
            )
            if previous is not None:
                child.add_dependency(previous)
            previous = child


class NamespaceChart(ObjectChart):
    """The namespaces of a deployment's endpoints."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id, namespace_objects(deployment))


class EndpointChart(ObjectChart):
    """One endpoint: engines, router, exporter and their policies, or the resource for AWS's operator.

    `inputs` carries what AWS gives, CDK tokens among it; without it, files and placeholders are used.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        endpoint: InferenceEndpointConfig,
        inputs: ChartInputs | None = None,
    ) -> None:
        objects = endpoint_objects(deployment, endpoint, inputs or ChartInputs())
        super().__init__(scope, construct_id, objects)
