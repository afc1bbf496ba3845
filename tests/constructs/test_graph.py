"""The order of everything as a graph: controllers and rights before who needs them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes_charts import deployment
from fakes_templates import depends_on, new_stack, resources, template_of

from hypertier.spec.deployment import Images, Scaling
from hypertier.spec.endpoint import API_GROUP
from hypertier_cdk import (
    CacheStore,
    HyperPodCluster,
    InferenceEndpoint,
    InferenceOperator,
    InstanceGroup,
    Keda,
    LoadBalancerController,
    Network,
    Observability,
)
from hypertier_cdk.review.templates import text_of
from hypertier_cdk.testing.intrinsics import creation_order

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
CHART = "Custom::AWSCDK-EKS-HelmChart"
ADDON = "AWS::EKS::Addon"
CHANGES = {
    "spec.autoScalingSpec": {
        "cloudWatchTrigger": {
            "namespace": "Hypertier",
            "metricName": "QueuedRequests",
            "targetValue": 1,
            "dimensions": [{"name": "Endpoint", "value": "llama-70b"}],
        }
    },
    "spec.tlsConfig": {
        "customCertificateConfig": {
            "acmArn": "arn:aws:acm:us-west-2:123456789012:certificate/1",
            "domainName": "llm.example.com",
        }
    },
}
# What serves the objects of a group that Kubernetes itself does not.
SERVED_BY = {
    "keda.sh": ("Release", "keda"),
    API_GROUP: ("AddonName", "amazon-sagemaker-hyperpod-inference"),
}
KUBERNETES_OWN = ("", "apps", "autoscaling", "networking.k8s.io", "policy", "rbac.authorization.k8s.io")


def built(serving: str) -> dict[str, Any]:
    """A stack of everything, served in that way."""
    stack = new_stack("Graph")
    network = Network(stack, "Network")
    cluster = HyperPodCluster(
        stack,
        "Cluster",
        network=network,
        kubernetes_version="1.35",
        instance_groups=[
            InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1),
            InstanceGroup(
                name="gpu",
                instance_type="ml.p5.48xlarge",
                count=1,
                deep_health_checks=("InstanceStress",),
            ),
        ],
        autoscaling=True,
        name="graph",
    )
    Observability(stack, "Observability", cluster=cluster)
    without_l2 = {"spec.kvCacheSpec": {"enableL1Cache": True}} if serving == "operator" else {}
    asked = deployment(
        CHANGES | without_l2,
        serving=serving,
        scaling=Scaling(min=2, max=2),
        images=Images(engine="r.example/e:1", router="r.example/r:1"),
    )
    if serving == "operator":
        operator = InferenceOperator(stack, "Operator", cluster=cluster, read_buckets=["weights"])
        InferenceEndpoint(stack, "Endpoint", cluster=cluster, deployment=asked, operator_ready=operator.ready)
    else:
        store = CacheStore(stack, "L2", vpc=network.vpc, bandwidth_bytes_per_second=10**9, size_bytes=2**30)
        InferenceEndpoint(
            stack,
            "Endpoint",
            cluster=cluster,
            deployment=asked,
            cache_store=store,
            keda_ready=Keda(stack, "Keda", cluster=cluster).ready,
            load_balancer_controller_ready=LoadBalancerController(stack, "Balancers", cluster=cluster).ready,
        )
    return template_of(stack)


@pytest.fixture(scope="module", params=["selfhosted", "operator"])
def template(request: pytest.FixtureRequest) -> dict[str, Any]:
    return built(request.param)


def objects_of(template: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        logical_id: json.loads(text_of(found["Properties"]["Manifest"]))
        for logical_id, found in resources(template, MANIFEST).items()
    }


def the(template: dict[str, Any], key: str, value: str) -> str:
    """The chart or add-on with that property."""
    (found,) = (
        logical_id
        for kind in (CHART, ADDON)
        for logical_id, resource in resources(template, kind).items()
        if resource["Properties"].get(key) == value
    )
    return found


def test_every_object_comes_after_what_serves_its_kind(template: dict[str, Any]) -> None:
    asked = [
        (logical_id, entry["apiVersion"].rpartition("/")[0])
        for logical_id, objects in objects_of(template).items()
        for entry in objects
    ]
    foreign = {(logical_id, group) for logical_id, group in asked if group not in KUBERNETES_OWN}

    assert foreign
    for logical_id, group in foreign:
        assert the(template, *SERVED_BY[group]) in depends_on(template, logical_id), group


def test_an_ingress_comes_after_its_controller(template: dict[str, Any]) -> None:
    for logical_id, objects in objects_of(template).items():
        if any(entry["kind"] == "Ingress" for entry in objects):
            controller = the(template, "Release", "aws-load-balancer-controller")
            assert controller in depends_on(template, logical_id)


def test_every_chart_and_add_on_comes_after_the_policies_of_its_role(template: dict[str, Any]) -> None:
    policies: dict[str, set[str]] = {}
    for logical_id, policy in resources(template, "AWS::IAM::Policy").items():
        for role in policy["Properties"]["Roles"]:
            policies.setdefault(role["Ref"], set()).add(logical_id)
    checked = 0

    for logical_id in (*resources(template, CHART), *resources(template, ADDON)):
        before = depends_on(template, logical_id)
        direct = set(template["Resources"][logical_id].get("DependsOn", ()))
        used = named_in(template["Resources"][logical_id]["Properties"]) | {
            role
            for association in direct & set(resources(template, "AWS::EKS::PodIdentityAssociation"))
            for role in named_in(template["Resources"][association]["Properties"])
        }
        for role in used & policies.keys():
            checked += 1
            assert policies[role] <= before, (logical_id, role)

    assert checked


def named_in(value: Any) -> set[str]:
    """The logical ids of roles that properties name."""
    if isinstance(value, list):
        return {found for entry in value for found in named_in(entry)}
    if isinstance(value, dict):
        if "Fn::GetAtt" in value:
            return {value["Fn::GetAtt"][0]}
        return {found for entry in value.values() for found in named_in(entry)}
    return set()


def test_what_runs_pods_comes_after_the_first_nodes(template: dict[str, Any]) -> None:
    (waiter,) = resources(template, "Custom::HypertierNodeReadiness")
    before_nodes = {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}

    later = [*resources(template, CHART)] + [
        logical_id
        for logical_id, addon in resources(template, ADDON).items()
        if addon["Properties"]["AddonName"] not in before_nodes
    ]

    assert later
    assert all(waiter in depends_on(template, logical_id) for logical_id in later)


def test_backwards_the_same_graph_takes_the_endpoint_first_and_the_cluster_last(
    template: dict[str, Any],
) -> None:
    order = creation_order(template)
    (cluster,) = resources(template, "AWS::SageMaker::Cluster")
    (eks,) = resources(template, "AWS::EKS::Cluster")
    (workloads,) = (
        logical_id
        for logical_id, objects in objects_of(template).items()
        if {entry["kind"] for entry in objects} & {"Deployment", "InferenceEndpointConfig"}
    )
    deleted = list(reversed(order))

    controllers = [*resources(template, CHART)] or [the(template, *SERVED_BY[API_GROUP])]
    assert max(map(deleted.index, controllers)) < deleted.index(cluster) < deleted.index(eks)
    assert all(deleted.index(workloads) < deleted.index(controller) for controller in controllers)
