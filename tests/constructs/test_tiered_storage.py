"""HyperPod's tiered storage as L2."""

from __future__ import annotations

import pytest

from hypertier.errors import ConfigError
from hypertier_cdk import TieredStorage


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_a_share_of_memory_that_cannot_be_is_refused(percent: int) -> None:
    with pytest.raises(ConfigError) as refused:
        TieredStorage(memory_percent=percent)

    assert refused.value.setting == "memory_percent"


def test_tiered_storage_has_no_address_and_no_secret() -> None:
    storage = TieredStorage()

    assert (storage.backend, storage.url, storage.secret) == ("tieredstorage", None, None)
