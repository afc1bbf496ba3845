"""What routers say of requests, and what is published of it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fakes_engine import FakeEngine, RawClient, eventually, post, run_loop
from fakes_exporter import metrics_server, recorded
from fakes_router import routed

from hypertier.errors import ScrapeError
from hypertier.exporter import exporter as module
from hypertier.exporter.discovery import fixed
from hypertier.exporter.exporter import Exporter
from hypertier.exporter.metrics import CAPTURES_LOST, HELD_REQUESTS, IDLE_REPLICAS, POOL_QUEUED_REQUESTS
from hypertier.exporter.routers import LOST, RouterScrape, parse_router, router_data
from hypertier.exporter.series import MAX_VALUES, DataPoint
from hypertier.router.capture.capture import RESULTS

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
IDLE = RouterScrape(held=0, sent=7, in_flight=0)


def page(*, held: int = 0, sent: int = 7) -> str:
    return (
        "# TYPE hypertier_router_held gauge\n"
        f"hypertier_router_held {held}\n"
        "# TYPE hypertier_router_picks_total counter\n"
        f'hypertier_router_picks_total{{strategy="prefixaware",reason="load"}} {sent}\n'
    )


def told(
    before: dict[str, RouterScrape], now: dict[str, RouterScrape], num_failed: int = 0
) -> dict[str, float]:
    data = router_data(before, now, num_failed=num_failed, num_replicas=2)
    return {point.series.name: point.values[0] for point in data}


@pytest.mark.parametrize(
    ("before", "now", "num_failed", "expected"),
    [
        pytest.param([IDLE], [IDLE], 0, 2, id="nobody asks"),
        pytest.param([IDLE], [RouterScrape(0, 8, 0)], 0, 0, id="one was sent"),
        pytest.param([IDLE], [RouterScrape(0, 7, 1)], 0, 0, id="one is in flight"),
        pytest.param([IDLE], [RouterScrape(1, 7, 0)], 0, 0, id="one is held"),
        pytest.param([IDLE], [RouterScrape(0, 1, 0)], 0, 0, id="a router that began anew has sent one"),
        pytest.param([IDLE], [RouterScrape(0, 0, 0)], 0, 2, id="a router that began anew has sent none"),
        pytest.param([], [IDLE], 0, 0, id="a router not seen before"),
        pytest.param([IDLE, IDLE], [IDLE, RouterScrape(0, 9, 0)], 0, 0, id="another router sent"),
        pytest.param([IDLE], [IDLE], 1, None, id="not known of all"),
        pytest.param([IDLE], [RouterScrape(0, 9, 0)], 1, 0, id="known of one that is not idle"),
        pytest.param([IDLE], [], 1, None, id="nothing is known"),
    ],
)
def test_replicas_are_idle_where_no_router_sent_anything(
    before: list[RouterScrape], now: list[RouterScrape], num_failed: int, expected: float | None
) -> None:
    data = told(dict(zip("ab", before, strict=False)), dict(zip("ab", now, strict=False)), num_failed)

    assert data.get(IDLE_REPLICAS.name) == expected


def test_held_requests_of_all_routers_are_added_up() -> None:
    data = told({}, {"a": RouterScrape(2, 0, 0), "b": RouterScrape(3, 0, 0)}, 1)

    assert data[HELD_REQUESTS.name] == 5


def test_a_router_s_own_metrics_tell_both() -> None:
    async def act() -> tuple[RouterScrape, RouterScrape]:
        engine = FakeEngine(healthy=False)
        async with routed(engine, hold_seconds=60.0, health_interval_seconds=0.02) as router:
            client = await RawClient.connect(router.port)
            client.send(post(b"/v1/completions", b"{}"))
            holding = router.front._proxy.holding
            assert holding is not None
            await eventually(lambda: len(holding) == 1)
            before = parse_router(router.metrics.text().decode())
            engine.healthy = True
            await client.answer()
            return before, parse_router(router.metrics.text().decode())

    assert run_loop(act()) == (RouterScrape(1, 0, 0), RouterScrape(0, 1, 0))


@pytest.mark.parametrize("text", ["{", "# TYPE other gauge\nother 1\n"], ids=["no page", "no router's page"])
def test_a_page_that_does_not_tell_is_a_failure_and_no_zero(text: str) -> None:
    with pytest.raises(ScrapeError):
        parse_router(text)


def capturing(**counts: int) -> RouterScrape:
    lines = "".join(
        f'hypertier_router_captures_total{{result="{result}"}} {number}\n'
        for result, number in counts.items()
    )
    return parse_router(page() + f"# TYPE hypertier_router_captures_total counter\n{lines}")


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param({"busy": 2}, {"busy": 2, "captured": 90, "not_answered": 5}, 0, id="none was lost"),
        pytest.param({"busy": 2}, {"busy": 3, "spool_full": 4, "failed": 5}, 10, id="each way to lose one"),
        pytest.param({"busy": 9}, {"busy": 3}, 3, id="a router that began anew"),
        pytest.param(None, {"busy": 9}, 0, id="nobody knows when"),
    ],
)
def test_captures_that_are_lost_are_those_since_the_last_look(
    before: dict[str, int] | None, now: dict[str, int], expected: float
) -> None:
    known = {} if before is None else {"a": capturing(**before)}

    assert told(known, {"a": capturing(**now)})[CAPTURES_LOST.name] == expected


def test_all_that_a_router_lost_that_joined_others_was_lost_since() -> None:
    data = told({"a": capturing(busy=9)}, {"a": capturing(busy=9), "b": capturing(busy=2)})

    assert data[CAPTURES_LOST.name] == 2


def queueing(**queued: int) -> RouterScrape:
    lines = "".join(f'hypertier_router_pool_queued{{pool="{name}"}} {one}\n' for name, one in queued.items())
    return parse_router(page() + f"# TYPE hypertier_router_pool_queued gauge\n{lines}")


def test_what_waits_in_the_queues_is_told_by_pool_of_all_routers_together() -> None:
    scraped = {"a": queueing(small=3, large=40), "b": queueing(large=2), "c": parse_router(page())}

    data = router_data({}, scraped, num_failed=0, num_replicas=2)

    assert [point.values for point in data if point.series is POOL_QUEUED_REQUESTS] == [(3.0, 42.0)]


def test_a_router_with_a_queue_says_what_waits_in_it(tmp_path: Path) -> None:
    policy = tmp_path / "access.yaml"
    policy.write_text("access: {queue: {maxInFlightPerReplica: 1}}")

    async def act() -> RouterScrape:
        async with routed(FakeEngine(models=("m",)), access=str(policy)) as router:
            return parse_router(router.metrics.text().decode())

    assert run_loop(act()).queued == {("m",): 0.0, ("(any)",): 0.0, ("(gone)",): 0.0}


def test_more_pools_than_one_data_point_may_have_values_are_told_by_several() -> None:
    scrape = queueing(**{f"m{number}": 1 for number in range(MAX_VALUES + 1)})

    data = router_data({}, {"a": scrape}, num_failed=0, num_replicas=2)

    assert [len(point.values) for point in data if point.series is POOL_QUEUED_REQUESTS] == [MAX_VALUES, 1]


def test_routers_that_neither_hold_nor_capture_tell_nothing() -> None:
    silent_router = RouterScrape(None, 7, 0)

    assert told({"a": silent_router}, {"a": silent_router}) == {}


def test_a_router_s_own_page_tells_what_it_lost(tmp_path: Path) -> None:
    async def act() -> RouterScrape:
        async with routed(FakeEngine(), capture_spool=str(tmp_path)) as router:
            return parse_router(router.metrics.text().decode())

    captures = run_loop(act()).captures

    assert captures is not None
    assert {(result,) for result in RESULTS} == set(captures)
    assert set(RESULTS) > LOST


class Published:
    """Keeps what it was given, and calls when something came."""

    def __init__(self, stop: threading.Event, wanted: int) -> None:
        self.data: list[dict[str, float]] = []
        self._stop = stop
        self._wanted = wanted

    def publish(self, data: list[DataPoint], at: datetime) -> None:
        self.data.append({point.series.name: point.values[0] for point in data})
        if len(self.data) >= self._wanted:
            self._stop.set()


def test_held_requests_are_published_between_two_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_SECONDS", 0.01)
    stop = threading.Event()
    published = Published(stop, wanted=3)
    with metrics_server(recorded("busy")) as engine, metrics_server(page(held=4)) as router:
        Exporter(fixed([engine.url]), published, routers=fixed([router.url]), clock=lambda: NOW).run(stop)

    assert published.data[0] | {HELD_REQUESTS.name: 4.0, IDLE_REPLICAS.name: 0.0} == published.data[0]
    assert published.data[1:] == [{HELD_REQUESTS.name: 4.0}] * 2


def test_an_endpoint_falls_idle_once_two_cycles_saw_nothing_new() -> None:
    published = Published(threading.Event(), wanted=9)
    with metrics_server(recorded("busy")) as engine, metrics_server(page()) as router:
        exporter = Exporter(fixed([engine.url]), published, routers=fixed([router.url]), clock=lambda: NOW)
        exporter.step()
        exporter.step()
        router.text = page(sent=8)
        exporter.step()

    assert [data[IDLE_REPLICAS.name] for data in published.data] == [0, 1, 0]
