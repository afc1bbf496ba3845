"""Every flag of the router is set by a key, or is named with the reason why none sets it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from fakes_charts import SPLIT, deployment

from hypertier.cli import router
from hypertier.errors import ConfigError
from hypertier.router.settings import RouterSettings
from hypertier.spec.access import Access, TenantDefault
from hypertier.spec.deployment import Deployment, Scaling
from hypertier.spec.routing import ClientTls, EngineTls, Guardrail, Retries, Routing, Sizes, Timeouts, Tracing
from hypertier.spec.scaling import ToZero
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.names import names_of
from hypertier_cdk.charts.objects import endpoint_objects
from hypertier_cdk.charts.router_settings import (
    NOT_SET,
    aliases_of,
    router_arguments,
    router_settings,
    served_names,
)

EVERYTHING = Routing(
    replicas=4,
    cpus=2,
    busy_polling=True,
    tls=ClientTls(secret_name="router-tls"),
    engine_tls=EngineTls(mutual=True),
    tracing=Tracing(endpoint="http://collector.observability:4318", sample_ratio=0.5),
    model_aliases={"gpt-4o": "Llama-3.1-70B-Instruct"},
    guardrail=Guardrail(url="http://filter.safety:9000/check", on_failure="closed", timeout="2s"),
    explain_on_request=True,
    redact_captures=True,
    sizes=Sizes(max_body="128Mi", max_head="32Ki", max_buffered="2Gi", index="256Mi"),
    timeouts=Timeouts(
        connect="2s",
        response="10m",
        stall="1m",
        stream_idle="45s",
        slow_start="20s",
        read="20s",
        idle="60s",
        drain="1m",
        health="2s",
        health_interval="2s",
    ),
    retries=Retries(per_request=1, budget=0.5, migrations=1),
)
CAPTURE = {
    "s3Uri": "s3://captures-of-ours/x/",
    "modelPod": {
        "enabled": True,
        "initialSamplingPercentage": 5,
        "captureOptions": [{"captureMode": "Input"}],
        "bufferConfig": {"batchSize": 100, "flushIntervalSeconds": 30},
        "payloadConfig": {"maxPayloadSizeKB": 256},
    },
}
ACCESS = Access(secret_name="keys", default=TenantDefault(requests_per_minute=60))


def everything(**changes: Any) -> Deployment:
    """The reference with every key that a flag follows from, each unlike the router's own default."""
    strategy = changes.pop("strategy", "kvaware")
    manifest = {"spec.pdSpec": SPLIT, "spec.intelligentRoutingSpec.routingStrategy": strategy}
    manifest["spec.dataCapture"] = CAPTURE
    manifest["spec.worker.environmentVariables"] = [{"name": "SESSION_KEY", "value": "x-user"}]
    return deployment(manifest, **{"routing": EVERYTHING, "access": ACCESS, "scaling": Scaling(), **changes})


def sleeping() -> Deployment:
    """The reference, as one that goes to no engine while nobody asks: without a pdSpec."""
    return deployment(scaling=Scaling(min=0, max=7, to_zero=ToZero(hold="5m", max_held=64)))


def arguments_of(wanted: Deployment) -> list[str]:
    endpoint = wanted.endpoints[0]
    return router_arguments(router_settings(wanted, endpoint, names_of(wanted, endpoint)))


def objects_of(wanted: Deployment) -> dict[tuple[str, str], dict[str, Any]]:
    objects = endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())
    return {(entry["kind"], entry["metadata"]["name"].removeprefix("llama-70b-")): entry for entry in objects}


def router_pod(wanted: Deployment) -> dict[str, Any]:
    pod: dict[str, Any] = objects_of(wanted)["Deployment", "router"]["spec"]["template"]["spec"]
    return pod


def test_every_flag_follows_from_a_key_or_is_named_with_its_reason() -> None:
    settings = [option for option in router.command.params if option.expose_value]  # --version is none
    flags = {name for option in settings for name in option.opts}
    options = {option.opts[0] for option in settings if isinstance(option, click.Option)}

    set_by_keys = {
        word
        for wanted in (everything(), everything(strategy="session"), sleeping())
        for word in arguments_of(wanted)
        if word in flags
    }

    assert set_by_keys & NOT_SET.keys() == set()
    assert options == set_by_keys | NOT_SET.keys()


