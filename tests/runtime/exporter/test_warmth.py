"""What a replica is worth: what its own caches gave lately, and what its running requests hold."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fakes_exporter import metrics_server, recorded

from hypertier.exporter.discovery import fixed
from hypertier.exporter.exporter import Exporter
from hypertier.exporter.metrics import WARM_TOKENS
from hypertier.exporter.scrape import Scrape, parse_metrics
from hypertier.exporter.series import DataPoint
from hypertier.exporter.warmth import WINDOW_SECONDS, Warmth
from hypertier.router.replicas.cache_sizes import read

A, B = "http://10.0.0.1:8000", "http://10.0.0.2:8000"
USAGE = 'vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.0'


def scrape(found: float | None, held: float | None = 0.0) -> Scrape:
    return Scrape({}, frozenset(), found, held)


def worths(data: list[DataPoint]) -> dict[str | None, float]:
    return {point.replica: point.values[0] for point in data}


def test_vllm_tells_what_its_gpu_and_l1_gave_and_what_its_requests_hold() -> None:
    text = recorded("busier")
    assert USAGE in text

    told = parse_metrics(text.replace(USAGE, USAGE.replace("0.0", "0.25")))

    assert told.found_tokens == 1792 + 1792
    assert told.held_tokens == 0.25 * 16384


@pytest.mark.parametrize("state", ["idle", "busy", "busier", "without-connector"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_scrape_and_a_router_read_the_same_size_of_a_cache(state: str, ranks: int) -> None:
    text = recorded(state).replace(USAGE, USAGE.replace("0.0", "1.0"))
    (size,) = [line for line in text.splitlines() if line.startswith("vllm:cache_config_info{")]
    others = [size.replace('engine="0"', f'engine="{rank}"') for rank in range(1, ranks)]

    text = text.replace(size, "\n".join([size, *others]))

    assert parse_metrics(text).held_tokens == read(text.encode()).cache_tokens == ranks * 16384


@pytest.mark.parametrize("value", ["None", "-5", "1e3", "", "9" * 19, "²"])
def test_a_size_that_is_no_number_tells_nothing_of_what_is_held(value: str) -> None:
    text = recorded("busier")
    for name in ("kv_cache_size_tokens", "num_gpu_blocks"):
        text = re.sub(rf'\b{name}="[^"]*"', f'{name}="{value}"', text)

    assert parse_metrics(text).held_tokens is None


def test_a_scrape_is_read_once() -> None:
    class Text(str):
        encoded = 0

        def encode(self, *args: str, **options: str) -> bytes:
            Text.encoded += 1
            return super().encode(*args, **options)

    parse_metrics(Text(recorded("busier")))

    assert Text.encoded == 0


@pytest.mark.parametrize("source", ["disk", "p2p", "external_unspecified"])
def test_what_came_from_elsewhere_does_not_go_with_the_pod(source: str) -> None:
    sample = f'vllm:prompt_tokens_cached_by_source_total{{engine="0",model_name="llama",source="{source}"}}'

    told = parse_metrics(recorded("busier").replace(f"{sample} 0.0", f"{sample} 4096.0"))

    assert told.found_tokens == 1792 + 1792


def test_a_vllm_that_tells_no_sources_counts_by_its_gpu() -> None:
    lines = recorded("busier").splitlines(keepends=True)

    told = parse_metrics("".join(line for line in lines if "cached_by_source" not in line))

    assert told.found_tokens == 1792


def test_a_replica_counts_from_its_second_scrape_on() -> None:
    warmth = Warmth()

    first = warmth.step({A: scrape(5000.0)}, at=0.0)
    second = warmth.step({A: scrape(5300.0, held=40.0), B: scrape(9000.0)}, at=60.0)

    assert first == []
    assert worths(second) == {"10.0.0.1": 340.0}
    assert second[0].series == WARM_TOKENS


def test_what_was_found_longer_ago_than_the_window_is_forgotten() -> None:
    warmth = Warmth()
    warmth.step({A: scrape(0.0)}, at=0.0)
    warmth.step({A: scrape(8000.0)}, at=60.0)

    within = warmth.step({A: scrape(8000.0)}, at=WINDOW_SECONDS)
    later = warmth.step({A: scrape(8000.0)}, at=WINDOW_SECONDS + 60.0)

    assert worths(within) == {"10.0.0.1": 8000.0}
    assert worths(later) == {"10.0.0.1": 0.0}


def test_an_address_that_another_engine_took_over_counts_from_zero() -> None:
    warmth = Warmth()
    warmth.step({A: scrape(0.0)}, at=0.0)
    warmth.step({A: scrape(8000.0)}, at=60.0)

    taken_over = warmth.step({A: scrape(300.0)}, at=120.0)

    assert worths(taken_over) == {"10.0.0.1": 300.0}


def test_a_replica_that_is_gone_is_forgotten_after_the_window() -> None:
    warmth = Warmth()
    warmth.step({A: scrape(0.0)}, at=0.0)

    back = warmth.step({A: scrape(900.0)}, at=WINDOW_SECONDS + 1.0)

    assert back == []


@pytest.mark.parametrize("missing", ["found_tokens", "held_tokens"])
def test_what_nobody_tells_has_no_data_point(missing: str) -> None:
    warmth = Warmth()
    warmth.step({A: scrape(0.0)}, at=0.0)

    assert warmth.step({A: replace(scrape(8000.0), **{missing: None})}, at=60.0) == []


@pytest.mark.parametrize("per_replica", [True, False])
def test_the_exporter_writes_it_where_it_was_asked_to(per_replica: bool) -> None:
    published: list[DataPoint] = []

    class Publisher:
        def publish(self, data: list[DataPoint], at: object) -> None:
            published.extend(data)

    with metrics_server(recorded("busy")) as server:
        exporter = Exporter(fixed([server.url]), Publisher(), per_replica=per_replica)

        exporter.step()
        server.text = recorded("busier")
        exporter.step()

    found = [(point.replica, point.values) for point in published if point.series == WARM_TOKENS]
    assert found == ([("127.0.0.1", (1792.0,))] if per_replica else [])
