"""The CronJob of `verify`: its arguments are real, it is as closed as other pods, it ends in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner
from fakes_charts import deployment, endpoint
from kubernetes_gate import findings

from hypertier.cli.verify import command
from hypertier.errors import ConfigError
from hypertier.spec.access import Access
from hypertier.spec.deployment import Deployment
from hypertier.spec.routing import ClientTls, Routing
from hypertier.spec.verify import EVERY_MINUTES, Verify
from hypertier.verification.verify import Report, Wish
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.render import render

ON = Verify()
TLS = Routing(tls=ClientTls(secret_name="router-tls"))
KEYS = Access(secret_name="keys")


def objects_of(wanted: Deployment, inputs: ChartInputs | None = None) -> list[dict[str, Any]]:
    return render(wanted, inputs)


def one(objects: list[dict[str, Any]], kind: str, component: str = "verify") -> dict[str, Any]:
    (found,) = [
        entry
        for entry in objects
        if entry["kind"] == kind and entry["metadata"]["name"] == f"llama-70b-{component}"
    ]
    return found


def cron_job(**fields: Any) -> dict[str, Any]:
    return one(objects_of(deployment(**{"verify": ON, **fields})), "CronJob")


def pod(**fields: Any) -> dict[str, Any]:
    return dict(cron_job(**fields)["spec"]["jobTemplate"]["spec"]["template"]["spec"])


def arguments(**fields: Any) -> list[str]:
    return list(pod(**fields)["containers"][0]["args"])


def test_nothing_of_it_is_there_unless_asked_for() -> None:
    objects = objects_of(deployment())

    assert not [entry for entry in objects if "verify" in entry["metadata"]["name"]]
    assert "--enable-prompt-tokens-details" not in str(objects)


@pytest.mark.parametrize("every", EVERY_MINUTES)
def test_a_verification_ends_before_the_next_is_due(every: int) -> None:
    spec = cron_job(verify=Verify(every_minutes=every))["spec"]
    job = spec["jobTemplate"]["spec"]
    args = job["template"]["spec"]["containers"][0]["args"]

    assert float(args[args.index("--timeout") + 1]) < job["activeDeadlineSeconds"] < 60 * every
    assert 10 <= spec["startingDeadlineSeconds"] < 60 * every
    assert (spec["concurrencyPolicy"], job["backoffLimit"]) == ("Forbid", 0)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (1, 3)


@pytest.mark.parametrize(
    ("every", "schedule"), [(1, "*/1 * * * *"), (5, "*/5 * * * *"), (60, "0 * * * *")], ids=str
)
def test_the_schedule_is_cron_s(every: int, schedule: str) -> None:
    assert cron_job(verify=Verify(every_minutes=every))["spec"]["schedule"] == schedule


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="plain"),
        pytest.param({"routing": TLS}, id="tls"),
        pytest.param({"access": KEYS, "verify": Verify(api_key_secret_name="a-key")}, id="keys"),
    ],
)
def test_the_command_takes_its_arguments(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, Wish]] = []
    made: list[tuple[str, dict[str, Any]]] = []

    class Endpoint:
        def __init__(self, url: str, **more: Any) -> None:
            made.append((url, more))

    def run(self: Any) -> Report:
        asked.append((self.endpoint, self.wish))
        return Report("", None, 0.0, (), ())

    monkeypatch.setattr("hypertier.verification.endpoint.Endpoint", Endpoint)
    monkeypatch.setattr("hypertier.verification.verify.Verifier.run", run)
    monkeypatch.setattr("hypertier.exporter.cloudwatch.CloudWatch.__init__", lambda *_: None)
    monkeypatch.setattr("hypertier.exporter.cloudwatch.CloudWatch.publish", lambda *_: None)
    env = {"HYPERTIER_API_KEY": "secret"}

    done = CliRunner(env=env).invoke(command, arguments(**fields))

    assert (done.exit_code, done.exception) == (0, None) or done.exit_code == 0, done.output
    ((url, more),), ((_, wish),) = made, asked
    assert url == f"http{'s' if 'routing' in fields else ''}://llama-70b-router.inference.svc"
    assert (more["key"], more["ca"]) == (
        "secret" if "access" in fields else None,
        "/etc/hypertier/router-ca/ca.crt" if "routing" in fields else None,
    )
    assert (wish.model, wish.prompt_tokens, wish.expects_details) == ("Llama-3.1-70B-Instruct", 512, True)


def test_engines_tell_what_it_looks_at_and_none_may_refuse_to() -> None:
    engine = one(objects_of(deployment(verify=ON)), "Deployment", "engine")
    args = engine["spec"]["template"]["spec"]["containers"][0]["args"]
    refuses = {"spec.worker.args": ["--no-enable-prompt-tokens-details"]}

    assert "--enable-prompt-tokens-details" in args
    with pytest.raises(ConfigError, match=r"--no-enable-prompt-tokens-details is true; expected no such"):
        objects_of(deployment(refuses, verify=ON))


@pytest.mark.parametrize(
    ("gate", "explains", "l2", "asks"),
    [
        pytest.param("open", True, True, True, id="a miss is a fault"),
        pytest.param("auto", True, True, False, id="computing may be faster"),
        pytest.param("open", False, True, False, id="nobody tells who answers"),
        pytest.param("open", True, False, False, id="there is none"),
    ],
)
def test_l2_is_asked_where_a_miss_is_a_fault(gate: str, explains: bool, l2: bool, asks: bool) -> None:
    reference = deployment()
    cache = replace(reference.cache, l2=replace(reference.cache.l2, gate=gate))
    wanted = deployment(
        {"spec.kvCacheSpec.enableL2Cache": l2},
        cache=cache,
        routing=Routing(explain_on_request=explains),
        verify=ON,
    )

    args = one(objects_of(wanted), "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert ("--l2" if asks else "--no-l2") in args["containers"][0]["args"]


def test_its_pod_is_closed_as_the_exporter_s() -> None:
    exporter = one(objects_of(deployment(verify=ON)), "Deployment", "exporter")["spec"]["template"]["spec"]
    mine = pod()

    for key in ("securityContext", "automountServiceAccountToken", "enableServiceLinks", "nodeSelector"):
        assert mine[key] == exporter[key]
    for key in ("securityContext", "image", "resources", "imagePullPolicy"):
        assert mine["containers"][0][key] == exporter["containers"][0][key]
    assert mine["restartPolicy"] == "Never"


def test_the_key_comes_from_its_secret_and_of_tls_the_ca_alone() -> None:
    mine = pod(routing=TLS, access=KEYS, verify=Verify(api_key_secret_name="a-key"))

    assert mine["containers"][0]["env"] == [
        {"name": "HYPERTIER_API_KEY", "valueFrom": {"secretKeyRef": {"name": "a-key", "key": "key"}}}
    ]
    (secret,) = [volume["secret"] for volume in mine["volumes"] if "secret" in volume]
    assert (secret["secretName"], secret["items"]) == ("router-tls", [{"key": "ca.crt", "path": "ca.crt"}])


def test_it_reaches_routers_and_cloudwatch_and_nobody_reaches_it() -> None:
    objects = objects_of(deployment(verify=ON))
    mine = one(objects, "NetworkPolicy")["spec"]
    engines = one(objects, "NetworkPolicy", "engine")["spec"]

    (to_router,) = [
        rule for rule in mine["egress"] if any("podSelector" in to and len(to) == 1 for to in rule["to"])
    ]
    assert to_router["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "router"
    assert [port["port"] for port in to_router["ports"]] == [80, 8080]
    assert mine["ingress"] == []
    assert "verify" not in str(engines)


def test_its_role_annotates_its_own_service_account() -> None:
    role = "arn:aws:iam::123456789012:role/verify"
    objects = objects_of(deployment(verify=ON), ChartInputs(verify_role_arn=role))

    assert one(objects, "ServiceAccount")["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": role}
    assert role not in str([entry for entry in objects if entry["metadata"]["name"] != "llama-70b-verify"])


@pytest.mark.parametrize(
    ("changes", "fields", "message"),
    [
        pytest.param({"spec.metrics.enabled": False}, {}, "spec.metrics.enabled is false", id="no metrics"),
        pytest.param({"metadata.name": "e" * 46}, {}, "at most 45 characters", id="a long name"),
        pytest.param({}, {"access": KEYS}, "verify.apiKeySecretName is not set", id="no key"),
        pytest.param({}, {"serving": "operator"}, "verify is 'a section'; expected none", id="operator"),
    ],
)
def test_what_could_never_pass_is_refused(
    changes: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        deployment(changes, verify=ON, **fields)


def test_the_longest_name_passes_the_gate() -> None:
    wanted = deployment({"metadata.name": "e" * 45}, verify=ON)

    assert findings(objects_of(wanted), "1.35") == []


def test_each_endpoint_has_its_own() -> None:
    two = deployment(endpoints=(endpoint(), endpoint({"metadata.name": "second"})), verify=ON)

    names = {entry["metadata"]["name"] for entry in objects_of(two) if entry["kind"] == "CronJob"}

    assert names == {"llama-70b-verify", "second-verify"}