@pytest.mark.parametrize("strategy", ["kvaware", "session", "roundrobin"])
def test_the_router_reads_all_of_it_as_the_settings_it_was_made_of(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = everything(strategy=strategy)
    read: list[RouterSettings] = []
    monkeypatch.setattr(
        "hypertier.router.workers.supervisor.run", lambda settings, started: read.append(settings)
    )

    result = CliRunner().invoke(router.command, arguments_of(wanted))

    assert result.exit_code == 0, result.output
    endpoint = wanted.endpoints[0]
    assert read == [router_settings(wanted, endpoint, names_of(wanted, endpoint))]


def test_by_tls_probes_service_and_mount_follow() -> None:
    wanted = deployment(routing=Routing(tls=ClientTls(secret_name="router-tls")))

    pod = router_pod(wanted)
    container = pod["containers"][0]

    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert "scheme" not in container["livenessProbe"]["httpGet"]  # the port of metrics stays plain
    assert objects_of(wanted)["Service", "router"]["spec"]["ports"][0]["port"] == 443
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "tls"]
    assert volume["secret"]["secretName"] == "router-tls"
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "tls"]
    words = container["args"]
    assert words[words.index("--tls-cert") + 1] == f"{mount['mountPath']}/tls.crt"
    assert words[words.index("--tls-key") + 1] == f"{mount['mountPath']}/tls.key"


def test_by_tls_the_load_balancer_speaks_it_too() -> None:
    certificate = {
        "acmArn": "arn:aws:acm:us-west-2:123456789012:certificate/abc",
        "domainName": "llama.example.com",
    }
    changes = {"spec.tlsConfig": {"customCertificateConfig": certificate}}
    routing = Routing(tls=ClientTls(secret_name="router-tls"), timeouts=Timeouts(drain="2m"))

    ingress = objects_of(deployment(changes, routing=routing))["Ingress", "router"]

    said = ingress["metadata"]["annotations"]
    assert said["alb.ingress.kubernetes.io/backend-protocol"] == "HTTPS"
    assert said["alb.ingress.kubernetes.io/healthcheck-protocol"] == "HTTPS"
    assert (
        "deregistration_delay.timeout_seconds=120"
        in said["alb.ingress.kubernetes.io/target-group-attributes"]
    )
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]
    assert backend["service"]["port"] == {"name": "https"}


def test_each_cpu_has_a_process_with_memory_a_port_for_news_and_a_way_to_it() -> None:
    wanted = deployment(routing=Routing(cpus=4))

    container = router_pod(wanted)["containers"][0]
    policy = objects_of(wanted)["NetworkPolicy", "router"]["spec"]

    assert container["args"][container["args"].index("--workers") + 1] == "4"
    assert container["resources"]["requests"]["cpu"] == "4"
    assert container["resources"]["limits"]["memory"] == "3584Mi"  # 4 x (128 + 512) MiB, and 1 GiB of bodies
    ports = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert {9091, 9092, 9093, 9094} <= set(ports)


def test_traces_go_from_router_and_engines_to_one_collector_that_both_may_reach() -> None:
    tracing = Tracing(endpoint="http://collector.observability:4318")
    objects = objects_of(deployment(routing=Routing(tracing=tracing)))

    engine = objects["Deployment", "engine"]["spec"]["template"]["spec"]["containers"][0]
    words = engine["args"]
    env = {entry["name"]: entry.get("value") for entry in engine["env"]}

    assert words[words.index("--otlp-traces-endpoint") + 1] == f"{tracing.endpoint}/v1/traces"
    assert env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"
    assert (
        env["OTEL_TRACES_SAMPLER"] == "parentbased_always_off"
    )  # what the router does not trace stays untraced
    for component in ("router", "engine"):
        egress = objects["NetworkPolicy", component]["spec"]["egress"]
        assert any({"protocol": "TCP", "port": 4318} in rule["ports"] for rule in egress)


def test_of_several_endpoints_each_gets_the_aliases_of_its_own_models() -> None:
    first = deployment().endpoints[0]
    second = deployment(
        {
            "metadata.name": "second",
            "spec.worker.args": ["--served-model-name", "small", "tiny", "--port=8000"],
        }
    ).endpoints[0]
    both = deployment(endpoints=(first, second))
    aliases = {"big": "Llama-3.1-70B-Instruct", "little": "tiny"}

    wanted = replace(both, routing=Routing(model_aliases=aliases))

    assert aliases_of(wanted, first) == {"big": "Llama-3.1-70B-Instruct"}
    assert aliases_of(wanted, second) == {"little": "tiny"}
    with pytest.raises(
        ConfigError, match=r"routing\.modelAliases\.x is 'none'; expected a model of an endpoint"
    ):
        aliases_of(replace(both, routing=Routing(model_aliases={"x": "none"})), first)
    with pytest.raises(ConfigError, match=r"routing\.modelAliases\.x is 'none'"):
        aliases_of(replace(both, endpoints=(first,), routing=Routing(model_aliases={"x": "none"})), first)


