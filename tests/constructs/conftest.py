"""The reference deployment's constructs, synthesized once for all tests of a session."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Before aws_cdk is imported: the template validator has its own test, and costs seconds in every other.
os.environ["CDK_VALIDATION"] = "false"
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
import hypertier_cdk.testing.files  # noqa: F401  # isort: skip  # before what imports aws_cdk, too

from fakes_templates import new_stack, template_of

from hypertier.spec.deployment import Deployment, load_deployment
from hypertier_cdk import CacheStore, HyperPodCluster, Network

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "examples" / "reference" / "deployment.yaml"


@dataclass(frozen=True)
class Reference:
    """A network, a cluster and a store as the reference deployment asks for them, and their template."""

    deployment: Deployment
    network: Network
    cluster: HyperPodCluster
    store: CacheStore
    template: dict[str, Any]


@pytest.fixture(scope="session")
def reference() -> Reference:
    deployment = load_deployment(REFERENCE)
    stack = new_stack("Reference", deployed=True)
    network = Network(
        stack,
        "Network",
        availability_zone_ids=[
            group.availability_zone_id for group in deployment.instance_groups if group.availability_zone_id
        ],
    )
    cluster = HyperPodCluster(
        stack,
        "Cluster",
        network=network,
        kubernetes_version=deployment.cluster.kubernetes_version,
        instance_groups=deployment.instance_groups,
        name=deployment.name,
    )
    store = CacheStore(
        stack,
        "L2",
        vpc=network.vpc,
        bandwidth_bytes_per_second=deployment.cache.l2.bandwidth_bytes_per_second,
        size_bytes=deployment.cache.l2.size_bytes,
    )
    store.connections.allow_default_port_from(cluster.node_security_group)
    engine = cluster.pod_role("EngineRole", "inference", "engine")
    store.grant_read_secret(engine)
    cluster.add_manifest(
        "Namespace", [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inference"}}]
    )
    return Reference(deployment, network, cluster, store, template_of(stack))
