"""AWS's inference operator, where the deployment is served by it and the cluster has none."""

from __future__ import annotations

from constructs import Construct, IDependable

from hypertier.catalog.addons import INFERENCE_OPERATOR
from hypertier.spec.deployment import Deployment
from hypertier_cdk import InferenceOperator
from hypertier_cdk.cluster_base import ClusterBase


def add_operator(scope: Construct, deployment: Deployment, cluster: ClusterBase) -> IDependable | None:
    """What endpoints wait for: the operator of the deployment's version, or the one that `cluster` has.

    None with `serving: selfhosted`.
    """
    if deployment.serving != "operator":
        return None
    if cluster.addons.exists(INFERENCE_OPERATOR):
        return cluster.nodes_ready
    sources = [endpoint.spec.model_source_config.s3_storage for endpoint in deployment.endpoints]
    ready: IDependable = InferenceOperator(
        scope,
        "Operator",
        cluster=cluster,
        version=deployment.operator.version,
        read_buckets=list(dict.fromkeys(source.bucket_name for source in sources if source is not None)),
        custom_domains=any(endpoint.spec.tls_config for endpoint in deployment.endpoints),
        keda=deployment.controllers.keda != "existing",
        load_balancer_controller=deployment.controllers.load_balancer != "existing",
        gateway=any(
            endpoint.spec.inference_gateway is not None and endpoint.spec.inference_gateway.enabled
            for endpoint in deployment.endpoints
        ),
    ).ready
    return ready
