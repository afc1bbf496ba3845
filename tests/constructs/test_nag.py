"""cdk-nag's AwsSolutions rules on a stack that holds every construct: nothing is left to suppress."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks
from fakes_nag import Finding, found_in
from fakes_templates import REGION

from hypertier.spec.deployment import load_deployment
from hypertier.spec.instance_group import Volume
from hypertier.spec.lifecycle import LifecycleScript
from hypertier_cdk import (
    CacheStore,
    CacheUtilizationScaling,
    EndpointAlarms,
    EndpointDashboard,
    HyperPodCluster,
    InferenceEndpoint,
    InferenceOperator,
    InstanceGroup,
    Keda,
    LoadBalancerController,
    Network,
    Observability,
)

pytestmark = pytest.mark.cli

ROOT = Path(__file__).parents[2]
IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/plugin:1"


@pytest.mark.parametrize(
    "closed", [pytest.param(False, id="an open network"), pytest.param(True, id="a closed one")]
)
@pytest.mark.parametrize(
    "region", [pytest.param(REGION, id="a Region"), pytest.param(None, id="no Region yet")]
)
def test_every_construct_is_clean_in_a_stack_of_anybody_s(
    closed: bool, region: str | None, tmp_path: Path
) -> None:
    # What is wrong by intent shows that the rules ran.
    findings = findings_of(tmp_path, closed, region)

    assert findings == {Finding("SQS4", "", "Everything/Planted/Resource")}


def findings_of(outdir: Path, closed: bool, region: str | None) -> set[Finding]:
    app = cdk.App(outdir=str(outdir), builtin_cloud_formation_validation=False)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks())
    stack = cdk.Stack(app, "Everything", env=cdk.Environment(region=region))
    dead_letters = sqs.DeadLetterQueue(
        max_receive_count=1, queue=sqs.Queue(stack, "Letters", enforce_ssl=True)
    )
    sqs.Queue(stack, "Planted", dead_letter_queue=dead_letters)
    everything(stack, closed)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    return found_in(outdir / "validation-report.json")


def everything(stack: cdk.Stack, closed: bool) -> None:
    network = Network(stack, "Network", closed=closed)
    cluster = HyperPodCluster(
        stack,
        "Cluster",
        network=network,
        kubernetes_version="1.35",
        instance_groups=[
            InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1, volume=Volume(size="100Gi")),
            InstanceGroup(
                name="gpu",
                instance_type="ml.p5.48xlarge",
                count=1,
                lifecycle=LifecycleScript(source=str(ROOT / "scripts" / "setup.sh")),
            ),
        ],
        autoscaling=True,
        nvidia_plugin_image=IMAGE,
        efa_plugin_image=IMAGE,
        health_agent_image=IMAGE,
        name="everything",
    )
    store = CacheStore(stack, "L2", vpc=network.vpc, bandwidth_bytes_per_second=10**9, size_bytes=2**30)
    store.connections.allow_default_port_from(cluster.node_security_group)
    store.grant_read_secret(cluster.pod_role("Engine", "inference", "engine"))
    InferenceOperator(
        stack,
        "Operator",
        cluster=cluster,
        read_buckets=["weights"],
        gated_models=True,
        custom_domains=True,
        gateway=True,
    )
    Observability(stack, "Observability", cluster=cluster)
    registry = IMAGE.partition("/")[0]
    Keda(stack, "Keda", cluster=cluster, registry=registry)
    LoadBalancerController(stack, "Balancers", cluster=cluster, registry=registry)
    deployment = load_deployment(ROOT / "examples" / "reference" / "deployment.yaml")
    endpoint = InferenceEndpoint(
        stack,
        "Endpoint",
        cluster=cluster,
        deployment=deployment,
        cache_store=store,
    )
    scaling = CacheUtilizationScaling(
        stack,
        "Scaling",
        cluster=cluster,
        endpoint=endpoint.config.name,
        namespace=endpoint.config.namespace,
        deployment=endpoint.deployment_names["engine"],
        min_replicas=1,
        max_replicas=2,
    )
    alarms = EndpointAlarms(
        stack, "Alarms", endpoint=endpoint.config.name, replicas=1, cached=True, scalings=[scaling]
    )
    EndpointDashboard(
        stack, "Dashboard", endpoint=endpoint.config.name, alarms=alarms.alarms, scalings=[scaling]
    )
