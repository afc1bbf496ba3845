"""KEDA and the load balancer controller: pinned, with their roles, and before what needs them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from fakes_charts import deployment, endpoint
from fakes_templates import depends_on, new_stack, resources, synthesize, template_of

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Images, Scaling
from hypertier_cdk import (
    HyperPodCluster,
    InferenceEndpoint,
    InstanceGroup,
    Keda,
    LoadBalancerController,
    Network,
)
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.needs import needs_keda, needs_load_balancer_controller
from hypertier_cdk.charts.objects import endpoint_objects
from hypertier_cdk.controllers import KEDA, LOAD_BALANCER_CONTROLLER
from hypertier_cdk.review.templates import text_of
from hypertier_cdk.testing import Emulator

CHART = "Custom::AWSCDK-EKS-HelmChart"
REGISTRY = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
COPY = f"{REGISTRY}/plugin:1"
SCALED = {
    "spec.autoScalingSpec": {
        "cloudWatchTrigger": {
            "namespace": "Hypertier",
            "metricName": "QueuedRequests",
            "targetValue": 1,
            "dimensions": [{"name": "Endpoint", "value": "llama-70b"}],
        }
    },
}
WITH_TLS = {
    "spec.tlsConfig": {
        "customCertificateConfig": {
            "acmArn": "arn:aws:acm:us-west-2:123456789012:certificate/1",
            "domainName": "llm.example.com",
        }
    }
}
ROUTERS_SCALED = {
    "spec.intelligentRoutingSpec.autoScalingSpec": SCALED["spec.autoScalingSpec"],
}
PLAIN: dict[str, Any] = {}


def cluster_of(stack: cdk.Stack, closed: bool = False) -> HyperPodCluster:
    return HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network", closed=closed),
        kubernetes_version="1.35",
        instance_groups=[InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1)],
        nvidia_plugin_image=COPY,
        name="test",
    )


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    def build(stack: cdk.Stack) -> None:
        cluster = cluster_of(stack)
        Keda(stack, "Keda", cluster=cluster)
        LoadBalancerController(stack, "Balancers", cluster=cluster)

    return synthesize(build)


def release(template: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    (found,) = (
        (key, entry["Properties"])
        for key, entry in resources(template, CHART).items()
        if entry["Properties"]["Release"] == name
    )
    return found


@pytest.mark.parametrize("chart", [KEDA, LOAD_BALANCER_CONTROLLER], ids=lambda chart: chart.name)
def test_a_chart_is_of_a_pinned_version_with_its_images(chart: Any, template: dict[str, Any]) -> None:
    _, properties = release(template, chart.name)

    assert (properties["Version"], properties["Repository"]) == (chart.version, chart.repository)
    values = text_of(properties["Values"])
    assert all(image in values for image in chart.images)
    assert chart.tag in values


@pytest.mark.parametrize("name", ["keda", "aws-load-balancer-controller"])
def test_pods_start_on_a_node_and_with_their_role(name: str, template: dict[str, Any]) -> None:
    logical_id, _ = release(template, name)

    before = {template["Resources"][entry]["Type"] for entry in depends_on(template, logical_id)}

    assert {
        "AWS::EKS::PodIdentityAssociation",
        "AWS::IAM::Policy",
        "Custom::HypertierNodeReadiness",
    } <= before


@pytest.mark.parametrize("made", [Keda, LoadBalancerController])
def test_a_closed_network_is_told_what_to_copy(made: Any) -> None:
    cluster = cluster_of(new_stack(), closed=True)

    with pytest.raises(ConfigError, match=r"registry is not set.*chart .* as charts/.* and .* as "):
        made(cdk.Stack.of(cluster), "Controller", cluster=cluster)


@pytest.mark.parametrize(
    ("made", "name"), [(Keda, "keda"), (LoadBalancerController, "aws-load-balancer-controller")]
)
def test_a_registry_with_copies_serves_chart_and_images(made: Any, name: str) -> None:
    def build(stack: cdk.Stack) -> None:
        made(stack, "Controller", cluster=cluster_of(stack, closed=True), registry=REGISTRY)

    _, properties = release(synthesize(build), name)

    assert properties["Repository"] == f"oci://{REGISTRY}/charts/{name}"
    values = text_of(properties["Values"])
    assert REGISTRY in values
    assert "ghcr.io" not in values
    assert "public.ecr.aws" not in values


@pytest.mark.parametrize("registry", ["docker.io", "", "123.dkr.ecr.us-west-2.amazonaws.com"])
def test_a_registry_that_is_none_of_ecr_s_is_refused(registry: str) -> None:
    stack = new_stack()

    with pytest.raises(ConfigError, match="registry is"):
        Keda(stack, "Keda", cluster=cluster_of(stack), registry=registry)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(PLAIN, id="plain"),
        pytest.param(SCALED, id="engines scaled by triggers"),
        pytest.param(ROUTERS_SCALED, id="routers scaled by triggers"),
        pytest.param({"spec.intelligentRoutingSpec.autoScalingSpec": {}}, id="routers scaled by their CPU"),
        pytest.param(WITH_TLS, id="a certificate"),
    ],
)
def test_what_is_needed_is_what_the_objects_are_of(changes: dict[str, Any]) -> None:
    asked = deployment(changes, scaling=Scaling(min=2, max=2), images=Images(engine=COPY, router=COPY))
    (only,) = asked.endpoints
    objects = endpoint_objects(asked, only, ChartInputs())

    groups = {entry["apiVersion"].partition("/")[0] for entry in objects}
    kinds = {entry["kind"] for entry in objects}

    assert needs_keda(asked, only) == ("keda.sh" in groups)
    assert needs_load_balancer_controller(asked, only) == ("Ingress" in kinds)


def test_the_operator_brings_its_own(reference: Any) -> None:
    asked = replace(deployment(SCALED | WITH_TLS), serving="operator")

    assert not needs_keda(asked, endpoint(SCALED))
    assert not needs_load_balancer_controller(asked, endpoint(WITH_TLS))


def test_endpoints_come_after_their_controllers_and_go_before_them() -> None:
    stack = new_stack()
    cluster = cluster_of(stack)
    asked = deployment(
        SCALED | WITH_TLS, scaling=Scaling(min=2, max=2), images=Images(engine=COPY, router=COPY)
    )
    made = InferenceEndpoint(
        stack,
        "Endpoint",
        cluster=cluster,
        deployment=asked,
        keda_ready=Keda(stack, "Keda", cluster=cluster).ready,
        load_balancer_controller_ready=LoadBalancerController(stack, "Balancers", cluster=cluster).ready,
    )
    template = template_of(stack)
    resource = made.workloads.node.find_child("Resource").node.default_child
    assert isinstance(resource, cdk.CfnResource)

    before = depends_on(template, stack.resolve(resource.logical_id))

    assert {release(template, "keda")[0], release(template, "aws-load-balancer-controller")[0]} <= before


def test_the_emulator_keeps_what_was_installed() -> None:
    stack = cdk.Stack(cdk.App(), "Charts")
    cdk.CfnResource(
        stack,
        "Chart",
        type=CHART,
        properties={
            "ClusterName": "c",
            "Release": "keda",
            "Namespace": "keda",
            "Chart": "keda",
            "Version": "1",
            "Values": json.dumps({"a": 1}),
        },
    )
    app = stack.node.root
    assert isinstance(app, cdk.App)
    emulator = Emulator()

    emulator.deploy(app.synth().directory)
    installed = dict(emulator.releases["c"])
    emulator.destroy()

    assert installed[("keda", "keda")]["values"] == {"a": 1}
    assert emulator.releases["c"] == {}
