from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.figures import quantile, table


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_a_value_that_its_share_does_not_exceed(values: list[float], ratio: float) -> None:
    found = quantile(values, ratio)

    assert found in values
    assert sum(value <= found for value in values) >= ratio * len(values)
    assert sum(value < found for value in values) < ratio * len(values)


def test_columns_are_as_wide_as_what_stands_in_them() -> None:
    rows = [("a", "long"), ("longer", "b")]

    assert list(table(rows)) == ["a       long", "longer  b"]
    assert list(table(rows, ruled=True)) == ["a       long", "------  ----", "longer  b"]
