"""An emulated account whose functions reach moto, and an EKS cluster whose nodes the test decides on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes_assembly import HANDLER
from fakes_emulator import let_in_by, moto_providers, read_object
from fakes_kubernetes import Authority
from fakes_moto import ACCOUNT, REGION, aws_environment, moto_server
from fakes_nodes import NodesFake, nodes_api

from hypertier_cdk.testing import Emulator


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "index.py").write_text(HANDLER, encoding="utf-8")
    return folder


@dataclass(frozen=True)
class World:
    """The account, and the Kubernetes API of its one cluster, whose certificate is of `authority`."""

    fake: NodesFake
    emulator: Emulator
    authority: Authority


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with moto_server() as url, nodes_api(tmp_path) as (fake, authority):
        environment = aws_environment(url)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        emulator = Emulator(
            account=ACCOUNT,
            region=REGION,
            environment=environment,
            providers=moto_providers(fake, authority),
            assets=read_object,
            max_looks=2,
        )
        let_in_by(emulator, fake)
        yield World(fake, emulator, authority)
