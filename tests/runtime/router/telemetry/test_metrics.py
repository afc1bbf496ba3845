"""Counts as Prometheus reads them, and the page that explains each."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes_router import Traffic
from prometheus_client.parser import text_string_to_metric_families

from hypertier.router.telemetry.metrics import FIRST_BYTE_SECONDS, Metrics, PeerCounts

PAGE = Path(__file__).parents[4] / "docs" / "router.md"


def metrics() -> Metrics:
    traffic = Traffic("prefixaware", 2)
    return Metrics(traffic.strategy, traffic.replicas)


def samples(of: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(of.text().decode())
        for sample in family.samples
    }


def test_counts_become_series() -> None:
    one = metrics()

    one.counts.answered("http://a:1", "2xx")
    one.counts.answered("http://a:1", "2xx")
    one.counts.retried("connect")
    one.counts.ejected("http://a:1", "health_bad")
    one.counts.picked("prefix", 100, 64)

    found = samples(one)
    key = (("replica", "http://a:1"), ("status", "2xx"), ("strategy", "prefixaware"))
    assert found["hypertier_router_requests_total", key] == 2
    assert found["hypertier_router_retries_total", (("cause", "connect"),)] == 1
    key = (("cause", "health_bad"), ("replica", "http://a:1"))
    assert found["hypertier_router_ejections_total", key] == 1
    assert found["hypertier_router_picks_total", (("reason", "prefix"), ("strategy", "prefixaware"))] == 1
    assert found["hypertier_router_prompt_bytes_total", ()] == 100
    assert found["hypertier_router_matched_prompt_bytes_total", ()] == 64


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.005, "0.01"), (0.01, "0.01"), (0.3, "0.5"), (1e6, "+Inf")]
)
def test_first_byte_falls_into_its_bucket(seconds: float, bucket: str) -> None:
    one = metrics()

    one.counts.first_byte(seconds)

    found = samples(one)
    counts = {
        dict(labels)["le"]: value
        for (name, labels), value in found.items()
        if name == "hypertier_router_first_byte_seconds_bucket"
    }
    assert len(counts) == len(FIRST_BYTE_SECONDS) + 1
    assert next(bound for bound, value in counts.items() if value) == bucket
    assert found["hypertier_router_first_byte_seconds_sum", (("strategy", "prefixaware"),)] == seconds


def test_series_of_a_replica_go_with_it() -> None:
    one = metrics()
    one.counts.answered("http://a:1", "2xx")
    one.counts.ejected("http://a:1", "connect")
    one.counts.answered("http://b:1", "2xx")

    one.counts.forget("http://a:1")

    text = one.text()
    assert b"http://a:1" not in text
    assert b"http://b:1" in text


def test_every_metric_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")

    names = {family.name for one in (metrics(), PeerCounts()) for family in one.collect()}

    assert names
    assert not {name for name in names if name not in page}
