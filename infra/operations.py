"""The stack that tells: alarms, where they ring, and dashboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from hypertier.catalog.addons import OBSERVABILITY
from hypertier.spec.capturing import router_capture
from hypertier.spec.deployment import Deployment
from hypertier.spec.roles import WHOLE, least_replicas, roles_of
from hypertier.spec.watched import has_queue
from hypertier_cdk import (
    CacheStore,
    CacheUtilizationScaling,
    EndpointAlarms,
    EndpointDashboard,
    Observability,
)
from hypertier_cdk.charts.exporter import is_exported
from hypertier_cdk.cluster_base import ClusterBase


class OperationsStack(cdk.Stack):
    """Alarms for L2, alarms and a dashboard for each endpoint that hypertier serves; all ring at one topic.

    Attributes:
        topic: subscribe to it whoever is to be woken.
        observability: metrics of nodes and GPUs, in a Prometheus workspace; None on an existing cluster.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        cluster: ClusterBase,
        scalings: Mapping[str, Sequence[CacheUtilizationScaling]],
        store: CacheStore | None,
        **options: Any,
    ) -> None:
        super().__init__(scope, construct_id, description=f"{deployment.name}: operation", **options)
        # An existing cluster has an observability of its owner's.
        others = deployment.cluster.existing is not None or cluster.addons.exists(OBSERVABILITY)
        self.observability = None if others else Observability(self, "Observability", cluster=cluster)
        key = kms.Key(self, "Key", description="what alarms say", enable_key_rotation=True)
        key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],  # of a key's own policy: this key
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        self.topic = sns.Topic(self, "Alarms", master_key=key, enforce_ssl=True)
        ring = actions.SnsAction(self.topic)
        exported = [
            endpoint
            for endpoint in deployment.endpoints
            if deployment.serving == "selfhosted" and is_exported(endpoint)
        ]
        verify = deployment.verify
        least = [
            {role.component: least_replicas(deployment, role) for role in roles_of(deployment, endpoint)}
            for endpoint in exported
        ]
        self.alarms = [
            EndpointAlarms(
                self,
                f"Alarms-{endpoint.name}",
                endpoint=endpoint.name,
                replicas=by_role.get(WHOLE, by_role),
                cached=endpoint.kv_cache.l1_enabled or endpoint.kv_cache.l2_enabled,
                scalings=scalings.get(endpoint.name, ()),
                verify_minutes=verify.every_minutes if verify is not None else None,
                captured=router_capture(endpoint) is not None,
            )
            for endpoint, by_role in zip(exported, least, strict=True)
        ]
        self.store_alarms = store.add_alarms(Construct(self, "L2")) if store is not None else []
        for alarm in self.store_alarms:
            alarm.add_alarm_action(ring)
            alarm.add_ok_action(ring)
        for endpoint, by_role, alarms in zip(exported, least, self.alarms, strict=True):
            alarms.notify(ring)
            EndpointDashboard(
                self,
                f"Dashboard-{endpoint.name}",
                endpoint=endpoint.name,
                alarms=alarms.alarms,
                roles=[role for role in by_role if role != WHOLE],
                store=store if endpoint.kv_cache.l2_backend == "redis" else None,
                scalings=scalings.get(endpoint.name, ()),
                verified=verify is not None,
                captured=router_capture(endpoint) is not None,
                queued=has_queue(deployment),
            )
