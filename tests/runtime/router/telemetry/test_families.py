"""Plain counts as Prometheus' families."""

from __future__ import annotations

from hypertier.router.telemetry.families import counter, gauge


def test_a_family_has_a_series_for_each_value_or_tuple_of_values() -> None:
    one = counter("cakes", "Cakes.", ["kind"], {"plum": 2})
    two = gauge("cakes", "Cakes.", ["kind", "size"], {("plum", "large"): 1, ("plum", "small"): 3})

    assert [(sample.labels, sample.value) for sample in one.samples] == [({"kind": "plum"}, 2)]
    assert [(sample.labels["size"], sample.value) for sample in two.samples] == [("large", 1), ("small", 3)]


def test_a_family_without_counts_is_there_and_empty() -> None:
    assert counter("cakes", "Cakes.", ["kind"], {}).samples == []
