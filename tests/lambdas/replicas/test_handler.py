from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import moto.backends
import pytest
from fakes_kubernetes import Authority, KubernetesFake
from fakes_moto import ACCOUNT, REGION, aws_environment, moto_server

from hypertier_lambdas.replicas.__main__ import main
from hypertier_lambdas.replicas.decision import Limits
from hypertier_lambdas.replicas.deployment import (
    ANNOTATIONS,
    ASLEEP,
    HIGH_ALARM_SEEN,
    IDLE,
    LAST_SCALED_AT,
    LOW_ALARM_SEEN,
    SCHEDULE,
    SCHEDULED_AT,
    SLEEP_ALARM_SEEN,
    WAKE_ALARM_SEEN,
)
from hypertier_lambdas.replicas.errors import (
    ClusterError,
    ConflictError,
    DeadlineError,
    EventError,
    SettingError,
    StateError,
)
from hypertier_lambdas.replicas.handler import MAX_ATTEMPTS, apply, handler
from hypertier_lambdas.replicas.kubernetes import KubernetesApi, tls_context
from hypertier_lambdas.replicas.settings import Settings

EVENTS = Path(__file__).parents[2] / "events"
HIGH_EVENT = json.loads((EVENTS / "cloudwatch-alarm-high.json").read_text(encoding="utf-8"))
LOW_EVENT = json.loads((EVENTS / "cloudwatch-alarm-low.json").read_text(encoding="utf-8"))
OK_EVENT = json.loads((EVENTS / "cloudwatch-alarm-high-ok.json").read_text(encoding="utf-8"))
PREFILL_EVENT = json.loads((EVENTS / "cloudwatch-alarm-prefill-high.json").read_text(encoding="utf-8"))
KEY = ("inference", "contracts-engine")
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
LIMITS = Limits(2, 7, timedelta(seconds=600), "contracts-l1-high", "contracts-l1-low")
SETTINGS = Settings("hyperpod", *KEY, LIMITS, dry_run=False)


