"""What an error says."""

from __future__ import annotations

from typing import Any

import pytest

from hypertier.errors import ConfigError


@pytest.mark.parametrize(
    ("got", "shown"),
    [
        pytest.param("p5", "'p5'", id="text"),
        pytest.param(None, "None", id="nothing"),
        pytest.param("a" * 5000, "'" + "a" * 199 + "…", id="long-text"),
        pytest.param([1] * 5000, "[" + "1, " * 66 + "1…", id="long-list"),
        pytest.param(10**5000, "a number of thousands of digits", id="number-that-python-does-not-write"),
    ],
)
def test_a_setting_s_value_is_shown_up_to_where_one_reads(got: Any, shown: str) -> None:
    error = ConfigError("cache.l2.size", got, "an amount of memory")

    assert str(error) == f"cache.l2.size is {shown}; expected an amount of memory"
    assert error.got == got
