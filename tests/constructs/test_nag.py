"""cdk-nag's AwsSolutions rules on every construct: each finding is accepted with a reason, or a fault."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks
from fakes_nag import ACCEPTED, Finding, found_in, unexplained
from fakes_templates import REGION

from hypertier.spec.deployment import load_deployment
from hypertier_cdk import (
    CacheStore,
    CacheUtilizationScaling,
    EndpointAlarms,
    EndpointDashboard,
    HyperPodCluster,
    InferenceEndpoint,
    InferenceOperator,
    InstanceGroup,
    Network,
    Observability,
)

pytestmark = pytest.mark.cli

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> set[Finding]:
    outdir = tmp_path_factory.mktemp("nag")
    app = cdk.App(outdir=str(outdir), builtin_cloud_formation_validation=False)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks())
    stack = cdk.Stack(app, "Everything", env=cdk.Environment(region=REGION))
    network = Network(stack, "Network")
    cluster = HyperPodCluster(
        stack,
        "Cluster",
        network=network,
        kubernetes_version="1.35",
        instance_groups=[
            InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1, volume_gib=100),
            InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=1),
        ],
        autoscaling=True,
        name="everything",
    )
    store = CacheStore(stack, "L2", vpc=network.vpc, bandwidth_bytes_per_second=10**9, size_bytes=2**30)
    store.connections.allow_default_port_from(cluster.node_security_group)
    store.grant_read_secret(cluster.pod_role("Engine", "inference", "engine"))
    InferenceOperator(
        stack, "Operator", cluster=cluster, read_buckets=["weights"], gated_models=True, custom_domains=True
    )
    Observability(stack, "Observability", cluster=cluster)
    deployment = load_deployment(ROOT / "examples" / "reference" / "deployment.yaml")
    endpoint = InferenceEndpoint(
        stack,
        "Endpoint",
        cluster=cluster,
        deployment=deployment,
        cache_store=store,
    )
    assert endpoint.deployment_name is not None
    scaling = CacheUtilizationScaling(
        stack,
        "Scaling",
        cluster=cluster,
        endpoint=endpoint.config.name,
        namespace=endpoint.config.namespace,
        deployment=endpoint.deployment_name,
        min_replicas=1,
        max_replicas=2,
    )
    alarms = EndpointAlarms(
        stack, "Alarms", endpoint=endpoint.config.name, replicas=1, cached=True, scaling=scaling
    )
    EndpointDashboard(
        stack, "Dashboard", endpoint=endpoint.config.name, alarms=alarms.alarms, scaling=scaling
    )
    with pytest.raises(RuntimeError, match="ValidationFailed"):  # its findings are looked at here instead
        app.synth()
    return found_in(outdir / "validation-report.json")


def test_every_finding_has_a_reason_to_be_right(findings: set[Finding]) -> None:
    assert unexplained(findings) == set()


def test_every_reason_is_still_needed(findings: set[Finding]) -> None:
    unused = {
        accepted for accepted in ACCEPTED if not any(finding.is_accepted_by(accepted) for finding in findings)
    }

    assert unused == set()
