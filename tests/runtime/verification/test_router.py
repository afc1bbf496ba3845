"""The command against a real router, with keys and TLS, in front of engines that cache."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fakes_endpoint import FakeEndpoint, fake_endpoint
from fakes_tls import Authority

from hypertier.cli.verify import command
from hypertier.router.access import keys

ROUTER = (sys.executable, "-c", "from hypertier.cli.main import main; main()", "router")
KEY = keys.new_key()


@contextmanager
def router(*args: str) -> Iterator[str]:
    """The address of a router process on a free port."""
    argv = [*ROUTER, "--listen", "127.0.0.1:0", "--metrics-port", "0", *args]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"https?://127\.0\.0\.1:\d+", line)
            assert found is not None, line
            yield found[0]
        finally:
            process.kill()


@contextmanager
def engines() -> Iterator[tuple[FakeEndpoint, FakeEndpoint]]:
    """Two engines with one L2, which tell nothing of replicas or strategies: the router does."""
    stored: set[str] = set()
    one, other = (
        FakeEndpoint(replicas=("engine",), tells_replica=False, by_header=False, stored=stored)
        for _ in range(2)
    )
    with fake_endpoint(one), fake_endpoint(other):
        yield one, other


def verify(url: str, *options: str, key: str = KEY) -> Result:
    arguments = [url, "--api-key-env", "KEY", "--prompt-tokens", "200", *options]
    return CliRunner(env={"KEY": key}).invoke(command, arguments)


@pytest.fixture
def access(tmp_path: Path) -> list[str]:
    """The arguments of a router that asks for keys."""
    (tmp_path / "keys").write_text(keys.line(KEY, "verification", None) + "\n")
    (tmp_path / "salt-key").write_text("QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n")
    return ["--api-keys", str(tmp_path / "keys"), "--salt-key", str(tmp_path / "salt-key")]


def test_a_router_with_keys_tls_and_routes_lets_every_check_pass(
    tmp_path: Path, access: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypertier.verification.verify.STORE_SECONDS", 0.0)
    authority = Authority(tmp_path)
    cert, key = authority.issue("router")
    routes = tmp_path / "routes.yaml"
    routes.write_text("strategyByHeader: true\n")
    with engines() as (one, other):
        replicas = ["--replica", one.url, "--replica", other.url]
        tls = ["--tls-cert", cert, "--tls-key", key]
        with router(*replicas, *access, *tls, "--routes", str(routes), "--explain-on-request") as url:
            done = verify(url, "--ca", authority.ca)
            refused = verify(url, "--ca", authority.ca, key="another")

    assert done.exit_code == 0, done.output
    assert done.output.count("passed  ") == 5
    assert one.received
    assert other.received
    assert {body["cache_salt"] for _, body in (*one.received, *other.received)} != {None}
    assert refused.exit_code == 1
    assert "it answers 401" in refused.output


def test_what_a_router_as_it_comes_does_not_tell_is_said_with_the_key_that_has_it_tell(
    access: list[str],
) -> None:
    with engines() as (one, other), router("--replica", one.url, "--replica", other.url, *access) as url:
        done = verify(url)

    assert done.exit_code == 2, done.output
    assert done.output.count("passed  ") == 4
    assert "could not be told  L2" in done.output
    assert "routing.explainOnRequest" in done.output
