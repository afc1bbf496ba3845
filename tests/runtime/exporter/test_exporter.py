from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from fakes_exporter import metrics_server, recorded

from hypertier.errors import PublishError, ScrapeError
from hypertier.exporter.discovery import fixed
from hypertier.exporter.exporter import NUM_LATE_INTERVALS, Exporter
from hypertier.exporter.metrics import DECODE, L1_USAGE, NEEDS_L1, PREFILL, SERIES
from hypertier.exporter.series import DataPoint
from hypertier.spec import roles

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
NOBODY = "http://127.0.0.1:9"


class Published:
    """Keeps what it was given, or refuses it."""

    def __init__(self) -> None:
        self.data: list[dict[str, tuple[float, ...]]] = []
        self.by_role: list[dict[tuple[str | None, str], tuple[float, ...]]] = []
        self.times: list[datetime] = []
        self.refuses = False

    def publish(self, data: Sequence[DataPoint], at: datetime) -> None:
        if self.refuses:
            raise PublishError("CloudWatch did not take 7 data points: throttled")
        self.data.append({point.series.name: point.values for point in data})
        self.by_role.append({(point.role, point.series.name): point.values for point in data})
        self.times.append(at)


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_two_cycles_tell_the_share_found_between_them() -> None:
    published = Published()
    with metrics_server(recorded("busy")) as server:
        exporter = Exporter(fixed([server.url]), published, clock=lambda: NOW)

        exporter.step()
        server.text = recorded("busier")
        exporter.step()

    assert "ExternalHitRatio" not in published.data[0]
    assert published.data[1]["ExternalHitRatio"] == (pytest.approx(896 / 1984),)
    assert published.times == [NOW, NOW]


def test_a_dead_replica_is_counted_and_the_others_are_published() -> None:
    published = Published()
    with metrics_server(recorded("busy")) as server:
        exporter = Exporter(fixed([server.url, NOBODY]), published)

        exporter.step()

    assert published.data[0]["ReplicasScraped"] == (1.0,)
    assert published.data[0]["ReplicasFailed"] == (1.0,)
    assert published.data[0]["KvCacheUsageRatio"] == (0.0,)
    assert exporter.health()["scrape_failures"] == 1


def test_a_replica_that_was_away_for_a_cycle_is_compared_with_before() -> None:
    published = Published()
    with metrics_server(recorded("busy")) as server:
        exporter = Exporter(fixed([server.url]), published)

        exporter.step()
        server.status = 500
        exporter.step()
        server.status, server.text = 200, recorded("busier")
        exporter.step()

    assert published.data[2]["ExternalHitRatio"] == (pytest.approx(896 / 1984),)


def test_a_name_that_does_not_resolve_for_a_cycle_is_counted_and_loses_nothing() -> None:
    published = Published()
    answers = iter(["found", "lost", "found"])
    with metrics_server(recorded("busy")) as server:

        def discover() -> list[str]:
            if next(answers) == "lost":
                raise ScrapeError("dns://engines:8000 cannot be resolved: try again")
            return [server.url]

        exporter = Exporter(discover, published)

        exporter.step()
        exporter.step()
        server.text = recorded("busier")
        exporter.step()

    assert exporter.health()["discovery_failures"] == 1
    assert published.data[1]["ReplicasScraped"] == (0.0,)
    assert published.data[2]["ExternalHitRatio"] == (pytest.approx(896 / 1984),)


def test_a_cloudwatch_that_takes_nothing_is_counted_and_does_not_restart_the_pod() -> None:
    published = Published()
    published.refuses = True
    exporter = Exporter(fixed([NOBODY]), published)

    exporter.step()

    health = exporter.health()
    assert (health["publish_failures"], health["cycles"], health["healthy"]) == (1, 1, True)
    assert health["last_published"] == ""


def test_a_missing_metric_is_said_loudly_once_and_again_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with metrics_server(recorded("without-connector")) as server:
        exporter = Exporter(fixed([server.url]), Published())

        exporter.step()
        exporter.step()
        shown = exporter.health()["metrics_missing"]
        server.text = recorded("busy")
        exporter.step()

    said = [(r.levelname, r.getMessage()) for r in caplog.records if L1_USAGE in r.getMessage()]
    assert [level for level, _ in said] == ["ERROR", "INFO"]
    assert shown == (L1_USAGE,)
    assert exporter.health()["metrics_missing"] == ()


