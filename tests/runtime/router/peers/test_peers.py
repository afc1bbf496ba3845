"""Routers over loopback: they find one another, lose one another, and are none the worse for it."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from fakes_engine import FakeEngine, RawClient, Received, Stream, eventually, get, post, run_loop
from fakes_router import routed, told

from hypertier.errors import ConfigError
from hypertier.router.app import Router
from hypertier.router.discovery.addresses import Address
from hypertier.router.peers.news import (
    GREETING_BYTES,
    Finished,
    News,
    Sent,
    finished_message,
    greeting,
    sent_message,
)
from hypertier.router.peers.peers import MAX_PEERS, Peers
from hypertier.router.settings import RouterSettings
from hypertier.router.telemetry.metrics import PeerCounts

CHAT = b"/v1/chat/completions"
ANY = Address("127.0.0.1", 0)


class Sharing:
    """Remembers what it is told; `first` is what it says to who connects."""

    def __init__(self, first: bytes = b"") -> None:
        self.first = first
        self.heard_news: list[Any] = []
        self.num_lost = 0

    def in_flight_messages(self) -> tuple[bytes, int]:
        return self.first, 1 if self.first else 0

    def heard(self, peer: Hashable, what: News, now: float) -> None:
        self.heard_news.append(told(what))

    def lost(self, peer: Hashable, now: float) -> None:
        self.num_lost += 1


@asynccontextmanager
async def peer(first: bytes = b"", **settings: Any) -> AsyncIterator[tuple[Peers, Sharing]]:
    """One side, listening on a free port, quick to try again."""
    peers = Peers(PeerCounts(), time.monotonic, **({"retry_seconds": 0.01} | settings))
    sharing = Sharing(first)
    await peers.start(ANY, sharing)
    try:
        yield peers, sharing
    finally:
        await peers.stop()


def address_of(peers: Peers) -> Address:
    return Address("127.0.0.1", peers.port)


def number(of: int) -> bytes:
    return finished_message(of)


def test_what_one_tells_the_others_hear_in_order_and_first_what_was_in_flight() -> None:
    async def act() -> tuple[list[Any], list[Any], int]:
        first = sent_message(7, b"a:1", 10, 0, True, (1, 2))
        async with peer(first) as (one, _), peer() as (two, heard_two), peer() as (three, heard_three):
            one.replace([address_of(two), address_of(three)])
            await eventually(lambda: one.counts.num_told == 2)
            for i in range(100):
                one.tell(number(i))
            await eventually(lambda: len(heard_two.heard_news) == len(heard_three.heard_news) == 101)
            return heard_two.heard_news, heard_three.heard_news, one.counts.num_out

    two, three, num_out = run_loop(act())

    first = Sent(7, b"a:1", 10, 0, True, (1, 2))
    assert two == three == [told(first), *(told(Finished(i)) for i in range(100))]
    assert num_out == 202


def test_what_was_told_before_a_router_connected_is_not_told_to_it_again() -> None:
    """What is in flight then has it already; told twice, it would end the connection."""

    async def act() -> list[Any]:
        async with peer() as (one, _), peer() as (two, _), peer() as (late, heard):
            one.replace([address_of(two)])
            await eventually(lambda: one.counts.num_told == 1)
            one.replace([address_of(two), address_of(late)])
            of = 0
            while one.counts.num_told < 2:
                one.tell(number(of := of + 1))
                await asyncio.sleep(0)
            one.tell(number(0))
            await eventually(lambda: bool(heard.heard_news) and heard.heard_news[-1] == told(Finished(0)))
            return heard.heard_news

    assert run_loop(act()) == [told(Finished(0))]


def test_no_more_routers_are_told_than_may_be() -> None:
    async def act() -> int:
        async with peer(retry_seconds=5.0) as (one, _):
            one.replace(Address("127.0.0.1", 1 + number) for number in range(3 * MAX_PEERS))
            return len(one._keepers.keys - {None})

    assert run_loop(act()) == MAX_PEERS


def test_routers_that_are_told_nothing_are_spoken_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        async with peer(retry_seconds=5.0) as (one, _):
            for _ in range(3):
                one.replace(Address("127.0.0.1", 1 + number) for number in range(MAX_PEERS + 1))

    run_loop(act())

    said = [text for text in caplog.messages if text.endswith("are told what this one sends")]
    assert said == [
        f"of {MAX_PEERS + 1} other routers (their workers counted) the first {MAX_PEERS} "
        "are told what this one sends"
    ]


def test_a_router_does_not_tell_itself() -> None:
    async def act() -> tuple[int, int, dict[str, int]]:
        async with peer() as (one, heard), peer() as (two, _):
            one.replace([address_of(one), address_of(two)])
            await eventually(lambda: one.counts.num_told == 1)
            await eventually(lambda: all(link.peer_id != one.router_id for link in one.incoming))
            return len(heard.heard_news), one.counts.num_told, dict(one.counts.losses)

    assert run_loop(act()) == (0, 1, {})


def test_a_router_that_comes_back_hears_again_what_is_in_flight() -> None:
    async def act() -> list[int]:
        first = sent_message(7, b"a:1", 10, 0, True, ())
        async with peer(first) as (one, _):
            async with peer() as (two, heard):
                address = address_of(two)
                one.replace([address])
                await eventually(lambda: len(heard.heard_news) == 1)
            await eventually(lambda: one.counts.num_told == 0)
            one.tell(finished_message(1))
            again, heard_again = Peers(PeerCounts(), time.monotonic), Sharing()
            await again.start(address, heard_again)
            await eventually(lambda: len(heard_again.heard_news) == 1)
            await again.stop()
            return [number for kind, number, *_ in heard_again.heard_news if kind is Sent]

    assert run_loop(act()) == [7]


def test_a_router_that_is_no_longer_listed_is_told_no_more() -> None:
    async def act() -> tuple[int, int]:
        async with peer() as (one, _), peer() as (two, heard):
            one.replace([address_of(two)])
            await eventually(lambda: two.counts.num_heard == 1)
            one.replace([])
            await eventually(lambda: two.counts.num_heard == 0)
            return one.counts.num_told, heard.num_lost

    assert run_loop(act()) == (0, 1)


def test_a_slow_router_loses_its_connection_and_no_memory_grows() -> None:
    async def act() -> tuple[bool, int]:
        loop = asyncio.get_running_loop()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        port = listening.getsockname()[1]
        batch = sent_message(1, b"a:1", 10, 0, True, tuple(range(101))) * 60
        most = 0
        async with peer(max_queued_bytes=100_000) as (one, _), peer() as (good, heard):
            one.replace([Address("127.0.0.1", port), address_of(good)])
            deaf, _ = await loop.sock_accept(listening)
            await loop.sock_sendall(deaf, greeting(bytes(16)))
            await eventually(lambda: one.counts.num_told == 2)
            while not one.counts.dropped["slow"]:
                one.tell(batch)
                await eventually(lambda: not one._waiting)
                most = max([most, *(link.num_queued for link in one._outgoing)])
            one.tell(number(2))
            await eventually(lambda: bool(heard.heard_news) and heard.heard_news[-1] == told(Finished(2)))
            lost = one.counts.losses["slow"]
        deaf.close()
        listening.close()
        return most < 100_000 + len(batch), lost

    bounded, lost = run_loop(act())

    assert bounded
    assert lost == 1


def test_a_silent_router_is_forgotten() -> None:
    async def act() -> tuple[int, int]:
        async with peer(alive_seconds=0.01, silent_seconds=0.1) as (one, heard):
            client = await RawClient.connect(one.port)
            client.send(greeting(bytes(16)) + number(1))
            await eventually(lambda: bool(heard.heard_news))
            await client.ended()
            return one.counts.losses["silent"], heard.num_lost

    assert run_loop(act()) == (1, 1)


def test_a_router_with_nothing_to_tell_says_that_it_is_alive() -> None:
    async def act() -> tuple[bytes, int]:
        heard = asyncio.Queue[bytes]()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting(bytes(16)))
            await reader.readexactly(GREETING_BYTES)
            heard.put_nowait(await reader.readexactly(6))
            writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with peer(alive_seconds=0.01) as (one, _):
            one.replace([Address("127.0.0.1", server.sockets[0].getsockname()[1])])
            said = await heard.get()
        server.close()
        return said, one.counts.num_out

    assert run_loop(act()) == (b"\0\0\x04\0\0\x04", 0)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        pytest.param(b"htrn\x03" + bytes(16), "version", id="later-version"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "malformed", id="http"),
        pytest.param(greeting(bytes(16)) + b"\xff\xff\x01", "malformed", id="longer-than-any"),
        pytest.param(greeting(bytes(16)) + b"\0\0\x09", "malformed", id="unknown-kind"),
    ],
)
def test_who_does_not_speak_the_protocol_is_refused_and_counted(data: bytes, cause: str) -> None:
    async def act() -> tuple[bytes, dict[str, int], int]:
        async with peer() as (one, _):
            client = await RawClient.connect(one.port)
            client.send(data)
            said = await client.ended()
            await eventually(lambda: not one.incoming)
            return said, dict(one.counts.losses), one.counts.num_heard

    said, losses, num_heard = run_loop(act())

    assert losses == {cause: 1}
    assert num_heard == 0
    assert len(said) in (0, GREETING_BYTES)  # a reset may overtake it where more was sent than read


def test_a_listener_of_another_version_is_told_nothing_and_tried_again() -> None:
    async def act() -> tuple[int, bytes]:
        connections = list[bytes]()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"htrn\x03" + bytes(16))
            connections.append(await reader.read())
            writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with peer(first=number(1)) as (one, _):
            one.replace([Address("127.0.0.1", server.sockets[0].getsockname()[1])])
            await eventually(lambda: len(connections) >= 2)
            told = one.counts.num_told
        server.close()
        return told, connections[0][GREETING_BYTES:]

    assert run_loop(act()) == (0, b"")


def test_a_greeting_may_come_in_parts() -> None:
    async def act() -> list[Any]:
        async with peer() as (one, heard):
            client = await RawClient.connect(one.port)
            data = greeting(bytes(16)) + number(1) + number(2)
            for i in range(len(data)):
                client.send(data[i : i + 1])
                await client.writer.drain()
                await asyncio.sleep(0)
            await eventually(lambda: len(heard.heard_news) == 2)
            return heard.heard_news

    assert run_loop(act()) == [told(Finished(1)), told(Finished(2))]


def test_the_same_router_is_heard_on_its_latest_connection_alone() -> None:
    async def act() -> tuple[int, dict[str, int]]:
        async with peer() as (one, _):
            old = await RawClient.connect(one.port)
            old.send(greeting(bytes(16)))
            await eventually(lambda: one.counts.num_heard == 1)
            new = await RawClient.connect(one.port)
            new.send(greeting(bytes(16)))
            await old.ended()
            return one.counts.num_heard, dict(one.counts.losses)

    assert run_loop(act()) == (1, {"replaced": 1})


def test_no_more_than_so_many_connections_are_held() -> None:
    async def act() -> tuple[int, int]:
        async with peer() as (one, _):
            clients = [await RawClient.connect(one.port) for _ in range(MAX_PEERS + 3)]
            await eventually(lambda: one.counts.losses["too_many"] == 3)
            return len(one.incoming), len(clients)

    assert run_loop(act()) == (MAX_PEERS, MAX_PEERS + 3)


def test_an_address_in_use_names_the_flag() -> None:
    async def act() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            await Peers(PeerCounts(), time.monotonic).start(
                Address("127.0.0.1", taken.getsockname()[1]), Sharing()
            )

    with pytest.raises(ConfigError, match="--peer-listen"):
        run_loop(act())


@asynccontextmanager
async def sharing_routers(count: int, *engines: FakeEngine, **more: Any) -> AsyncIterator[list[Router]]:
    """The engines, and so many routers before them, each telling all others."""
    async with AsyncExitStack() as stack:
        for engine in engines:
            await engine.start()
            stack.push_async_callback(engine.kill)
        settings = RouterSettings(
            listen="127.0.0.1:0",
            replicas=tuple(engine.url for engine in engines),
            peer_listen="127.0.0.1:0",
            peer=("127.0.0.1:1",),
            explain=True,
            **more,
        )
        routers = [Router(settings) for _ in range(count)]
        for router in routers:
            await router.start()
            stack.push_async_callback(router.stop)
        for router in routers:
            router.peers.replace(address_of(other.peers) for other in routers)
        await eventually(
            lambda: all(
                router.peer_counts.num_told == router.peer_counts.num_heard == count - 1 for router in routers
            )
        )
        yield routers


def chat(text: str) -> bytes:
    return post(CHAT, b'{"model": "m", "stream": true, "messages": [{"content": "%s"}]}' % text.encode())


@pytest.mark.parametrize("strategy", ["prefixaware", "kvaware", "session"])
@pytest.mark.parametrize("count", [2, 3])
def test_routers_side_by_side_do_not_send_to_the_same_engine(count: int, strategy: str) -> None:
    async def act() -> list[int]:
        engines = [FakeEngine(Stream(["a", "b"])) for _ in range(count)]
        async with sharing_routers(count, *engines, strategy=strategy) as routers:
            for already, router in enumerate(routers):
                await eventually(lambda: router.peer_counts.num_in_flight == already)  # noqa: B023
                client = await RawClient.connect(router.port)
                client.send(chat(str(already) * 500))
                await client.reader.readuntil(b"\r\n\r\n")
            return [sum(CHAT in one.line for one in engine.received) for engine in engines]

    assert run_loop(act()) == [1] * count


def test_routers_side_by_side_do_not_prefill_on_the_same_engine() -> None:
    """Which is where most of the work is: each request there is a long prompt."""

    async def never(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def act() -> list[int]:
        prefillers = [await FakeEngine(never).start() for _ in range(3)]
        urls = tuple(engine.url for engine in prefillers)
        try:
            more = {"prefill_replicas": urls, "prefill_threshold": 0}
            async with sharing_routers(3, FakeEngine(), **more) as routers:
                for already, router in enumerate(routers):
                    await eventually(lambda: router.peer_counts.num_in_flight == already)  # noqa: B023
                    client = await RawClient.connect(router.port)
                    client.send(chat("Tell me"))
                    await eventually(
                        lambda: sum(len(engine.received) for engine in prefillers) == already + 1  # noqa: B023
                    )
                return [len(engine.received) for engine in prefillers]
        finally:
            for engine in prefillers:
                await engine.kill()

    assert run_loop(act()) == [1, 1, 1]


def test_routers_that_take_turns_divide_a_limit(tmp_path: Path) -> None:
    async def act() -> list[bytes | None]:
        access = tmp_path / "access.yaml"
        access.write_text("access: {default: {requestsPerMinute: 60}}")
        limits = []
        async with sharing_routers(2, FakeEngine(), strategy="roundrobin", access=str(access)) as routers:
            for router in routers:
                await eventually(lambda: router._door is not None and router._door.gate.num_routers == 2)  # noqa: B023
                client = await RawClient.connect(router.port)
                client.send(chat("x"))
                limits.append((await client.answer()).header(b"x-ratelimit-limit-requests"))
        return limits

    assert run_loop(act()) == [b"30", b"30"]


def test_a_limit_is_divided_by_the_routers_that_are_heard(tmp_path: Path) -> None:
    """One that is frozen serves nobody, though its machine goes on taking what it is told."""

    async def act() -> list[int]:
        access = tmp_path / "access.yaml"
        access.write_text("access: {default: {requestsPerMinute: 60}}")
        async with sharing_routers(1, FakeEngine(), strategy="roundrobin", access=str(access)) as routers:
            (router,) = routers
            assert router._door is not None
            gate, shares = router._door.gate, [router._door.gate.num_routers]
            _, other = await asyncio.open_connection("127.0.0.1", router.peers.port)
            other.write(greeting(b"o" * 16))
            await eventually(lambda: gate.num_routers == 2)
            shares.append(gate.num_routers)
            other.transport.abort()
            await eventually(lambda: gate.num_routers == 1)
            return [*shares, gate.num_routers]

    assert run_loop(act()) == [1, 2, 1]


def test_a_conversation_goes_on_where_another_router_began_it() -> None:
    async def act() -> tuple[list[bytes | None], list[int]]:
        engines = [FakeEngine(), FakeEngine()]
        async with sharing_routers(2, *engines) as (one, other):
            names = []
            for text, router in (("x" * 2000, one), ("x" * 2000 + "y" * 2000, other)):
                client = await RawClient.connect(router.port)
                client.send(chat(text))
                names.append((await client.answer()).header(b"x-hypertier-replica"))
                await eventually(lambda: other.peer_counts.num_in == 2)
            return names, [router.peer_counts.num_in_flight for router in (one, other)]

    names, in_flight = run_loop(act())

    assert names[0] == names[1]
    assert in_flight[1] == 0


def test_a_router_that_dies_leaves_nothing_in_flight_and_the_others_serve() -> None:
    async def act() -> tuple[int, int, str]:
        engines = [FakeEngine(Stream(["a", "b"]), name=str(i)) for i in range(2)]
        async with sharing_routers(2, *engines) as (one, other):
            for _ in range(5):
                client = await RawClient.connect(one.port)
                client.send(chat("x" * 500))
                await client.reader.readuntil(b"\r\n\r\n")
            await eventually(lambda: other.peer_counts.num_in_flight == 5)
            await one.stop()
            await eventually(lambda: other.peer_counts.num_heard == other.peer_counts.num_told == 0)
            left = other.peer_counts.num_in_flight
            for engine in engines:
                cast(Stream, engine.answer).go.set()
            client = await RawClient.connect(other.port)
            client.send(chat("y" * 500))
            answer = await client.answer()
            client.send(get(b"/metrics"))
            return left, answer.status, (await client.answer()).body.decode()

    left, status, text = run_loop(act())

    assert (left, status) == (0, 200)
    assert 'hypertier_router_peers{direction="in"} 0.0' in text
    assert 'hypertier_router_peer_losses_total{cause="closed"}' in text


def test_without_peer_flags_nothing_listens_and_nothing_is_counted() -> None:
    async def act() -> str:
        async with routed(FakeEngine(), strategy="prefixaware") as router:
            client = await RawClient.connect(router.port)
            client.send(get(b"/metrics"))
            return (await client.answer()).body.decode()

    assert "hypertier_router_peer" not in run_loop(act())
