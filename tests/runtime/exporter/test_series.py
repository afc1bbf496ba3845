from __future__ import annotations

from collections.abc import Mapping

import pytest
from fakes_exporter import recorded
from hypothesis import given
from hypothesis import strategies as st

from hypertier.exporter.metrics import (
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    KV_CACHE_USAGE,
    L1_USAGE,
    NEEDS_L1,
    REQUESTS_WAITING,
    VLLM_METRICS,
    WATCHED_SERIES,
)
from hypertier.exporter.scrape import Scrape, parse_metrics
from hypertier.exporter.series import MAX_VALUES, DataPoint, endpoint_data, hit_ratio

BUSY = parse_metrics(recorded("busy"))
BUSIER = parse_metrics(recorded("busier"))
IDLE = parse_metrics(recorded("idle"))
WITHOUT_L1 = parse_metrics(recorded("without-connector"))
NONE = frozenset[str]()


def scrape(**values: float | tuple[float, ...]) -> Scrape:
    """A scrape of the names' last words, such as usage_perc; what is not named is missing."""
    names = {
        "l1": L1_USAGE,
        "kv": KV_CACHE_USAGE,
        "waiting": REQUESTS_WAITING,
        "hits": EXTERNAL_HITS,
        "queries": EXTERNAL_QUERIES,
    }
    told = {names[key]: v if isinstance(v, tuple) else (v,) for key, v in values.items()}
    return Scrape(told, frozenset(VLLM_METRICS) - set(told))


def by_name(data: list[DataPoint]) -> dict[str, tuple[float, ...]]:
    return {point.series.name: point.values for point in data}


def test_a_busy_replica_gives_all_four_series() -> None:
    data = by_name(endpoint_data({"a": BUSY}, {"a": BUSIER}, num_failed=0, ignore=NONE))

    assert data["ExternalHitRatio"] == (pytest.approx(896 / 1984),)
    assert data["L1UsageRatio"] == data["KvCacheUsageRatio"] == data["QueuedRequests"] == (0.0,)
    assert (data["SeriesAbsent"], data["MetricsMissing"], data["ReplicasScraped"]) == ((0.0,), (0.0,), (1.0,))


@pytest.mark.parametrize(
    ("before", "now", "absent"),
    [
        pytest.param({}, {}, {s.name for s in WATCHED_SERIES}, id="no replica"),
        pytest.param({}, {"a": BUSY}, {"ExternalHitRatio"}, id="a first scrape has nothing to compare with"),
        pytest.param({"a": BUSY}, {"a": BUSY}, {"ExternalHitRatio"}, id="no lookup in between"),
        pytest.param({"a": IDLE}, {"a": IDLE}, {"ExternalHitRatio", "L1UsageRatio"}, id="an idle engine"),
        pytest.param(
            {"a": WITHOUT_L1},
            {"a": WITHOUT_L1},
            {"ExternalHitRatio", "L1UsageRatio"},
            id="an engine without L1",
        ),
        pytest.param({"a": BUSY}, {"b": BUSIER}, {"ExternalHitRatio"}, id="another replica"),
    ],
)
def test_what_cannot_be_computed_is_absent_and_counted(
    before: Mapping[str, Scrape], now: Mapping[str, Scrape], absent: set[str]
) -> None:
    data = by_name(endpoint_data(before, now, num_failed=0, ignore=NONE))

    assert {series.name for series in WATCHED_SERIES} - set(data) == absent
    assert data["SeriesAbsent"] == (float(len(absent)),)


def test_usage_has_one_value_a_replica_and_the_queue_one_for_all() -> None:
    now = {"a": scrape(kv=0.2, waiting=3.0), "b": scrape(kv=(0.4, 0.8), waiting=(1.0, 2.0))}

    data = by_name(endpoint_data({}, now, num_failed=1, ignore=NONE))

    assert data["KvCacheUsageRatio"] == (pytest.approx(0.2), pytest.approx(0.6))
    assert data["QueuedRequests"] == (6.0,)
    assert data["ReplicasFailed"] == (1.0,)


def test_missing_names_are_counted_over_all_replicas_but_for_the_ignored() -> None:
    now = {"a": WITHOUT_L1, "b": WITHOUT_L1, "c": BUSY}

    counted = by_name(endpoint_data({}, now, num_failed=0, ignore=NONE))
    ignored = by_name(endpoint_data({}, now, num_failed=0, ignore=NEEDS_L1))

    assert counted["MetricsMissing"] == (2.0,)
    assert ignored["MetricsMissing"] == (0.0,)


def test_more_replicas_than_one_metric_may_carry_are_split() -> None:
    now = {str(number): scrape(kv=0.5) for number in range(MAX_VALUES + 1)}

    sizes = [
        len(p.values)
        for p in endpoint_data({}, now, num_failed=0, ignore=NONE)
        if p.series.name == "KvCacheUsageRatio"
    ]

    assert sizes == [MAX_VALUES, 1]


def test_after_a_restart_a_replica_counts_from_zero() -> None:
    before = {"a": scrape(hits=900.0, queries=1000.0)}

    assert hit_ratio(before, {"a": scrape(hits=10.0, queries=100.0)}) == pytest.approx(0.1)


@given(st.lists(st.tuples(*[st.integers(0, 10**12)] * 4), min_size=1, max_size=4))
def test_a_hit_ratio_is_a_ratio_whatever_the_counters_say(counters: list[tuple[int, int, int, int]]) -> None:
    before = {str(i): scrape(hits=float(a), queries=float(b)) for i, (a, b, _, _) in enumerate(counters)}
    now = {str(i): scrape(hits=float(c), queries=float(d)) for i, (_, _, c, d) in enumerate(counters)}

    ratio = hit_ratio(before, now)

    assert ratio is None or 0.0 <= ratio <= 1.0
