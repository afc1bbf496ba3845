"""Every series of who was let in is on the page, and there are not more than a scraper can bear."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from hypertier.router.access.counts import AccessCounts
from hypertier.router.access.metrics import AccessMetrics
from hypertier.router.access.tenants import MAX_KEPT, MAX_LABELS, OTHER, Tenants
from hypertier.spec.access import Access, Tenant

PAGE = Path(__file__).parents[4] / "docs" / "access.md"


def test_every_metric_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")

    names = {family.name for family in AccessMetrics(AccessCounts(), Tenants(Access(), None)).collect()}

    assert names
    assert not {name for name in names if name not in page}


def test_tenants_beyond_a_hundred_have_one_name_together() -> None:
    tenants = Tenants(Access(tenants=(Tenant(name="acme"),)), None)
    counts = AccessCounts()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(AccessMetrics(counts, tenants))

    for number in range(300):
        counts.admitted[tenants.get(f"t{number}", 0.0).label] += 1
    counts.admitted[tenants.get("acme", 0.0).label] += 1

    labels = set(counts.admitted)
    assert len(labels) == MAX_LABELS + 2
    assert {"acme", OTHER} < labels
    assert counts.admitted[OTHER] == 300 - MAX_LABELS
    assert generate_latest(registry).count(b"hypertier_router_tenant_in_flight{") == MAX_LABELS + 2


def test_tenants_that_do_nothing_are_forgotten() -> None:
    tenants = Tenants(Access(), None)
    busy = tenants.get("busy", 0.0)
    busy.limits.in_flight = 1

    for number in range(2 * MAX_KEPT):
        tenants.get(f"t{number}", 0.0)

    assert len(list(tenants)) <= MAX_KEPT
    assert tenants.get("busy", 0.0) is busy
