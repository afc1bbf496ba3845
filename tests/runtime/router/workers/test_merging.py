"""One page of the workers' pages."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hypertier.router.workers import merging
from hypertier.router.workers.merging import LARGEST, LEAST, SUMS, Page, Stage

PAGE = """\
# TYPE hypertier_router_requests_total counter
hypertier_router_requests_total{{replica="http://a:1",status="2xx"}} {count}
# TYPE hypertier_router_first_byte_seconds histogram
hypertier_router_first_byte_seconds_bucket{{le="0.1"}} {count}
hypertier_router_first_byte_seconds_bucket{{le="+Inf"}} {more}
hypertier_router_first_byte_seconds_count {more}
hypertier_router_first_byte_seconds_sum {count}
# TYPE hypertier_router_in_flight gauge
hypertier_router_in_flight{{replica="http://a:1"}} {count}
# TYPE hypertier_router_replica_healthy gauge
hypertier_router_replica_healthy{{replica="http://a:1"}} {healthy}
# TYPE hypertier_router_discovery_silence_seconds gauge
hypertier_router_discovery_silence_seconds{{of="replicas"}} {count}
"""
ONE = PAGE.format(count=2.0, more=3.0, healthy=1.0)
OTHER = PAGE.format(count=5.0, more=7.0, healthy=0.0)


def lines_of(page: Page) -> set[str]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(page)
    return {line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")}


def test_counts_and_histograms_add_up_and_a_gauge_is_what_its_name_says() -> None:
    page = Page()

    page.add(ONE)
    page.add(OTHER)

    assert lines_of(page) == {
        'hypertier_router_requests_total{replica="http://a:1",status="2xx"} 7.0',
        'hypertier_router_first_byte_seconds_bucket{le="0.1"} 7.0',
        'hypertier_router_first_byte_seconds_bucket{le="+Inf"} 10.0',
        "hypertier_router_first_byte_seconds_count 10.0",
        "hypertier_router_first_byte_seconds_sum 7.0",
        'hypertier_router_in_flight{replica="http://a:1"} 7.0',
        'hypertier_router_replica_healthy{replica="http://a:1"} 0.0',
        'hypertier_router_discovery_silence_seconds{of="replicas"} 5.0',
    }


def test_what_a_worker_counted_outlives_it_and_its_gauges_do_not() -> None:
    ended, live = Page(), Page()
    ended.add(OTHER, of=Stage.ENDED)
    live.add(ONE)

    live.add_page(ended)

    assert 'hypertier_router_requests_total{replica="http://a:1",status="2xx"} 7.0' in lines_of(live)
    assert 'hypertier_router_in_flight{replica="http://a:1"} 2.0' in lines_of(live)


def test_worker_that_leaves_counts_with_what_it_has_in_flight_and_not_with_what_it_knows() -> None:
    page = Page()
    page.add(ONE)

    page.add(OTHER, of=Stage.LEAVING)

    assert 'hypertier_router_in_flight{replica="http://a:1"} 7.0' in lines_of(page)
    assert 'hypertier_router_replica_healthy{replica="http://a:1"} 1.0' in lines_of(page)


def test_a_worker_that_leaves_has_requests_of_a_pool_and_no_slots_for_more() -> None:
    page = Page()
    for stage in (Stage.SERVING, Stage.LEAVING):
        text = "".join(
            f'# TYPE hypertier_router_pool_{name} gauge\nhypertier_router_pool_{name}{{pool="p"}} 3.0\n'
            for name in ("running", "slots")
        )
        page.add(text, of=stage)

    assert 'hypertier_router_pool_running{pool="p"} 6.0' in lines_of(page)
    assert 'hypertier_router_pool_slots{pool="p"} 3.0' in lines_of(page)


def test_replicas_that_no_worker_lists_any_more_are_forgotten() -> None:
    ended, live = Page(), Page()
    ended.add(OTHER.replace("http://a:1", "http://gone:1"), of=Stage.ENDED)
    live.add(ONE)

    ended.forget_replicas_but(live)

    assert "gone" not in str(lines_of(ended))
    assert "hypertier_router_first_byte_seconds_count 7.0" in lines_of(ended)


def process_page() -> str:
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return generate_latest(registry).decode()


def test_every_gauge_of_the_router_has_a_rule() -> None:
    sources = Path(merging.__file__).parents[1]
    paths = [path for path in sources.rglob("*.py") if path.parent != Path(merging.__file__).parent]
    text = "".join(path.read_text() for path in paths)
    named = set(re.findall(r'(?:GaugeMetricFamily|gauge)\(\s*"(\w+)"', text))
    tenants = {"hypertier_router_tenant_in_flight", "hypertier_router_tenant_queued"}  # in a loop there

    of_process = {
        family.name for family in text_string_to_metric_families(process_page()) if family.type == "gauge"
    }

    named |= tenants | of_process

    assert named == SUMS | LEAST | LARGEST
    assert len(SUMS) + len(LEAST) + len(LARGEST) == len(named)


def test_decisions_of_all_workers_are_latest_first() -> None:
    told = [(0, [{"clock_seconds": 3.0}, {"clock_seconds": 1.0}]), (1, [{"clock_seconds": 2.0}])]

    latest = merging.decisions(told, 2)

    assert [(one["worker"], one["clock_seconds"]) for one in latest] == [(0, 3.0), (1, 2.0)]