class Context:
    """Lambda's context object, with the seconds that the test allows."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


@pytest.fixture
def cluster(kubernetes: KubernetesFake) -> KubernetesFake:
    kubernetes.create_deployment(*KEY, replicas=3)
    return kubernetes


def connector(
    fake: KubernetesFake, authority: Authority
) -> Callable[[str, Callable[[], float]], KubernetesApi]:
    """Connects to `fake` straight away, as `eks.connect` does by way of EKS."""
    return lambda _, remaining: KubernetesApi(fake.endpoint, tls_context(authority.pem), "token", remaining)


@dataclass
class World:
    """One cluster as the hook meets it, and one line a call."""

    fake: KubernetesFake
    authority: Authority

    def apply(
        self, event: Any, settings: Settings = SETTINGS, now: datetime = NOW, seconds: float = 30.0
    ) -> dict[str, Any]:
        line: dict[str, Any] = {}
        apply(event, settings, connector(self.fake, self.authority), now, lambda: seconds, line)
        return line

    @property
    def deployment(self) -> dict[str, Any]:
        return self.fake.deployments[KEY]

    @property
    def replicas(self) -> int:
        replicas: int = self.deployment["spec"]["replicas"]
        return replicas


@pytest.fixture
def world(cluster: KubernetesFake, authority: Authority) -> World:
    return World(cluster, authority)


def test_the_high_alarm_adds_a_replica_and_notes_it_in_the_deployment(world: World) -> None:
    line = world.apply(HIGH_EVENT)

    assert (line["action"], line["replicas_before"], line["replicas"]) == ("up", 3, 4)
    assert world.replicas == 4
    annotations = world.deployment["metadata"]["annotations"]
    assert annotations[LAST_SCALED_AT] == NOW.isoformat()
    assert annotations["deployment.kubernetes.io/revision"] == "1"
    of_sleep = {SLEEP_ALARM_SEEN, WAKE_ALARM_SEEN, ASLEEP, IDLE}
    assert set(ANNOTATIONS) - set(annotations) == {LOW_ALARM_SEEN, SCHEDULE, SCHEDULED_AT} | of_sleep


def test_the_low_alarm_takes_a_replica_away(world: World) -> None:
    line = world.apply(LOW_EVENT)

    assert line["action"] == "down"
    assert world.replicas == 2


def test_a_replayed_event_is_answered_without_a_write(world: World) -> None:
    world.apply(HIGH_EVENT)
    version = world.deployment["metadata"]["resourceVersion"]

    line = world.apply(HIGH_EVENT, now=NOW + timedelta(hours=2))

    assert line["action"] == "none"
    assert world.deployment["metadata"]["resourceVersion"] == version
    assert world.replicas == 4


def test_a_transition_within_the_cooldown_is_noted_and_changes_no_spec(world: World) -> None:
    world.apply(HIGH_EVENT)

    line = world.apply(LOW_EVENT, now=NOW + timedelta(seconds=599))

    assert line["action"] == "none"
    assert "COOLDOWN_SECONDS 600" in line["reason"]
    assert world.deployment["metadata"]["generation"] == 2
    assert world.deployment["metadata"]["annotations"]["hypertier.dev/replicas-last-reason"] == line["reason"]


def test_an_alarm_that_clears_writes_nothing(world: World) -> None:
    world.apply(OK_EVENT)

    assert [method for method, _ in world.fake.requests] == ["GET"]


def test_dry_run_says_what_it_would_do_and_writes_nothing(world: World) -> None:
    settings = Settings("hyperpod", *KEY, LIMITS, dry_run=True)

    line = world.apply(HIGH_EVENT, settings)

    assert (line["action"], line["replicas"], line["dry_run"]) == ("up", 4, True)
    assert [method for method, _ in world.fake.requests] == ["GET"]


def test_a_write_in_between_is_read_and_decided_on_again(world: World) -> None:
    foreign = iter([6])

    def somebody_scales() -> None:
        for replicas in foreign:
            world.fake.patch(*KEY, {"spec": {"replicas": replicas}})

    world.fake.before_patch = somebody_scales

    line = world.apply(HIGH_EVENT)

    assert (line["replicas_before"], line["replicas"], line["attempts"]) == (6, 7, 2)
    assert world.replicas == 7


def test_two_events_at_once_make_one_step(world: World) -> None:
    other: list[dict[str, Any]] = []

    def the_same_event_elsewhere() -> None:
        world.fake.before_patch = lambda: None
        other.append(world.apply(HIGH_EVENT))

    world.fake.before_patch = the_same_event_elsewhere

    line = world.apply(HIGH_EVENT)

    assert [other[0]["action"], line["action"]] == ["up", "none"]
    assert world.replicas == 4


def test_a_race_that_is_always_lost_ends_in_an_error_for_lambda_to_try_again(world: World) -> None:
    versions = iter(range(100))
    world.fake.before_patch = lambda: (
        world.fake.patch(*KEY, {"metadata": {"annotations": {"n": str(next(versions))}}}) and None
    )

    with pytest.raises(ConflictError):
        world.apply(HIGH_EVENT)

    assert [method for method, _ in world.fake.requests].count("PATCH") == MAX_ATTEMPTS
    assert world.replicas == 3


@pytest.mark.parametrize(
    ("method", "code", "hint"),
    [
        pytest.param("GET", 401, "access entry", id="unknown to the cluster"),
        pytest.param("PATCH", 403, "get and patch on this Deployment", id="not allowed to write"),
        pytest.param("GET", 404, "NAMESPACE and DEPLOYMENT", id="not there"),
    ],
)
def test_a_refusal_says_what_was_asked_and_what_to_look_at(
    world: World, method: str, code: int, hint: str
) -> None:
    world.fake.refuse = {method: code}

    with pytest.raises(ClusterError) as refusal:
        world.apply(HIGH_EVENT)

    assert f"HTTP {code}: the test refuses {method}" in str(refusal.value)
    assert hint in str(refusal.value)
    assert world.replicas == 3


def test_a_cluster_that_never_answers_ends_in_an_error_in_time(world: World) -> None:
    world.fake.silent = True

    with pytest.raises(ClusterError, match="no answer in time"):
        world.apply(HIGH_EVENT, seconds=0.2)


def test_a_used_up_deadline_is_an_error_before_a_call(world: World) -> None:
    with pytest.raises(DeadlineError):
        world.apply(HIGH_EVENT, seconds=0.0)

    assert world.fake.requests == []


def test_a_closed_port_is_named(world: World, authority: Authority) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        endpoint = f"https://127.0.0.1:{reserved.getsockname()[1]}"
        api = KubernetesApi(endpoint, tls_context(authority.pem), "token", lambda: 5.0)

        with pytest.raises(ClusterError, match="ConnectionRefusedError"):
            api.read_deployment(*KEY)


def test_a_server_of_another_ca_gets_no_token(world: World) -> None:
    api = KubernetesApi(world.fake.endpoint, tls_context(Authority.create().pem), "token", lambda: 30.0)

    with pytest.raises(ClusterError, match="not who the cluster's CA vouches for"):
        api.read_deployment(*KEY)

    assert world.fake.requests == []


def test_the_cas_of_eks_are_trusted_by_every_python(authority: Authority) -> None:
    context = tls_context(authority.pem)

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize("pem", ["", "no certificate"])
def test_a_ca_that_is_none_is_refused(pem: str) -> None:
    with pytest.raises(ClusterError, match="certificateAuthority"):
        tls_context(pem)


def test_plain_http_is_refused(authority: Authority) -> None:
    with pytest.raises(ClusterError, match="expected https://HOST"):
        KubernetesApi("http://127.0.0.1:1", tls_context(authority.pem), "token", lambda: 1.0)


def test_an_annotation_that_is_no_time_is_named_with_its_remedy(world: World) -> None:
    world.fake.patch(*KEY, {"metadata": {"annotations": {HIGH_ALARM_SEEN: "yesterday"}}})

    with pytest.raises(StateError) as refusal:
        world.apply(HIGH_EVENT)

    assert f"kubectl annotate deployment contracts-engine -n inference {HIGH_ALARM_SEEN}-" in str(
        refusal.value
    )


# From here on the whole function: its environment, boto3 against moto's EKS and STS, TLS, the cluster.

ENVIRONMENT = {
    "CLUSTER_NAME": "hyperpod",
    "NAMESPACE": KEY[0],
    "DEPLOYMENT": KEY[1],
    "MIN_REPLICAS": "2",
    "MAX_REPLICAS": "7",
    "COOLDOWN_SECONDS": "600",
    "HIGH_ALARM": "contracts-l1-high",
    "LOW_ALARM": "contracts-l1-low",
}


@pytest.fixture(scope="module")
def aws_url() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture
def eks(
    aws_url: str, cluster: KubernetesFake, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> KubernetesFake:
    """An EKS whose cluster `hyperpod` is the fake, and lets in whom AWS knows."""
    for name, value in (aws_environment(aws_url) | ENVIRONMENT).items():
        monkeypatch.setenv(name, value)
    moto.backends.get_backend("eks").reset()
    boto3.client("eks").create_cluster(
        name="hyperpod",
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/eks",
        resourcesVpcConfig={"subnetIds": ["subnet-1", "subnet-2"]},
    )
    described = moto.backends.get_backend("eks")[ACCOUNT][REGION].clusters["hyperpod"]
    described.endpoint = cluster.endpoint
    described.certificate_authority = {"data": base64.b64encode(authority.pem.encode()).decode()}
    cluster.authenticate = lambda token: admitted(token, "hyperpod")
    return cluster


def admitted(token: str, cluster_name: str) -> bool:
    """As EKS does: a presigned request of this minute, signed for this cluster by a known key.

    The signature is computed anew, by the steps of Signature Version 4 for a request in a query string.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html (read 2026-12-01)
    """
    prefix, _, encoded = token.partition(".")
    if prefix != "k8s-aws-v1" or "=" in encoded:
        return False
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    signed_query, _, signature = url.query.rpartition("&X-Amz-Signature=")
    query = {key: values[0] for key, values in parse_qs(signed_query).items()}
    scope = query["X-Amz-Credential"].split("/", 1)[1]
    canonical = "\n".join(
        [
            "GET",
            url.path,
            "&".join(sorted(signed_query.split("&"))),
            f"host:{url.netloc}",
            f"x-k8s-aws-id:{cluster_name}",
            "",
            "host;x-k8s-aws-id",
            hashlib.sha256(b"").hexdigest(),
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", query["X-Amz-Date"], scope, digest])
    key = f"AWS4{os.environ['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    age = datetime.now(UTC) - datetime.strptime(query["X-Amz-Date"] + "+0000", "%Y%m%dT%H%M%SZ%z")
    return query["Action"] == "GetCallerIdentity" and key.hex() == signature and age < timedelta(minutes=15)


def test_the_function_finds_its_cluster_by_name_and_steps_the_replicas(
    eks: KubernetesFake, capsys: pytest.CaptureFixture[str]
) -> None:
    handler(HIGH_EVENT, Context())

    assert eks.deployments[KEY]["spec"]["replicas"] == 4
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "hook": "replicas",
        "alarm": "contracts-l1-high",
        "state": "ALARM",
        "transitioned_at": "2026-11-30T12:36:15.490000+00:00",
        "alarm_reason": HIGH_EVENT["alarmData"]["state"]["reason"],
        "cluster": "hyperpod",
        "deployment": "inference/contracts-engine",
        "dry_run": False,
        "action": "up",
        "replicas_before": 3,
        "replicas": 4,
        "reason": "contracts-l1-high went to ALARM: up from 3 to 4 replicas",
        "attempts": 1,
    }


@pytest.fixture
def roles(eks: KubernetesFake) -> KubernetesFake:
    """The cluster with the engines of an endpoint that prefills and decodes apart."""
    eks.create_deployment("inference", "llama-70b-prefill", replicas=1)
    eks.create_deployment("inference", "llama-70b-decode", replicas=4)
    return eks


def stepped(
    fake: KubernetesFake, monkeypatch: pytest.MonkeyPatch, role: str, event: dict[str, Any]
) -> tuple[str, dict[str, int]]:
    """What the function of a role does at an alarm's transition, and all replicas of the endpoint then."""
    alarm = PREFILL_EVENT["alarmData"]["alarmName"].removesuffix("prefill-high")
    bounds = {"prefill": ("1", "2"), "decode": ("3", "5")}[role]
    for name, value in {
        "DEPLOYMENT": f"llama-70b-{role}",
        "MIN_REPLICAS": bounds[0],
        "MAX_REPLICAS": bounds[1],
        "HIGH_ALARM": f"{alarm}{role}-high",
        "LOW_ALARM": f"{alarm}{role}-low",
    }.items():
        monkeypatch.setenv(name, value)
    line = handler(event, Context())
    replicas = {name: found["spec"]["replicas"] for (_, name), found in fake.deployments.items()}
    return line["action"], {role: replicas[f"llama-70b-{role}"] for role in ("prefill", "decode")}