def test_adapters_are_models_that_aliases_may_name() -> None:
    changes = {"spec.worker.args": ["--lora-modules", "sql=/a", "law=/b", "--enable-lora"]}

    assert served_names(deployment(changes).endpoints[0]) == {"Llama-3.1-70B-Instruct", "sql", "law"}


@pytest.mark.parametrize(
    ("made", "setting"),
    [
        (lambda: Routing(replicas=1), r"routing\.replicas is 1; expected 2 to 64"),
        (lambda: Routing(cpus=0), r"routing\.cpus is 0; expected 1 to 64"),
        (lambda: Routing(cpus=32), r"routing\.sizes\.maxBuffered is '1Gi'; expected .* each of 32 processes"),
        (lambda: ClientTls(secret_name="A b"), r"routing\.tls\.secretName is 'A b'; expected the name"),
        (lambda: Tracing(endpoint="collector"), r"routing\.tracing\.endpoint is 'collector'; expected http"),
        (lambda: Tracing(endpoint="http://c:99999"), r"routing\.tracing\.endpoint is 'http://c:99999'"),
        (lambda: Tracing(endpoint="http://c:otlp"), r"routing\.tracing\.endpoint is 'http://c:otlp'"),
        (lambda: Tracing(endpoint="http://[::1"), r"routing\.tracing\.endpoint is 'http://\[::1'"),
        (
            lambda: Tracing(endpoint="http://c:1", sample_ratio=2),
            r"routing\.tracing\.sampleRatio is 2; expected 0\.0 to 1\.0",
        ),
        (lambda: Routing(model_aliases={"a": "a"}), r"routing\.modelAliases\.a is 'a'; expected a model"),
        (lambda: Sizes(max_body="1"), r"routing\.sizes\.maxBody is '1'; expected 1024"),
        (lambda: Sizes(max_buffered="1Mi"), r"routing\.sizes\.maxBuffered is '1Mi'; expected 67108864"),
        (lambda: Timeouts(read="0s"), r"routing\.timeouts\.read is '0s'; expected 1s to 24h"),
        (lambda: Retries(budget=-1), r"routing\.retries\.budget is -1; expected 0 to 100"),
        (
            lambda: deployment(serving="operator", routing=Routing(cpus=2)),
            r"routing is 'a section'; expected none with serving: operator",
        ),
        (
            lambda: objects_of(deployment(routing=Routing(cpus=15))),
            r"routing\.cpus is 15; expected at most 14",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_its_key(made: Any, setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        made()


def test_routers_hold_and_are_read_where_there_may_be_no_engine() -> None:
    objects = objects_of(sleeping())

    exporter = objects["Deployment", "exporter"]["spec"]["template"]["spec"]["containers"][0]["args"]
    service = objects["Service", "routers"]["spec"]
    policy = objects["NetworkPolicy", "exporter"]["spec"]["egress"]

    host, _, port = exporter[exporter.index("--router-discover") + 1].removeprefix("dns://").partition(":")
    assert host.startswith("llama-70b-routers.")
    assert (service["clusterIP"], service["ports"][0]["port"]) == ("None", int(port))
    assert int(port) in [rule["port"] for entry in policy for rule in entry["ports"]]


def test_no_router_holds_where_an_engine_always_stays() -> None:
    wanted = deployment(scaling=Scaling(min=1, max=7))

    assert "--hold-seconds" not in arguments_of(wanted)
    assert ("Service", "routers") not in objects_of(wanted)


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        pytest.param(Scaling(min=1, max=4), True, id="the hook chooses one to go"),
        pytest.param(Scaling(min=3, max=3), False, id="none goes"),
    ],
)
def test_the_exporter_tells_replicas_apart_where_one_is_to_go(scaling: Scaling, expected: bool) -> None:
    objects = objects_of(deployment(scaling=scaling))

    container = objects["Deployment", "exporter"]["spec"]["template"]["spec"]["containers"][0]

    assert ("--per-replica" in container["args"]) is expected
