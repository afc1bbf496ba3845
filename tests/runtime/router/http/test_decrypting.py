"""What comes by TLS, read into one buffer for all connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from fakes_tls import Authority

from hypertier.router.http.decrypting import BUFFER_BYTES, Decrypting

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run in an event loop of that kind, and fail where it was told of a fault."""

    def run_in(coroutine: Coroutine[Any, Any, Any]) -> Any:
        faults: list[dict[str, Any]] = []
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.get_loop().set_exception_handler(lambda _, fault: faults.append(fault))
            result = runner.run(asyncio.wait_for(coroutine, 30))
        assert not faults
        return result

    return run_in


class Kept:
    """A protocol as the router's own, which are no `asyncio.Protocol`: keeps what it is handed."""

    def __init__(self) -> None:
        self.data = b""
        self.largest = 0
        self.transport: asyncio.Transport | None = None
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        self.data += data
        self.largest = max(self.largest, len(data))

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


async def served(folder: Path, *sent: bytes) -> list[Kept]:
    """What connections were handed whose clients write all at once, each its own, and then end by TLS."""
    authority = Authority(folder)
    cert, key = authority.issue("router")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    made: list[Kept] = []

    def factory() -> Decrypting:
        made.append(Kept())
        return Decrypting(made[-1])  # type: ignore[arg-type]

    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    async def client(data: bytes) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.client())
        writer.write(data)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*map(client, sent))
    await asyncio.gather(*[kept.ended for kept in made])
    server.close()
    return made


@pytest.mark.parametrize("num_bytes", [1, 16 * 1024 + 1, BUFFER_BYTES, 3 * BUFFER_BYTES + 1])
def test_a_protocol_is_handed_all_that_its_client_wrote_in_order(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, list[Kept]]], list[Kept]], num_bytes: int
) -> None:
    written = bytes(number * 31 % 251 for number in range(num_bytes))

    (kept,) = run(served(tmp_path, written))

    assert kept.data == written
    assert kept.largest <= BUFFER_BYTES


def test_connections_share_the_buffer_and_see_nothing_of_one_another(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, list[Kept]]], list[Kept]]
) -> None:
    written = [bytes([number]) * 200_000 for number in range(1, 9)]

    made = run(served(tmp_path, *written))

    assert sorted(kept.data for kept in made) == written


def test_an_end_by_tls_is_no_fault_where_the_protocol_does_not_ask_for_it(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, list[Kept]]], list[Kept]]
) -> None:
    (kept,) = run(served(tmp_path, b"bye"))

    assert kept.ended.result() is None