def test_an_engine_that_is_to_have_no_l1_does_not_miss_it() -> None:
    with metrics_server(recorded("without-connector")) as server:
        exporter = Exporter(fixed([server.url]), Published(), ignore=NEEDS_L1)

        exporter.step()

    assert exporter.health()["metrics_missing"] == ()


def test_engines_of_one_kind_have_no_role() -> None:
    published = Published()
    with metrics_server(recorded("busy")) as server:
        Exporter(fixed([server.url]), published).step()

    assert {role for role, _ in published.by_role[0]} == {None}


def test_engines_that_prefill_and_that_decode_have_each_series_apart_and_none_over_both() -> None:
    published = Published()
    with metrics_server(recorded("busy")) as decode, metrics_server(recorded("busy")) as prefill:
        exporter = Exporter(fixed([decode.url, NOBODY]), published, prefill=fixed([prefill.url]))

        exporter.step()
        decode.text = recorded("busier")
        prefill.text = queued(7)
        exporter.step()

    told = published.by_role[1]
    assert {role for role, _ in told} == {PREFILL, DECODE}
    assert {name for role, name in told if role == DECODE} == {series.name for series in SERIES}
    assert (told[PREFILL, "QueuedRequests"], told[DECODE, "QueuedRequests"]) == ((7.0,), (0.0,))
    assert (told[PREFILL, "ReplicasFailed"], told[DECODE, "ReplicasFailed"]) == ((0.0,), (1.0,))
    assert told[DECODE, "ExternalHitRatio"] == (pytest.approx(896 / 1984),)
    assert (PREFILL, "ExternalHitRatio") not in told, "nothing was looked up there in between"
    assert exporter.health()["replicas"] == 2


def test_a_role_that_nobody_finds_leaves_the_other_one_as_it_is() -> None:
    published = Published()

    def lost() -> list[str]:
        raise ScrapeError("dns://prefill:8000 cannot be resolved: try again")

    with metrics_server(recorded("busy")) as decode:
        exporter = Exporter(fixed([decode.url]), published, prefill=lost)

        exporter.step()
        decode.text = recorded("busier")
        exporter.step()

    told = published.by_role[1]
    assert exporter.health()["discovery_failures"] == 2
    assert (told[PREFILL, "ReplicasScraped"], told[DECODE, "ReplicasScraped"]) == ((0.0,), (1.0,))
    assert (PREFILL, "QueuedRequests") not in told
    assert told[DECODE, "ExternalHitRatio"] == (pytest.approx(896 / 1984),)


def test_an_engine_that_changes_its_role_is_compared_with_nothing_of_the_other() -> None:
    published = Published()
    with metrics_server(recorded("busy")) as server:
        found = {PREFILL: [server.url], DECODE: list[str]()}
        exporter = Exporter(lambda: found[DECODE], published, prefill=lambda: found[PREFILL])

        exporter.step()
        found[PREFILL], found[DECODE] = found[DECODE], found[PREFILL]
        server.text = recorded("busier")
        exporter.step()

    assert not {name for _, name in published.by_role[1]} & {"ExternalHitRatio"}


def test_the_roles_are_those_of_the_charts() -> None:
    assert (PREFILL, DECODE) == (roles.PREFILL, roles.DECODE)


def queued(requests: int) -> str:
    """A busy engine's /metrics, with so many requests waiting."""
    name = 'vllm:num_requests_waiting{engine="0",model_name="llama"}'
    return recorded("busy").replace(f"{name} 0.0", f"{name} {requests}.0")


def test_a_loop_that_stands_still_is_unhealthy() -> None:
    clock = Clock()
    exporter = Exporter(fixed([NOBODY]), Published(), interval_seconds=60.0, monotonic=clock)

    clock.seconds = NUM_LATE_INTERVALS * 60.0
    in_time = exporter.health()["healthy"]
    clock.seconds += 0.1
    late = exporter.health()["healthy"]

    assert (in_time, late) == (True, False)


def test_the_loop_ends_when_it_is_told_to() -> None:
    stop = threading.Event()
    published = Published()

    def discover() -> list[str]:
        if len(published.data) == 2:
            stop.set()
        return []

    Exporter(discover, published, interval_seconds=0.001).run(stop)

    assert len(published.data) == 3
