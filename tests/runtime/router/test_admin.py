"""Who may read what on the port beside the clients'."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from fakes_engine import FakeEngine, RawClient, get, post, run_loop
from fakes_router import routed

from hypertier.router.admin import Admin, is_loopback
from hypertier.router.http.connection import ClientConnection


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
def test_the_machine_itself_is_near(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1%eth0", "169.254.170.23", "0.0.0.0", ""]
)
def test_whoever_else_is_not(address: str) -> None:
    assert not is_loopback(address)


def statuses(is_near: Callable[[str], bool], *requests: bytes) -> list[tuple[int, bytes]]:
    """What a port for metrics answers those who are near by `is_near`."""

    async def run() -> list[tuple[int, bytes]]:
        async with routed(FakeEngine()) as router:
            loop = asyncio.get_running_loop()
            admin = Admin(router.front, is_near=is_near)
            server = await loop.create_server(lambda: ClientConnection(admin), "127.0.0.1", 0)
            client = await RawClient.connect(server.sockets[0].getsockname()[1])
            answers = []
            for request in requests:
                client.send(request)
                answer = await client.answer()
                answers.append((answer.status, answer.body))
            server.close()
            return answers

    return run_loop(run())


ASKED = (get(b"/metrics"), get(b"/decisions"), post(b"/explain?tenant=acme", b'{"prompt": "x"}'))


def test_metrics_are_for_all_and_decisions_for_the_machine_alone() -> None:
    near = statuses(is_loopback, *ASKED)
    far = statuses(lambda address: False, *ASKED)

    assert [status for status, _ in near] == [200, 200, 200]
    assert [status for status, _ in far] == [200, 403, 403]
    assert "kubectl port-forward" in json.loads(far[2][1])["error"]["message"]
