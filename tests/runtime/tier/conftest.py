"""Real engines for the tests that need them: vLLM is imported once, each engine is a fork of that process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakes_tier_engine import Engine, EngineHost, engine_host_in


@pytest.fixture(scope="session")
def engine_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHost]:
    with engine_host_in(tmp_path_factory.mktemp("engines")) as host:
        yield host


@pytest.fixture(scope="session")
def plain_engine(engine_host: EngineHost) -> Engine:
    """An engine without our cache: what it says is right."""
    return engine_host.start(None)