def of_alarm(role: str, key: str) -> dict[str, Any]:
    """The transition of one of a role's alarms into ALARM."""
    name = PREFILL_EVENT["alarmData"]["alarmName"].replace("prefill-high", f"{role}-{key}")
    return {**PREFILL_EVENT, "alarmData": {**PREFILL_EVENT["alarmData"], "alarmName": name}}


@pytest.mark.parametrize(
    ("role", "key", "action", "expected"),
    [
        pytest.param("prefill", "high", "up", {"prefill": 2, "decode": 4}, id="prompts wait"),
        pytest.param("prefill", "low", "none", {"prefill": 1, "decode": 4}, id="the last one that prefills"),
        pytest.param("decode", "high", "up", {"prefill": 1, "decode": 5}, id="KV cache is full"),
        pytest.param("decode", "low", "down", {"prefill": 1, "decode": 3}, id="KV cache is empty"),
    ],
)
def test_each_role_is_stepped_within_its_bounds_and_the_other_stays(
    roles: KubernetesFake,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    key: str,
    action: str,
    expected: dict[str, int],
) -> None:
    assert stepped(roles, monkeypatch, role, of_alarm(role, key)) == (action, expected)


@pytest.mark.parametrize(("role", "other"), [("prefill", "decode"), ("decode", "prefill")])
def test_an_alarm_of_the_other_role_steps_nothing(
    roles: KubernetesFake, monkeypatch: pytest.MonkeyPatch, role: str, other: str
) -> None:
    found = stepped(roles, monkeypatch, role, of_alarm(other, "high"))

    assert found == ("none", {"prefill": 1, "decode": 4})


