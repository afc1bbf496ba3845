"""Kubernetes' stand-in behind TLS, for what the hook writes there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes_kubernetes import Authority, KubernetesFake


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority.create()


@pytest.fixture
def kubernetes(authority: Authority, tmp_path: Path) -> Iterator[KubernetesFake]:
    with KubernetesFake(authority.server_context(tmp_path)) as fake:
        yield fake
