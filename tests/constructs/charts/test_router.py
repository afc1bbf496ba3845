"""The router's pods, and the exporter's: their flags are real, their memory follows from them, they drain."""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from click.testing import CliRunner
from fakes_charts import SPLIT, deployment
from kubernetes_gate import amount

from hypertier.cli import exporter, router
from hypertier.errors import ConfigError
from hypertier.router.settings import RouterSettings
from hypertier.spec.access import Access, TenantDefault
from hypertier.spec.cluster import Cluster
from hypertier.spec.deployment import Deployment, Scaling
from hypertier.spec.instance_group import InstanceGroup, Taint
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.names import names_of
from hypertier_cdk.charts.objects import endpoint_objects
from hypertier_cdk.charts.router_settings import router_settings

INSTANCE_GROUP = "sagemaker.amazonaws.com/instance-group-name"


def objects_of(wanted: Deployment, inputs: ChartInputs | None = None) -> list[dict[str, Any]]:
    return endpoint_objects(wanted, wanted.endpoints[0], inputs or ChartInputs())


def workload_of(wanted: Deployment, component: str) -> dict[str, Any]:
    return next(
        entry
        for entry in objects_of(wanted)
        if entry["kind"] == "Deployment" and entry["metadata"]["name"].endswith(f"-{component}")
    )


