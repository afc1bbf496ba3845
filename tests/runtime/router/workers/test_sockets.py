"""Sockets that outlive who serves on them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fakes_engine import FakeEngine, RawClient, eventually, get, post, run_loop

from hypertier.errors import ConfigError
from hypertier.router.app import Router
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.listening import Sockets
from hypertier.router.settings import RouterSettings
from hypertier.router.workers.sockets import bind, bind_group, close

ANY = Address("127.0.0.1", 0)


def test_group_shares_a_port_that_nobody_else_gets_once_one_listens() -> None:
    groups = bind_group("--listen", ANY, 3)
    ports = {one.getsockname()[1] for group in groups for one in group}
    groups[0][0].listen()

    try:
        with pytest.raises(ConfigError, match="--listen is "):
            bind_group("--listen", Address("127.0.0.1", ports.pop()), 1)
    finally:
        for group in groups:
            close(group)

    assert not ports


def test_one_covers_for_another_as_long_as_that_is_away() -> None:
    async def act() -> tuple[list[int], list[int]]:
        engine = await FakeEngine().start()
        groups = bind_group("--listen", ANY, 2)
        port = groups[0][0].getsockname()[1]
        for group in groups:
            group[0].listen(100)
        sockets = Sockets([groups[0][0].dup()], bind("--metrics-port", ANY), None, 1)
        router = Router(RouterSettings(replicas=(engine.url,), strategy="roundrobin"), sockets=sockets)
        await router.start()
        clients = [await RawClient.connect(port) for _ in range(32)]  # of which about half are the other's
        for client in clients:
            client.send(get(b"/health"))
        await asyncio.sleep(0)
        await router.cover({1: [groups[1][0].dup()]})
        statuses = [(await client.answer()).status for client in clients]
        await router.cover({})
        for group in groups:
            close(group)
        listeners = [len(listener._servers) for listener in router._listeners]
        await router.stop()
        return statuses, listeners

    statuses, listeners = run_loop(act())

    assert statuses == [200] * 32
    assert listeners == [1]


def test_worker_divides_limits_from_its_first_request_on(tmp_path: Path) -> None:
    (tmp_path / "access.yaml").write_text("access: {default: {requestsPerMinute: 60}}")

    async def act() -> bytes | None:
        engine = await FakeEngine().start()
        group = bind_group("--listen", ANY, 1)[0]
        sockets = Sockets([group[0].dup()], bind("--metrics-port", ANY), None, 4)
        settings = RouterSettings(
            replicas=(engine.url,),
            strategy="roundrobin",
            access=str(tmp_path / "access.yaml"),
            metrics_port=0,
        )
        router = Router(settings, sockets=sockets)
        await router.start()
        client = await RawClient.connect(group[0].getsockname()[1])
        client.send(post(b"/v1/chat/completions", b"{}"))
        answer = await client.answer()
        close(group)
        await router.stop()
        return answer.header(b"x-ratelimit-limit-requests")

    assert run_loop(act()) == b"15"


def test_replaced_router_ends_connections_with_their_next_answer_and_none_in_between() -> None:
    async def act() -> tuple[int, int, bytes | None, bytes]:
        engine = await FakeEngine().start()
        group = bind_group("--listen", ANY, 1)[0]
        sockets = Sockets([group[0].dup()], bind("--metrics-port", ANY), None, 1)
        router = Router(RouterSettings(replicas=(engine.url,), strategy="roundrobin"), sockets=sockets)
        await router.start()
        client = await RawClient.connect(group[0].getsockname()[1])
        client.send(get(b"/health"))
        first = await client.answer()
        draining = asyncio.create_task(router.drain(is_replaced=True))
        await eventually(lambda: router.front.draining)
        router.front.sweep()
        client.send(get(b"/health"))
        second = await client.answer()
        end = await client.ended()
        await draining
        close(group)
        return first.status, second.status, second.header(b"connection"), end

    assert run_loop(act()) == (200, 200, b"close", b"")
