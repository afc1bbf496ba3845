"""Sizes, rates and durations as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import ConfigError
from hypertier.spec.quantities import (
    format_bytes,
    parse_bytes,
    parse_bytes_per_second,
    parse_count,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes, "800Gi", 800 * 2**30),
        (parse_bytes, "1.5Gi", 3 * 2**29),
        (parse_bytes, "500M", 500_000_000),
        (parse_bytes, 1024, 1024),
        (parse_count, "1500m", 1.5),
        (parse_count, 8, 8.0),
        (parse_bytes_per_second, "8GB/s", 8 * 10**9),
        (parse_bytes_per_second, "100 MiB/s", 100 * 2**20),
        (parse_seconds, "24h", 86400),
        (parse_seconds, "15m", 900),
    ],
)
def test_a_value_is_read_with_its_unit(
    parse: Callable[[str, object], float], text: object, value: float
) -> None:
    assert parse("setting", text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_bytes, "800GB"),
        (parse_bytes, "800 Gi"),
        (parse_bytes, "-1Gi"),
        (parse_bytes, "100m"),
        (parse_bytes, True),
        (parse_bytes, ""),
        (parse_count, "4Gi"),
        (parse_count, "four"),
        (parse_bytes_per_second, "8"),
        (parse_bytes_per_second, "8Gbit/s"),
        (parse_seconds, "24"),
        (parse_seconds, "1.5h"),
    ],
)
def test_a_value_without_a_known_unit_is_refused_by_its_setting(
    parse: Callable[[str, object], float], text: object
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse("cache.size", text)

    assert refused.value.setting == "cache.size"
    assert refused.value.got == text


@given(st.integers(0, 2**60))
def test_bytes_are_formatted_so_that_they_read_back_the_same(num_bytes: int) -> None:
    assert parse_bytes("setting", format_bytes(num_bytes)) == num_bytes