def test_a_step_of_one_role_starts_no_cooldown_of_the_other(
    roles: KubernetesFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped(roles, monkeypatch, "prefill", of_alarm("prefill", "high"))

    found = stepped(roles, monkeypatch, "decode", of_alarm("decode", "high"))

    assert found == ("up", {"prefill": 2, "decode": 5})


def test_a_failure_is_told_in_the_line_and_raised(
    eks: KubernetesFake, capsys: pytest.CaptureFixture[str]
) -> None:
    eks.refuse = {"PATCH": 403}

    with pytest.raises(ClusterError):
        handler(HIGH_EVENT, Context())

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["error"].startswith("ClusterError: PATCH https://127.0.0.1:")
    assert json.loads(line)["alarm"] == "contracts-l1-high"


def test_a_cluster_that_eks_does_not_know_is_named(
    eks: KubernetesFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "hyperpot")

    with pytest.raises(ClusterError, match="is CLUSTER_NAME right"):
        handler(HIGH_EVENT, Context())


def test_a_token_for_another_cluster_is_not_let_in(eks: KubernetesFake) -> None:
    eks.authenticate = lambda token: admitted(token, "another")

    with pytest.raises(ClusterError, match="HTTP 401"):
        handler(HIGH_EVENT, Context())


def test_an_aws_that_does_not_answer_is_an_error(
    eks: KubernetesFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{reserved.getsockname()[1]}")

        with pytest.raises(ClusterError, match="cannot describe the cluster hyperpod"):
            handler(HIGH_EVENT, Context())


def test_an_event_of_another_kind_is_refused_before_aws_is_asked(eks: KubernetesFake) -> None:
    with pytest.raises(EventError):
        handler({"detail-type": "Scheduled Event"}, Context())

    assert eks.requests == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLUSTER_NAME", ""),
        ("NAMESPACE", None),
        ("DEPLOYMENT", None),
        ("HIGH_ALARM", None),
        ("LOW_ALARM", "contracts-l1-high"),
        ("MIN_REPLICAS", "0"),
        ("MIN_REPLICAS", "two"),
        ("MAX_REPLICAS", "1"),
        ("MAX_REPLICAS", None),
        ("COOLDOWN_SECONDS", "-1"),
        ("COOLDOWN_SECONDS", "10m"),
        ("DRY_RUN", "maybe"),
    ],
)
def test_a_variable_that_cannot_work_is_named(
    name: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, good in ENVIRONMENT.items():
        monkeypatch.setenv(key, good)
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)

    with pytest.raises(SettingError) as refusal:
        handler(HIGH_EVENT, Context())

    assert str(refusal.value).startswith(
        f"{name} is {'not set' if value is None else repr(value)}; expected "
    )


def test_the_local_runner_decides_without_a_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for key, good in ENVIRONMENT.items():
        monkeypatch.setenv(key, good)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(HIGH_EVENT)))

    code = main(["--replicas", "3"])

    line = json.loads(capsys.readouterr().out)
    assert (code, line["action"], line["replicas"], line["dry_run"]) == (0, "up", 4, True)


def test_the_local_runner_reads_the_cluster_and_writes_nothing(
    eks: KubernetesFake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(LOW_EVENT)))

    code = main([])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["replicas"] == 2
    assert [method for method, _ in eks.requests] == ["GET"]


def test_the_local_runner_fails_where_the_function_would(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("no event"))

    code = main(["--replicas", "3"])

    assert code == 1
    assert json.loads(capsys.readouterr().out)["error"].startswith("EventError: standard input is no JSON")
