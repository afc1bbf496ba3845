"""The stack that changes most: L2, the endpoints on it, and their scaling."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct, IDependable

from hypertier.errors import ConfigError
from hypertier.spec.cache_tiers import L2
from hypertier.spec.deployment import Deployment
from hypertier.spec.roles import WHOLE
from hypertier.spec.scaling import refuse_hook
from hypertier_cdk import (
    CacheStore,
    CacheUtilizationScaling,
    InferenceEndpoint,
    Network,
)
from hypertier_cdk.adopted_store import AdoptedCacheStore
from hypertier_cdk.charts.exporter import is_exported
from hypertier_cdk.cluster_base import ClusterBase
from infra.controllers import Controllers


class ServingStack(cdk.Stack):
    """Every endpoint of a deployment; those with a Valkey L2 share one store.

    Attributes:
        store: the shared L2, or None where no endpoint wants one, or it exists already.
        scalings: by the endpoint's name, of each kind of its engines that may grow.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        network: Network,
        cluster: ClusterBase,
        operator_ready: IDependable | None,
        controllers: Controllers,
        **options: Any,
    ) -> None:
        super().__init__(scope, construct_id, description=f"{deployment.name}: endpoints", **options)
        selfhosted = deployment.serving == "selfhosted"
        if not selfhosted:
            refuse_hook(
                deployment.scaling,
                WHOLE,
                "with serving: operator endpoints scale by the autoScalingSpec of its manifest",
            )
        # The operator can't hand a password on: there an L2 of one's own stands in the manifest.
        uses_store = [
            selfhosted and endpoint.kv_cache.l2_backend == "redis" for endpoint in deployment.endpoints
        ]
        shared = self._shared_store(deployment.cache.l2, network) if any(uses_store) else None
        self.store = shared if isinstance(shared, CacheStore) else None
        self.endpoints = [
            InferenceEndpoint(
                self,
                f"Endpoint-{endpoint.name}",
                cluster=cluster,
                deployment=deployment,
                endpoint=endpoint,
                cache_store=shared if with_store else None,
                operator_ready=operator_ready,
                keda_ready=controllers.keda_ready,
                load_balancer_controller_ready=controllers.load_balancer_controller_ready,
            )
            for endpoint, with_store in zip(deployment.endpoints, uses_store, strict=True)
        ]
        self.scalings = {
            endpoint.config.name: [
                self._scaling(endpoint, role, deployment, cluster)
                for role in endpoint.deployment_names
                if deployment.scaling.is_stepped(role)
            ]
            for endpoint in self.endpoints
        }

    def _shared_store(self, l2: L2, network: Network) -> CacheStore | AdoptedCacheStore:
        existing = l2.existing
        if existing is not None:
            return CacheStore.from_cache_store_attributes(
                self, "L2", url=existing.url, secret_arn=existing.secret_arn, key_arn=existing.key_arn
            )
        return CacheStore(
            self,
            "L2",
            vpc=network.vpc,
            bandwidth_bytes_per_second=l2.bandwidth_bytes_per_second,
            size_bytes=l2.size_bytes,
            node_family=l2.node_family,
        )

    def _scaling(
        self, endpoint: InferenceEndpoint, role: str, deployment: Deployment, cluster: ClusterBase
    ) -> CacheUtilizationScaling:
        whole, bounds = role == WHOLE, deployment.scaling.bounds(role)
        to_zero = deployment.scaling.sleeps if whole else None
        assert bounds is not None  # what is stepped has some
        if not is_exported(endpoint.config):
            setting = "scaling.max" if whole else f"scaling.{role}.max"
            raise ConfigError(
                f"{endpoint.config.name}: spec.metrics.enabled",
                False,
                f"true, or {setting} {bounds.min} and no schedules: scaling goes by the endpoint's metrics",
            )
        scaling = CacheUtilizationScaling(
            self,
            f"Scaling-{endpoint.config.name}" + ("" if whole else f"-{role}"),
            cluster=cluster,
            endpoint=endpoint.config.name,
            namespace=endpoint.config.namespace,
            deployment=endpoint.deployment_names[role],
            min_replicas=bounds.min,
            max_replicas=bounds.max,
            role=None if whole else role,
            **({"idle_minutes": to_zero.idle_minutes} if to_zero else {}),
            schedules=deployment.scaling.schedules if whole else (),
        )
        scaling.permissions.node.add_dependency(endpoint.workloads)
        return scaling
