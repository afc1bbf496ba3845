"""EKS add-ons of a HyperPod cluster: what nodes need to join, and what needs nodes to run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, DependencyGroup, IDependable

from hypertier.catalog.addons import AFTER_NODES, BEFORE_NODES, existing_with
from hypertier.errors import ConfigError
from hypertier_cdk.plain import resource

# The CNI leaves NetworkPolicy objects without effect until it is told not to:
# https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html (read 2026-12-01).
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {"vpc-cni": {"enableNetworkPolicy": "true"}}


def new_addon(
    scope: Construct,
    construct_id: str,
    *,
    cluster: eks.ICluster,
    name: str,
    version: str | None = None,
    role: iam.IRole | None = None,
    configuration: Mapping[str, Any] | None = None,
    pod_identity: Mapping[str, iam.IRole] | None = None,
    overwrite: bool = True,
    after: Sequence[IDependable] = (),
) -> cdk.CfnResource:
    """An EKS add-on; without a `version` the one that EKS takes for the cluster's version.

    `role` is for its service account, by the cluster's OIDC provider; `pod_identity` maps service accounts to
    roles, by EKS Pod Identity. `configuration` may hold tokens. Without `overwrite` EKS refuses to take over
    what somebody else has installed.
    """
    properties: dict[str, Any] = {
        "AddonName": name,
        "ClusterName": cluster.cluster_name,
        "ResolveConflicts": "OVERWRITE" if overwrite else "NONE",
    }
    if version:
        properties["AddonVersion"] = version
    if role:
        properties["ServiceAccountRoleArn"] = role.role_arn
    if configuration:
        properties["ConfigurationValues"] = cdk.Stack.of(scope).to_json_string(configuration)
    if pod_identity:
        properties["PodIdentityAssociations"] = [
            {"ServiceAccount": account, "RoleArn": found.role_arn} for account, found in pod_identity.items()
        ]
    addon = resource(scope, construct_id, "AWS::EKS::Addon", **properties)
    if after:
        addon.node.add_dependency(*after)
    return addon


class ClusterAddons(Construct):
    """The add-ons that every HyperPod cluster has, and those that a part asks for, each once.

    `versions` pins an add-on by its name. An `adopted` cluster has those for nodes, and those that are
    `existing`; what it has is left as it is.

    Attributes:
        before_nodes: what the nodes depend on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        versions: Mapping[str, str] | None = None,
        existing: Sequence[str] = (),
        adopted: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self._cluster = cluster
        self._versions = dict(versions or {})
        self._existing = existing_with((*existing, *BEFORE_NODES, *AFTER_NODES) if adopted else existing)
        self._adopted = adopted
        self._nodes_ready: list[IDependable] = []
        self._made: dict[str, cdk.CfnResource] = {}
        self.before_nodes = [] if adopted else [self._add(name) for name in BEFORE_NODES]

    def after_nodes(self, nodes_ready: IDependable) -> list[cdk.CfnResource]:
        """Add what needs nodes; every later add-on depends on `nodes_ready` too."""
        self._nodes_ready = [nodes_ready]
        return [self._add(name) for name in AFTER_NODES if not self.exists(name)]

    def exists(self, name: str) -> bool:
        """Whether the cluster had it before."""
        return name in self._existing

    def refuse_second(self, name: str, instead: str) -> None:
        """Refuse what would be made beside what the cluster has.

        Raises:
            ConfigError: the add-on of that name exists; says what to do `instead`.
        """
        if self.exists(name):
            raise ConfigError("existing_addons", sorted(self._existing), f"none called {name}, or {instead}")

    def add(
        self,
        name: str,
        *,
        role: iam.IRole | None = None,
        configuration: Mapping[str, Any] | None = None,
        after: Sequence[IDependable] = (),
    ) -> IDependable:
        """The add-on of that name, made when it is asked for the first time; nothing where it exists."""
        if self.exists(name):
            return DependencyGroup()
        return self._made.get(name) or self._add(name, role=role, configuration=configuration, after=after)

    def _add(
        self,
        name: str,
        *,
        role: iam.IRole | None = None,
        configuration: Mapping[str, Any] | None = None,
        after: Sequence[IDependable] = (),
    ) -> cdk.CfnResource:
        self._made[name] = new_addon(
            self,
            name,
            cluster=self._cluster,
            name=name,
            version=self._versions.get(name),
            role=role,
            configuration=configuration or CONFIGURATIONS.get(name),
            overwrite=not self._adopted,
            after=[*self._nodes_ready, *after],
        )
        return self._made[name]
