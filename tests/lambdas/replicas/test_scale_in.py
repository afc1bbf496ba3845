"""Before a step down the coldest replicas are marked, and whatever fails there, the step is made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from fakes_kubernetes import Authority, KubernetesFake
from fakes_moto import REGION, aws_environment, moto_server

from hypertier.exporter import metrics
from hypertier_lambdas.replicas import warmth
from hypertier_lambdas.replicas.coldest import DELETION_COST, WORTH
from hypertier_lambdas.replicas.decision import Limits
from hypertier_lambdas.replicas.errors import FiguresError
from hypertier_lambdas.replicas.handler import apply
from hypertier_lambdas.replicas.kubernetes import KubernetesApi, tls_context
from hypertier_lambdas.replicas.scale_in import MIN_SECONDS, STEP_SECONDS
from hypertier_lambdas.replicas.settings import Settings
from hypertier_lambdas.replicas.warmth import FRESH, _query, read_warm_tokens

EVENTS = Path(__file__).parents[2] / "events"
HIGH_EVENT = json.loads((EVENTS / "cloudwatch-alarm-high.json").read_text(encoding="utf-8"))
LOW_EVENT = json.loads((EVENTS / "cloudwatch-alarm-low.json").read_text(encoding="utf-8"))
KEY = ("inference", "contracts-engine")
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
LIMITS = Limits(1, 7, timedelta(seconds=600), "contracts-l1-high", "contracts-l1-low")
SETTINGS = Settings("hyperpod", *KEY, LIMITS, dry_run=False, endpoint="contracts")
WORTHS = {"10.0.0.1": 900.0, "10.0.0.2": 20.0, "10.0.0.3": 500.0}


class World:
    """Three engines of different worth, of which the oldest is the coldest, and one of another endpoint."""

    def __init__(self, fake: KubernetesFake, authority: Authority) -> None:
        self.fake, self.authority = fake, authority
        self.worths: Mapping[str, float] | FiguresError = WORTHS
        self.seconds = [30.0]
        fake.create_deployment(*KEY, replicas=3)
        for name, ip, age in (("a", "10.0.0.1", 1), ("b", "10.0.0.2", 9), ("c", "10.0.0.3", 2)):
            fake.create_pod(KEY[0], name, ip, app=KEY[1], age=age)
        fake.create_pod(KEY[0], "other", "10.0.0.9", app="other-engine")

    def apply(self, event: Any = LOW_EVENT, settings: Settings = SETTINGS) -> dict[str, Any]:
        line: dict[str, Any] = {}
        left = iter(self.seconds)
        last = self.seconds[-1]

        def connect(_: str, remaining: Any) -> KubernetesApi:
            return KubernetesApi(self.fake.endpoint, tls_context(self.authority.pem), "token", lambda: 30.0)

        apply(event, settings, connect, NOW, lambda: next(left, last), line, self._warm_tokens)
        return line

    def _warm_tokens(self, endpoint: str, addresses: Sequence[str], now: datetime) -> Mapping[str, float]:
        assert (endpoint, now) == ("contracts", NOW)
        assert "10.0.0.9" not in addresses
        if isinstance(self.worths, FiguresError):
            raise self.worths
        return self.worths

    def marks(self) -> dict[str, str]:
        return {
            name: pod["metadata"]["annotations"][DELETION_COST]
            for (_, name), pod in self.fake.pods.items()
            if DELETION_COST in pod["metadata"]["annotations"]
        }

    @property
    def replicas(self) -> int:
        replicas: int = self.fake.deployments[KEY]["spec"]["replicas"]
        return replicas


@pytest.fixture
def world(kubernetes: KubernetesFake, authority: Authority) -> World:
    return World(kubernetes, authority)


def test_the_coldest_replica_goes_and_the_warm_ones_stay(world: World) -> None:
    line = world.apply()

    assert (line["coldest"], line["replicas"], line["endpoint"]) == (["b"], 2, "contracts")
    assert "coldest_unknown" not in line
    assert world.fake.pods[KEY[0], "b"]["metadata"]["annotations"] == {
        "example.com/owner": "llm",
        DELETION_COST: "-1",
        WORTH: "20",
    }
    assert world.fake.reconcile(*KEY) == ["a", "c", "other"]
    assert world.marks() == {}


def test_without_a_mark_kubernetes_would_have_taken_the_youngest(world: World) -> None:
    world.apply(settings=replace(SETTINGS, endpoint=""))

    assert world.fake.reconcile(*KEY) == ["b", "c", "other"]
    assert not any("/pods" in path for _, path in world.fake.requests)


def test_marks_are_written_before_there_are_fewer_replicas(world: World) -> None:
    world.apply()

    assert [(method, path.partition("?")[0].rpartition("/")[2]) for method, path in world.fake.requests] == [
        ("GET", "contracts-engine"),
        ("GET", "pods"),
        ("PATCH", "b"),
        ("PATCH", "contracts-engine"),
    ]


def test_a_step_up_marks_nobody(world: World) -> None:
    line = world.apply(HIGH_EVENT)

    assert (line["action"], "coldest" in line, world.marks()) == ("up", False, {})


def test_dry_run_names_the_coldest_and_writes_nothing(world: World) -> None:
    line = world.apply(settings=replace(SETTINGS, dry_run=True))

    assert line["coldest"] == ["b"]
    assert {method for method, _ in world.fake.requests} == {"GET"}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param("stale", "1 of 3 replicas, such as c, have no fresh WarmTokens", id="a stale figure"),
        pytest.param("silent", "CloudWatch did not tell WarmTokens: throttled", id="no figures"),
        pytest.param("list", "HTTP 403: the test refuses GET of pods", id="may not list pods"),
        pytest.param("patch", "HTTP 403: the test refuses PATCH of pods", id="may not mark pods"),
        pytest.param("late", f"less than {MIN_SECONDS:g} seconds are left", id="little time"),
        pytest.param("later", f"less than {STEP_SECONDS:g} seconds were left to mark b", id="slow figures"),
        pytest.param("selector", "spec.selector.matchLabels is empty", id="no labels to select by"),
    ],
)
def test_who_cannot_tell_the_coldest_says_so_and_the_step_is_made(
    world: World, fault: str, reason: str
) -> None:
    if fault == "stale":
        world.worths = {ip: tokens for ip, tokens in WORTHS.items() if ip != "10.0.0.3"}
    elif fault == "silent":
        world.worths = FiguresError("CloudWatch did not tell WarmTokens: throttled")
    elif fault == "list":
        world.fake.refuse_pods = {"GET": 403}
    elif fault == "patch":
        world.fake.refuse_pods = {"PATCH": 403}
    elif fault == "selector":
        world.fake.deployments[KEY]["spec"]["selector"] = {"matchExpressions": []}
    else:
        world.seconds = [20.0] if fault == "late" else [30.0, 9.0]

    line = world.apply()

    assert reason in line["coldest_unknown"]
    assert (line["coldest"], world.marks()) == ([], {})
    assert world.replicas == 2


def test_a_mark_of_a_step_that_was_not_made_does_not_outlive_the_next(world: World) -> None:
    world.fake.pods[KEY[0], "a"]["metadata"]["annotations"] |= {DELETION_COST: "-1", WORTH: "0"}
    world.worths = {}

    line = world.apply()

    assert "no fresh WarmTokens" in line["coldest_unknown"]
    assert world.marks() == {}


def test_a_write_in_between_is_decided_on_and_marked_again(world: World) -> None:
    foreign = iter([2])
    world.fake.before_patch = lambda: (
        [world.fake.patch(*KEY, {"spec": {"replicas": n}}) for n in foreign] and None
    )

    line = world.apply()

    assert (line["attempts"], line["replicas"], line["coldest"]) == (2, 1, ["b", "c"])
    assert world.marks() == {"b": "-2", "c": "-1"}


# What CloudWatch holds, against moto.


@pytest.fixture
def cloudwatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with moto_server() as url:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        yield boto3.client("cloudwatch", region_name=REGION)


def test_the_newest_fresh_figure_of_each_address_counts(cloudwatch: Any) -> None:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    minute = timedelta(minutes=1)
    for endpoint, ip, age, value in (
        ("contracts", "10.0.0.1", 2 * minute, 700.0),
        ("contracts", "10.0.0.1", 1 * minute, 900.0),
        ("contracts", "10.0.0.2", FRESH + minute, 20.0),
        ("another", "10.0.0.3", minute, 500.0),
    ):
        dimensions = {"Endpoint": endpoint, "Replica": ip}
        datum = {
            "MetricName": "WarmTokens",
            "Dimensions": [{"Name": name, "Value": text} for name, text in dimensions.items()],
            "Timestamp": now - age,
            "Value": value,
        }
        cloudwatch.put_metric_data(Namespace="Hypertier", MetricData=[datum])

    found = read_warm_tokens("contracts", ["10.0.0.1", "10.0.0.2", "10.0.0.3"], now)

    assert found == {"10.0.0.1": 900.0}


def test_a_cloudwatch_that_does_not_answer_is_named(cloudwatch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    with pytest.raises(FiguresError, match="did not tell WarmTokens: Could not connect"):
        read_warm_tokens("contracts", ["10.0.0.1"], NOW)


def test_the_names_are_those_that_the_exporter_writes() -> None:
    dimensions = {
        entry["Name"] for entry in _query("r0", "contracts", "ip")["MetricStat"]["Metric"]["Dimensions"]
    }

    assert (metrics.NAMESPACE, metrics.WARM_TOKENS.name) == (warmth.NAMESPACE, warmth.SERIES)
    assert dimensions == {metrics.DIMENSION, metrics.REPLICA_DIMENSION}
