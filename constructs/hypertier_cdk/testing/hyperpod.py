"""HyperPod clusters, as large as the account's quotas let them be."""

from __future__ import annotations

from collections.abc import Mapping

from hypertier.errors import ConfigError, DeploymentError
from hypertier.planning import quotas
from hypertier.planning.quotas import Nodes
from hypertier_cdk.review.quotas import nodes_of
from hypertier_cdk.testing.providers import Made, Resource
from hypertier_cdk.testing.shapes import SHAPES, ShapeProvider

CLUSTER = "AWS::SageMaker::Cluster"
KINDS = (f" for {quotas.ON_DEMAND}", f" for {quotas.SPOT}")
FORM = "names as Service Quotas has them, such as ml.g5.xlarge for cluster usage"
OF_NODES = (quotas.ONE_CLUSTER, quotas.ALL_CLUSTERS, quotas.ALL_SPOT)


class Clusters(ShapeProvider):
    """Clusters with no more nodes than `limits` allow, by the quota's name; others are not limited.

    Making one and changing one fail alike.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateCluster.html (ResourceLimitExceeded)
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        super().__init__(SHAPES[CLUSTER])
        for name in limits:
            if name not in OF_NODES and not name.endswith(KINDS):
                raise ConfigError("quotas", name, FORM)
        self._limits = dict(limits)
        self._clusters: dict[str, list[Nodes]] = {}

    def create(self, resource: Resource) -> Made:
        groups = list(map(nodes_of, resource.properties.get("InstanceGroups", ())))
        wanted = self._clusters | {resource.name: groups}
        for quota in quotas.quotas_of(wanted.values()):
            limit = self._limits.get(quota.name)
            if limit is not None and quota.needed > limit:
                asked = f"the quota {quota.name!r} is {limit}, and {quota.needed} are asked for"
                raise DeploymentError(f"ResourceLimitExceeded: {asked}")
        self._clusters = wanted
        return super().create(resource)

    def delete(self, resource: Resource, made: Made) -> None:
        del self._clusters[resource.name]
