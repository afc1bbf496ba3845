"""`pdSpec`: engines of two kinds that find each other, and a router that knows which is which."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes_charts import SPLIT, deployment
from kubernetes_gate import amount

from hypertier.errors import ConfigError
from hypertier.planning.plan import plan_deployment
from hypertier.spec.deployment import Deployment, Disaggregation, Scaling
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.scaling import Bounds
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.objects import endpoint_objects

PD = "spec.pdSpec"
GROUP = "sagemaker.amazonaws.com/instance-group-name"
EFA = "vpc.amazonaws.com/efa"
TRIGGER = {
    "namespace": "Hypertier",
    "metricName": "QueuedRequests",
    "dimensions": [{"name": "Endpoint", "value": "llama-70b"}],
    "targetValue": 4,
}
Objects = dict[tuple[str, str], dict[str, Any]]


def objects_of(wanted: Deployment) -> Objects:
    objects = endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())
    return {(entry["kind"], entry["metadata"]["name"].removeprefix("llama-70b-")): entry for entry in objects}


def split(changes: dict[str, Any] | None = None, **fields: Any) -> Objects:
    return objects_of(deployment({PD: SPLIT, **(changes or {})}, **{"scaling": Scaling(), **fields}))


def pod(objects: Objects, component: str) -> dict[str, Any]:
    found: dict[str, Any] = objects["Deployment", component]["spec"]["template"]["spec"]
    return found


def arguments(objects: Objects, component: str) -> list[str]:
    found: list[str] = pod(objects, component)["containers"][0]["args"]
    return found


def transfer(objects: Objects, component: str) -> dict[str, Any]:
    words = arguments(objects, component)
    config: dict[str, Any] = json.loads(words[words.index("--kv-transfer-config") + 1])
    return config


def test_each_kind_of_engine_has_workload_service_and_budget_of_its_own_and_no_third_is_there() -> None:
    objects = split()

    assert {name for kind, name in objects if kind == "Deployment"} == {
        "prefill",
        "decode",
        "router",
        "exporter",
    }
    for component, replicas in (("prefill", 2), ("decode", 5)):
        assert objects["Deployment", component]["spec"]["replicas"] == replicas
        labels = objects["Deployment", component]["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == component
        for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
            assert (kind, component) in objects
    assert ("Service", "engine") not in objects


@pytest.mark.parametrize(
    ("option", "component"), [("--prefill-discover", "prefill"), ("--discover", "decode")]
)
def test_the_exporter_finds_each_kind_by_its_own_name_and_may_read_it(option: str, component: str) -> None:
    objects = split()

    words = arguments(objects, "exporter")
    selector = objects["Service", component]["spec"]["selector"]

    assert words[words.index(option) + 1] == f"dns://llama-70b-{component}.inference.svc.cluster.local:8000"
    assert objects["Service", component]["spec"]["clusterIP"] == "None"
    labels = objects["Deployment", component]["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= selector.items()
    exporter = {"podSelector": {"matchLabels": {**selector, "app.kubernetes.io/component": "exporter"}}}
    to_kind = {"podSelector": {"matchLabels": selector}}
    assert any(exporter in rule["from"] for rule in objects["NetworkPolicy", component]["spec"]["ingress"])
    assert any(to_kind in rule["to"] for rule in objects["NetworkPolicy", "exporter"]["spec"]["egress"])


def test_an_exporter_of_engines_of_one_kind_knows_no_roles() -> None:
    assert "--prefill-discover" not in arguments(objects_of(deployment()), "exporter")


def test_routers_ask_decoders_and_know_who_prefills_prompts_of_how_many_tokens() -> None:
    words = arguments(split({f"{PD}.routingThreshold": 8192}), "router")

    assert words[words.index("--discover") + 1] == "k8s://inference/llama-70b-decode:8000"
    assert words[words.index("--prefill-discover") + 1] == "k8s://inference/llama-70b-prefill:8000"
    assert words[words.index("--prefill-threshold") + 1] == "8191"  # more than this is as many or more


@pytest.mark.parametrize(("written", "flag"), [(None, "4095"), (0, "0"), (1, "0")])
def test_a_threshold_of_zero_splits_every_prompt(written: int | None, flag: str) -> None:
    words = arguments(split({f"{PD}.routingThreshold": written}), "router")

    assert words[words.index("--prefill-threshold") + 1] == flag


def test_one_kind_gives_kv_cache_and_the_other_takes_it_both_beside_their_tiers() -> None:
    objects = split()

    for component, role in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        nixl, tiers = transfer(objects, component)["kv_connector_extra_config"]["connectors"]
        assert (nixl["kv_connector"], nixl["kv_role"]) == ("NixlConnector", role)
        assert tiers["kv_connector"] == "OffloadingConnector"


def test_arguments_and_resources_of_a_kind_stand_in_place_of_the_worker_s() -> None:
    half = {"limits": {"nvidia.com/gpu": 4, "memory": "400Gi"}, "requests": {"cpu": "40", "memory": "400Gi"}}
    side = {"args": ["--tensor-parallel-size", "4"], "resources": half}

    objects = split({f"{PD}.prefillSpec": side})

    words = arguments(objects, "prefill")
    assert words.index("8") < words.index("4"), "the last one wins"
    asked = pod(objects, "prefill")["containers"][0]["resources"]["limits"]
    assert (asked["nvidia.com/gpu"], asked[EFA]) == (4, 16)
    assert amount(asked["memory"]) < amount("500Gi")
    assert pod(objects, "decode")["containers"][0]["resources"]["limits"][EFA] == 32


def test_engines_reach_one_another_and_nobody_else_does() -> None:
    objects = split()

    for component in ("prefill", "decode"):
        policy = objects["NetworkPolicy", component]["spec"]
        for rules, direction in ((policy["ingress"], "from"), (policy["egress"], "to")):
            (rule,) = [rule for rule in rules if {"protocol": "TCP", "port": 5600} in rule["ports"]]
            found = [
                peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in rule[direction]
            ]
            assert found == ["prefill", "decode"]


def test_a_rank_of_data_parallel_engines_has_a_side_channel_of_its_own() -> None:
    objects = split({f"{PD}.prefillSpec.args": ["--tensor-parallel-size=4", "--data-parallel-size=2"]})

    ports = [port["containerPort"] for port in pod(objects, "prefill")["containers"][0]["ports"]]
    egress = objects["NetworkPolicy", "decode"]["spec"]["egress"]

    assert ports == [8000, 5600, 5601]
    assert any({"protocol": "TCP", "port": 5601} in rule["ports"] for rule in egress)


def test_by_ucx_engines_may_talk_on_any_port_and_efa_is_not_forced() -> None:
    objects = split(disaggregation=Disaggregation(backend="UCX"))

    nixl = transfer(objects, "decode")["kv_connector_extra_config"]["connectors"][0]
    names = {entry["name"] for entry in pod(objects, "decode")["containers"][0]["env"]}

    assert nixl["kv_connector_extra_config"] == {"backends": ["UCX"]}
    assert "FI_PROVIDER" not in names
    assert any("ports" not in rule for rule in objects["NetworkPolicy", "decode"]["spec"]["ingress"])


def test_the_side_channel_is_the_pod_s_own_address() -> None:
    env = {entry["name"]: entry for entry in pod(split(), "prefill")["containers"][0]["env"]}

    assert env["VLLM_NIXL_SIDE_CHANNEL_HOST"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"]["value"] == "5600"


def test_with_kvaware_those_that_decode_publish_and_the_others_do_not() -> None:
    objects = split({"spec.intelligentRoutingSpec.routingStrategy": "kvaware"})

    assert "--kv-events-config" in arguments(objects, "decode")
    assert "--kv-events-config" not in arguments(objects, "prefill")


def test_both_kinds_share_a_zone_unless_the_manifest_says_otherwise() -> None:
    terms = pod(split(), "decode")["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    named = split({f"{PD}.topologySpec": {"sameAZ": False, "availabilityZone": "us-west-2b"}})

    (term,) = terms
    assert term["topologyKey"] == "topology.kubernetes.io/zone"
    assert "affinity" not in pod(named, "decode")
    assert pod(named, "prefill")["nodeSelector"]["topology.kubernetes.io/zone"] == "us-west-2b"


def test_a_node_selector_chooses_the_instance_group() -> None:
    groups = (
        InstanceGroup(name="long", instance_type="ml.p5.48xlarge", count=2),
        InstanceGroup(name="short", instance_type="ml.p5.48xlarge", count=5),
    )
    objects = split(
        {f"{PD}.decodingSpec.nodeSelector": {GROUP: "short", "tier": "hot"}}, instance_groups=groups
    )

    assert pod(objects, "prefill")["nodeSelector"] == {GROUP: "long"}
    assert pod(objects, "decode")["nodeSelector"] == {GROUP: "short", "tier": "hot"}


def test_a_node_selector_chooses_the_instance_group_by_the_labels_that_it_has() -> None:
    groups = (
        InstanceGroup(name="long", instance_type="ml.p5.48xlarge", count=2, labels={"tier": "cold"}),
        InstanceGroup(name="short", instance_type="ml.p5.48xlarge", count=5, labels={"tier": "hot"}),
    )
    objects = split({f"{PD}.decodingSpec.nodeSelector": {"tier": "hot"}}, instance_groups=groups)

    assert pod(objects, "decode")["nodeSelector"] == {GROUP: "short", "tier": "hot"}


def test_each_kind_scales_by_its_own_triggers() -> None:
    objects = split({f"{PD}.autoScalingSpec": {"decodingAutoScaling": {"cloudWatchTrigger": TRIGGER}}})

    assert objects["ScaledObject", "decode"]["spec"]["scaleTargetRef"]["name"] == "llama-70b-decode"
    assert ("ScaledObject", "prefill") not in objects
    assert "replicas" not in objects["Deployment", "decode"]["spec"]


def test_one_kind_scales_by_keda_and_the_other_by_the_hook() -> None:
    keda = {f"{PD}.autoScalingSpec": {"decodingAutoScaling": {"cloudWatchTrigger": TRIGGER}}}

    objects = split(keda, scaling=Scaling(prefill=Bounds(min=1, max=2)))

    assert objects["Deployment", "prefill"]["spec"]["replicas"] == 2
    assert "replicas" not in objects["Deployment", "decode"]["spec"]


def test_the_plan_has_both_kinds_and_each_on_its_group() -> None:
    plan = plan_deployment(deployment({PD: SPLIT}, scaling=Scaling()))

    assert [(each.role, each.engine.replicas) for each in plan.endpoints] == [("prefill", 2), ("decode", 5)]
    assert [each.group for each in plan.endpoints] == ["gpu", "gpu"]


@pytest.mark.parametrize(
    ("changes", "fields", "setting"),
    [
        pytest.param(
            {"spec.autoScalingSpec": {"cloudWatchTrigger": TRIGGER}},
            {},
            r"spec\.autoScalingSpec is .*; expected none beside pdSpec",
            id="one scaler for two kinds",
        ),
        pytest.param(
            {},
            {"scaling": Scaling(min=1, max=2)},
            r"scaling\.max is 2; expected 1, which is scaling\.min: every endpoint has a pdSpec, whose",
            id="bounds of engines that do both",
        ),
        pytest.param(
            {},
            {"scaling": Scaling(prefill=Bounds(min=3, max=4))},
            r"prefillSpec\.replicas is 2; expected 3 to 4, as scaling\.prefill\.min is 3",
            id="fewer engines than their bounds",
        ),
        pytest.param(
            {},
            {"scaling": Scaling(decode=Bounds(max=4))},
            r"decodingSpec\.replicas is 5; expected 1 to 4, as scaling\.decode\.max is 4",
            id="more engines than their bounds",
        ),
        pytest.param(
            {f"{PD}.autoScalingSpec": {"decodingAutoScaling": {"cloudWatchTrigger": TRIGGER}}},
            {"scaling": Scaling(decode=Bounds(min=2, max=6))},
            r"scaling\.decode\.max is 6; expected 2, which is scaling\.decode\.min: .* two owners",
            id="KEDA and the hook for one kind",
        ),
        pytest.param(
            {f"{PD}.topologySpec": {"placementGroup": "p"}},
            {},
            r"pdSpec\.topologySpec\.placementGroup is 'p'; expected no such field",
            id="placement group",
        ),
        pytest.param(
            {f"{PD}.topologySpec": {"availabilityZone": "usw2-az2"}},
            {},
            r"availabilityZone is 'usw2-az2'; expected a zone's name",
            id="a zone's id",
        ),
        pytest.param(
            {f"{PD}.prefillSpec.nodeSelector": {GROUP: "none"}},
            {},
            r"pdSpec\.prefillSpec\.nodeSelector is .*; expected labels of an instance group",
            id="no such group",
        ),
        pytest.param(
            {f"{PD}.prefillSpec.args": ["--port", "9"]},
            {},
            r"pdSpec\.prefillSpec\.args --port is '9'; expected 8000",
            id="an argument of one kind, by its place",
        ),
        pytest.param(
            {f"{PD}.prefillSpec.resources": {"limits": {"nvidia.com/gpu": 9}}},
            {},
            r"pdSpec\.prefillSpec\.resources\.limits\.nvidia\.com/gpu is 9; expected at most 8",
            id="resources of one kind, by their place",
        ),
        pytest.param(
            {"spec.worker.environmentVariables": [{"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": "1"}]},
            {},
            r"VLLM_NIXL_SIDE_CHANNEL_PORT is '1'; expected another name",
            id="a side channel elsewhere",
        ),
        pytest.param(
            {f"{PD}.decodingSpec.args": ["--data-parallel-size", "x"]},
            {},
            r"--data-parallel-size is 'x'; expected 1 to 64",
            id="no number of ranks",
        ),
        pytest.param(
            {f"{PD}.prefillSpec": None},
            {},
            r"spec\.pdSpec\.prefillSpec is not set; expected a value",
            id="half a pdSpec",
        ),
    ],
)
def test_what_pd_spec_cannot_stand_beside_is_refused(
    changes: dict[str, Any], fields: dict[str, Any], setting: str
) -> None:
    with pytest.raises(ConfigError, match=setting):
        split(changes, **fields)


def test_engines_without_efa_are_refused() -> None:
    small = {"limits": {"nvidia.com/gpu": 1}}
    wanted = deployment(
        {
            PD: {"prefillSpec": {"resources": small}, "decodingSpec": {"resources": small}},
            "spec.instanceType": "ml.g5.2xlarge",
            "spec.worker.args": ["--tensor-parallel-size", "1"],
            "spec.worker.probes": None,
            "spec.kvCacheSpec": None,
        },
        instance_groups=(InstanceGroup(name="gpu", instance_type="ml.g5.2xlarge", count=2),),
        scaling=Scaling(),
    )

    with pytest.raises(
        ConfigError, match=r"pdSpec is '1 GPUs of ml\.g5\.2xlarge'; expected GPUs on nodes with EFA"
    ):
        objects_of(wanted)
