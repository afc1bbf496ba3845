"""One lab with real engines for all tests here: what the charts render of the reference deployment."""

from __future__ import annotations

import hypertier_cdk.testing.files  # noqa: F401  # isort: skip  # before what imports aws_cdk

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes_lab import TOOLS, write_reference

from hypertier.lab.client import ask
from hypertier.lab.engine_env import PYTHON_VARIABLE, find_engine_python
from hypertier.lab.lab import Lab
from hypertier.lab.metrics import read_counts
from hypertier.lab.prepare import prepare_lab, render_file

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two real engines that call tools, the router and Valkey; started once, which takes a minute."""
    file = write_reference(tmp_path_factory.mktemp("lab"), *TOOLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PYTHON_VARIABLE, str(find_engine_python(os.environ, ROOT)))
        patch.chdir(file.parent)
        name, objects = render_file(file)
        with prepare_lab(objects, name, "vllm", 2, print) as lab:
            yield lab


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """The lab with whatever an earlier test ended started again, and L2 in use by every engine."""
    missing = shared_lab.missing
    shared_lab.start(missing)
    if "valkey" in missing:
        for url in shared_lab.plan.replica_urls:
            wait_until_l2_is_used(url, shared_lab.plan.model_name)
    return shared_lab


def wait_until_l2_is_used(url: str, model: str) -> None:
    """Send prompts until one is stored: an engine leaves an L2 that failed alone for up to 45 s."""
    deadline = time.monotonic() + 120
    before = read_counts(url)
    while read_counts(url).since(before).l2_write_bytes == 0:
        assert time.monotonic() < deadline, f"{url} does not use L2 again"
        ask(url, model, f"{time.monotonic_ns()} is a prompt of its own. " * 20, max_tokens=1)