def container_of(wanted: Deployment, component: str) -> dict[str, Any]:
    container: dict[str, Any] = workload_of(wanted, component)["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.mark.parametrize("strategy", ["prefixaware", "roundrobin", "session"])
def test_the_router_reads_its_arguments_as_the_settings_they_were_made_of(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = deployment({"spec.intelligentRoutingSpec.routingStrategy": strategy})
    read: list[RouterSettings] = []
    monkeypatch.setattr(
        "hypertier.router.process.running.run", lambda settings, started: read.append(settings)
    )

    result = CliRunner().invoke(router.command, container_of(wanted, "router")["args"])

    assert result.exit_code == 0, result.output
    endpoint = wanted.endpoints[0]
    assert read == [router_settings(wanted, endpoint, names_of(wanted, endpoint))]
    assert read[0].strategy == strategy


@pytest.mark.parametrize("split", [None, SPLIT], ids=["engines of one kind", "prefill and decode apart"])
def test_the_exporter_reads_its_arguments(
    split: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[tuple[str, ...]] = []
    monkeypatch.setattr("hypertier.exporter.exporter.Exporter.run", lambda *_: None)
    monkeypatch.setattr(
        "hypertier.exporter.cloudwatch.CloudWatch.__init__", lambda _self, *args: published.append(args)
    )
    wanted = deployment({"spec.pdSpec": split}, scaling=Scaling())
    arguments = container_of(wanted, "exporter")["args"]

    result = CliRunner().invoke(exporter.command, [*arguments, "--listen", "127.0.0.1:0"])

    assert result.exit_code == 0, result.output
    assert published == [("llama-70b", "Hypertier", "us-west-2")]


def test_without_intelligent_routing_requests_go_round() -> None:
    arguments = container_of(deployment({"spec.intelligentRoutingSpec": None}), "router")["args"]

    assert arguments[arguments.index("--strategy") + 1] == "roundrobin"


def test_a_session_is_named_as_the_manifest_says() -> None:
    wanted = deployment(
        {
            "spec.intelligentRoutingSpec.routingStrategy": "session",
            "spec.worker.environmentVariables": [{"name": "SESSION_KEY", "value": "x-user"}],
        }
    )

    arguments = container_of(wanted, "router")["args"]

    assert arguments[arguments.index("--session-key") + 1] == "x-user"


def test_with_kvaware_engines_publish_where_routers_may_and_do_listen() -> None:
    wanted = deployment({"spec.intelligentRoutingSpec.routingStrategy": "kvaware"})

    engine, router = (container_of(wanted, component)["args"] for component in ("engine", "router"))
    config = json.loads(engine[engine.index("--kv-events-config") + 1])
    port = int(router[router.index("--kv-events-port") + 1])
    policies = {
        each["metadata"]["name"].rpartition("-")[2]: each["spec"]
        for each in objects_of(wanted)
        if each["kind"] == "NetworkPolicy"
    }
    events = [{"protocol": "TCP", "port": port}, {"protocol": "TCP", "port": port + 1}]
    assert config["enable_kv_cache_events"]
    assert (config["endpoint"], config["replay_endpoint"]) == (f"tcp://*:{port}", f"tcp://*:{port + 1}")
    assert [rule["ports"] for rule in policies["router"]["egress"]].count(events) == 1
    assert [rule["ports"] for rule in policies["engine"]["ingress"]].count(events) == 1


def test_without_kvaware_no_engine_publishes() -> None:
    assert "--kv-events-config" not in container_of(deployment(), "engine")["args"]


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        pytest.param(
            {
                "spec.worker.modelInvocationPort.containerPort": 5558,
                "spec.worker.probes": None,
                "spec.worker.args": ["/opt/ml/model"],
            },
            r"modelInvocationPort\.containerPort is 5558; expected another port",
            id="port",
        ),
        pytest.param(
            {"spec.worker.args": ["/opt/ml/model", "--kv-events-config={}"]},
            r"spec\.worker\.args --kv-events-config is '{}'; expected no such argument",
            id="config",
        ),
    ],
)
def test_what_is_in_the_way_of_kv_events_is_refused(changes: dict[str, Any], setting: str) -> None:
    wanted = deployment(changes | {"spec.intelligentRoutingSpec.routingStrategy": "kvaware"})

    with pytest.raises(ConfigError, match=setting):
        objects_of(wanted)


def test_the_router_s_memory_holds_its_index_and_all_buffered_bodies() -> None:
    container = container_of(deployment(), "router")

    arguments = container["args"]
    spoken_for = sum(
        int(arguments[arguments.index(name) + 1]) for name in ("--index-bytes", "--max-buffered-bytes")
    )
    assert amount(container["resources"]["limits"]["memory"]) - spoken_for >= 256 * 2**20


def test_the_router_s_grace_period_outlasts_hook_lame_duck_and_drain() -> None:
    pod = workload_of(deployment(), "router")["spec"]["template"]["spec"]

    container = pod["containers"][0]
    arguments = container["args"]
    seconds = container["lifecycle"]["preStop"]["sleep"]["seconds"] + sum(
        int(arguments[arguments.index(name) + 1]) for name in ("--lameduck-seconds", "--drain-seconds")
    )
    assert pod["terminationGracePeriodSeconds"] > seconds


def test_one_router_may_go_at_any_time() -> None:
    assert workload_of(deployment(), "router")["spec"]["replicas"] == 2


def test_no_two_exporters_ever_publish_at_once() -> None:
    spec = workload_of(deployment(), "exporter")["spec"]

    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_exporter_does_not_miss_an_l1_that_is_off() -> None:
    wanted = deployment({"spec.kvCacheSpec": None})

    assert "--no-l1" in container_of(wanted, "exporter")["args"]
    assert "--no-l1" not in container_of(deployment(), "exporter")["args"]


@pytest.mark.parametrize("component", ["router", "exporter"])
def test_what_needs_no_gpu_runs_where_none_is(component: str) -> None:
    pod = workload_of(deployment(), component)["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {INSTANCE_GROUP: "system"}


def test_where_all_nodes_have_gpus_router_and_exporter_may_run_beside_engines() -> None:
    groups = (InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=7),)

    pod = workload_of(deployment(instance_groups=groups), "router")["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {}
    assert pod["tolerations"][0]["key"] == "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("component", "tolerated"),
    [
        pytest.param("engine", {"key": "b", "operator": "Exists", "effect": "NoExecute"}, id="engine"),
        pytest.param(
            "router", {"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"}, id="router"
        ),
        pytest.param(
            "exporter", {"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"}, id="exporter"
        ),
    ],
)
def test_pods_tolerate_the_taints_of_the_group_that_they_run_on(
    component: str, tolerated: dict[str, str]
) -> None:
    groups = (
        InstanceGroup(
            name="system", instance_type="ml.m5.4xlarge", count=3, taints=(Taint(key="a", value="x"),)
        ),
        InstanceGroup(
            name="gpu", instance_type="ml.p5.48xlarge", count=7, taints=(Taint(key="b", effect="NoExecute"),)
        ),
        InstanceGroup(name="open", instance_type="ml.m5.4xlarge", count=1),
    )

    pod = workload_of(deployment(instance_groups=groups), component)["spec"]["template"]["spec"]

    assert tolerated in pod["tolerations"]


@pytest.mark.parametrize("strategy", ["prefixaware", "session", "kvaware"])
def test_routers_that_share_find_and_reach_one_another_and_nobody_else_does(strategy: str) -> None:
    objects = objects_of(deployment({"spec.intelligentRoutingSpec.routingStrategy": strategy}))

    service = next(e for e in objects if e["kind"] == "Service" and e["metadata"]["name"].endswith("-peers"))
    policy = next(e for e in objects if e["kind"] == "NetworkPolicy" and "-router" in e["metadata"]["name"])
    workload = next(e for e in objects if e["kind"] == "Deployment" and "-router" in e["metadata"]["name"])
    pod = workload["spec"]["template"]
    arguments = pod["spec"]["containers"][0]["args"]
    port = service["spec"]["ports"][0]["port"]
    name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert arguments[arguments.index("--peers") + 1] == f"k8s://{name}:{port}"
    assert arguments[arguments.index("--peer-listen") + 1] == f"0.0.0.0:{port}"
    routers = [{"podSelector": {"matchLabels": service["spec"]["selector"]}}]
    for rules, direction in ((policy["spec"]["ingress"], "from"), (policy["spec"]["egress"], "to")):
        assert [rule[direction] for rule in rules if rule["ports"][0]["port"] == port] == [routers]


def test_routers_that_take_turns_tell_one_another_nothing() -> None:
    wanted = deployment({"spec.intelligentRoutingSpec.routingStrategy": "roundrobin"})

    names = [entry["metadata"]["name"] for entry in objects_of(wanted)]
    assert not [name for name in names if name.endswith("-peers")]
    assert "--peers" not in container_of(wanted, "router")["args"]


def test_routers_that_take_turns_divide_tenants_limits() -> None:
    """Alone each would give all of them: two routers, twice the limit."""
    wanted = deployment(
        {"spec.intelligentRoutingSpec.routingStrategy": "roundrobin"},
        access=Access(default=TenantDefault(requests_per_minute=60)),
    )

    assert [entry for entry in objects_of(wanted) if entry["metadata"]["name"].endswith("-peers")]
    assert "--peers" in container_of(wanted, "router")["args"]


def test_only_router_and_exporter_reach_an_engine() -> None:
    policy = next(
        entry
        for entry in objects_of(deployment())
        if entry["kind"] == "NetworkPolicy" and entry["metadata"]["name"] == "llama-70b-engine"
    )

    peers = [
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for rule in policy["spec"]["ingress"]
        for peer in rule["from"]
    ]
    assert peers == ["router", "exporter"]


@pytest.mark.parametrize(
    ("closed", "cidr"),
    [pytest.param(False, "0.0.0.0/0", id="open"), pytest.param(True, "10.0.0.0/16", id="closed")],
)
def test_in_a_closed_network_pods_reach_aws_through_the_vpc_alone(closed: bool, cidr: str) -> None:
    wanted = deployment(cluster=Cluster(closed_network=closed))
    objects = endpoint_objects(wanted, wanted.endpoints[0], ChartInputs(vpc_cidrs=("10.0.0.0/16",)))

    https = [
        peer["ipBlock"]["cidr"]
        for policy in objects
        if policy["kind"] == "NetworkPolicy" and not policy["metadata"]["name"].endswith("-router")
        for rule in policy["spec"]["egress"]
        if rule["ports"][0]["port"] == 443
        for peer in rule["to"]
    ]
    assert https == [cidr, cidr]


@pytest.mark.parametrize(
    ("url", "port"),
    [
        pytest.param("rediss://l2.example:6380", 6380, id="written"),
        pytest.param("rediss://l2.example:6381/2", 6381, id="with a database"),
        pytest.param("rediss://${Token[TOKEN.7]}:6382", 6382, id="behind a host of AWS's"),
        pytest.param("rediss://${Token[TOKEN.7]}:${Token[TOKEN.8]}", 6379, id="known at deployment alone"),
    ],
)
def test_engines_may_reach_l2_on_its_port(url: str, port: int) -> None:
    wanted = deployment()

    objects = endpoint_objects(wanted, wanted.endpoints[0], ChartInputs(l2_url=url))

    engine = next(e for e in objects if e["kind"] == "NetworkPolicy" and "engine" in e["metadata"]["name"])
    assert engine["spec"]["egress"][-1]["ports"] == [{"protocol": "TCP", "port": port}]


def test_routers_may_ask_kubernetes_where_pods_are_and_nothing_else() -> None:
    objects = objects_of(deployment())

    roles = [entry for entry in objects if entry["kind"] in ("Role", "ClusterRole")]
    binding = next(entry for entry in objects if entry["kind"] == "RoleBinding")
    pods = {
        entry["metadata"]["name"]: entry["spec"]["template"]["spec"]
        for entry in objects
        if entry["kind"] == "Deployment"
    }
    assert [role["rules"] for role in roles] == [
        [{"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]
    ]
    assert binding["roleRef"]["name"] == roles[0]["metadata"]["name"]
    router = next(name for name in pods if name.endswith("-router"))
    assert [subject["name"] for subject in binding["subjects"]] == [pods[router]["serviceAccountName"]]
    assert {name for name, pod in pods.items() if pod["automountServiceAccountToken"]} == {router}


@pytest.mark.parametrize(
    ("cidrs", "ports"),
    [(("10.0.0.0/16",), {443}), ((), {443, 6443})],
    ids=["eks", "another-cluster"],
)
def test_routers_reach_the_api_server_by_its_service_and_where_it_is(
    cidrs: tuple[str, ...], ports: set[int]
) -> None:
    objects = objects_of(deployment(), ChartInputs(vpc_cidrs=cidrs))

    policy = next(
        e for e in objects if e["kind"] == "NetworkPolicy" and e["metadata"]["name"].endswith("-router")
    )
    rule = next(rule for rule in policy["spec"]["egress"] if rule["ports"][0]["port"] == 443)
    allowed = [ip_network(peer["ipBlock"]["cidr"]) for peer in rule["to"]]
    assert {port["port"] for port in rule["ports"]} == ports
    for address in ("10.100.0.1", "172.20.0.1", "10.0.3.4"):
        assert any(ip_address(address) in network for network in allowed)
