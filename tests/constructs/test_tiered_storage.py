"""HyperPod's tiered storage as L2: by percent, GiB or tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import ConfigError
from hypertier_cdk import TieredStorage

P5 = "ml.p5.48xlarge"  # 2048 GiB
LLAMA_70B_KV_BYTES = 320 * 1024


@pytest.mark.parametrize(
    ("storage", "percent"),
    [
        pytest.param(lambda: TieredStorage(), 20, id="AWS's own default"),
        pytest.param(lambda: TieredStorage.of_gib(512, P5), 25, id="GiB, a whole percent"),
        pytest.param(lambda: TieredStorage.of_gib(513, P5), 26, id="GiB, rounded up"),
        pytest.param(lambda: TieredStorage.of_gib(0.1, P5), 1, id="hardly any GiB"),
        pytest.param(lambda: TieredStorage.of_gib(2048, P5), 100, id="all GiB"),
        pytest.param(
            lambda: TieredStorage.of_tokens(1_342_177, LLAMA_70B_KV_BYTES, P5), 20, id="tokens of Llama 70B"
        ),
    ],
)
def test_a_size_becomes_whole_percents_of_a_node(storage: Callable[[], TieredStorage], percent: int) -> None:
    assert storage().memory_percent == percent


@given(gib=st.floats(0.01, 2048))
def test_the_share_holds_at_least_what_was_asked_for(gib: float) -> None:
    percent = TieredStorage.of_gib(gib, P5).memory_percent

    assert 2048 * percent / 100 >= gib > 2048 * (percent - 1) / 100


@pytest.mark.parametrize(
    ("build", "setting"),
    [
        pytest.param(lambda: TieredStorage(memory_percent=0), "memory_percent", id="no percent"),
        pytest.param(lambda: TieredStorage(memory_percent=-1), "memory_percent", id="negative percent"),
        pytest.param(lambda: TieredStorage(memory_percent=101), "memory_percent", id="more than all"),
        pytest.param(lambda: TieredStorage.of_gib(0, P5), "gib_per_node", id="no GiB"),
        pytest.param(lambda: TieredStorage.of_gib(2049, P5), "gib_per_node", id="more GiB than a node has"),
        pytest.param(lambda: TieredStorage.of_gib(1, "ml.x9.large"), "instance_type", id="an unknown type"),
        pytest.param(lambda: TieredStorage.of_tokens(0, 1, P5), "tokens_per_node", id="no tokens"),
        pytest.param(
            lambda: TieredStorage.of_tokens(10**7, LLAMA_70B_KV_BYTES, P5),
            "tokens_per_node",
            id="more tokens than fit",
        ),
    ],
)
def test_a_share_of_memory_that_cannot_be_is_refused(build: Callable[[], object], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build()

    assert refused.value.setting == setting


def test_tiered_storage_has_no_address_and_no_secret() -> None:
    storage = TieredStorage()

    assert (storage.backend, storage.url, storage.secret) == ("tieredstorage", None, None)
