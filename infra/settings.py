"""Errors of constructs, told in the words of the deployment file that the user wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aws_cdk import region_info

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment

AS_TYPED: Mapping[str, str] = {
    "name": "name",
    "kubernetes_version": "cluster.kubernetesVersion",
    "autoscaling": "cluster.autoscaling",
    "instance_groups": "instanceGroups",
    "availability_zone_id": "instanceGroups.availabilityZoneId",
    "availability_zone_ids": "instanceGroups.availabilityZoneId",
    "memory_percent": "cache.l2.memoryPercent",
    "bandwidth_bytes_per_second": "cache.l2.bandwidth",
    "size_bytes": "cache.l2.size",
    "bandwidth_bytes_per_second, size_bytes": "cache.l2",
    "node_family": "cache.l2.nodeFamily",
    "version": "operator.version",
    "cluster_arn": "cluster.attributes.arn",
    "oidc_provider_arn": "cluster.attributes.oidcProviderArn",
    "private_subnet_ids": "cluster.attributes.privateSubnetIds",
    "registry": "controllers.registry",
    "nvidia_plugin_image": "images.nvidiaDevicePlugin",
    "efa_plugin_image": "images.efaDevicePlugin",
    "health_agent_image": "images.healthAgent",
    "min_replicas": "scaling.min",
    "max_replicas": "scaling.max",
    "idle_minutes": "scaling.toZero.idle",
}
"""A construct's argument -> the deployment file's key that it was made from."""


@contextmanager
def settings_as_typed() -> Iterator[None]:
    """Name a construct's argument in an error as the deployment file does."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(AS_TYPED.get(error.setting, error.setting), error.got, error.expected) from error


def check_region(deployment: Deployment) -> None:
    """Refuse a Region that AWS does not have.

    Raises:
        ConfigError: names it.
    """
    # One question, not the list of all: every answer comes from another process.
    if region_info.RegionInfo.get(deployment.region).partition is None:
        raise ConfigError("region", deployment.region, "a Region of AWS, such as us-west-2")
