"""How series are made of plain counts, in Prometheus' families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

F = TypeVar("F", CounterMetricFamily, GaugeMetricFamily)
K = TypeVar("K", bound=str | tuple[str, ...])


def counter(name: str, about: str, labels: Sequence[str], counts: Mapping[K, float]) -> CounterMetricFamily:
    """A counter by its labels: `counts` has a number for each value, or for each tuple of values."""
    return _filled(CounterMetricFamily(name, about, labels=labels), counts)


def gauge(name: str, about: str, labels: Sequence[str], values: Mapping[K, float]) -> GaugeMetricFamily:
    """A gauge by its labels."""
    return _filled(GaugeMetricFamily(name, about, labels=labels), values)


def _filled(family: F, counts: Mapping[K, float]) -> F:
    for key, number in counts.items():
        family.add_metric([key] if isinstance(key, str) else key, number)
    return family
