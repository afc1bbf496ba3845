"""Did you mean."""

from __future__ import annotations

import pytest

from hypertier.spec.suggest import nearest

FIELDS = ["enableL1Cache", "enableL2Cache", "l2CacheSpec", "cacheConfigFile"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        pytest.param("enableL1cache", "enableL1Cache", id="case"),
        pytest.param("enable_l2_cache", "enableL2Cache", id="snake-case"),
        pytest.param("l2CacheSpecs", "l2CacheSpec", id="plural"),
        pytest.param("enableCache", None, id="two-are-as-near"),
        pytest.param("replicas", None, id="nothing-near"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_typed_word_means_the_one_near_it(typed: str, meant: str | None) -> None:
    assert nearest(typed, FIELDS) == meant
