"""A small OpenAI server on loopback that does what a test tells it, and remembers what it was sent."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import uvloop

T = TypeVar("T")
DEADLINE_SECONDS = 60.0

SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def run_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop, as the router does, within a deadline."""

    async def bounded() -> T:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await coroutine
        finally:
            RawClient.close_all()
            FakeEngine.close_all()  # uvloop waits for whatever still listens when its loop closes
            await asyncio.sleep(0)  # the transports' last callbacks

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded())


async def eventually(condition: Callable[[], bool]) -> None:
    """Return when `condition` holds; the deadline of `run_loop` ends a wait that never would."""
    while not condition():
        await asyncio.sleep(0.002)


def chunk(data: bytes) -> bytes:
    """`data` as one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(text: str) -> bytes:
    """One server-sent event as one chunk."""
    return chunk(f"data: {text}\n\n".encode())


def json_answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer with a length."""
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\n" % status
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


@dataclass
class Received:
    """One request as its bytes came."""

    head: bytes
    body: bytes

    @property
    def line(self) -> bytes:
        """`METHOD TARGET VERSION`."""
        return self.head.split(b"\r\n", 1)[0]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Names as sent, values trimmed."""
        lines = self.head.rstrip(b"\r\n").split(b"\r\n")[1:]
        return [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass
class FakeEngine:
    """Answers `/health` by `healthy`, `/metrics` by `metrics`, all else by `answer(request, writer)`.

    Nothing while `frozen`. `received` is what is neither of the first two.
    """

    answer: Callable[[Received, asyncio.StreamWriter], Awaitable[None]] | None = None
    healthy: bool = True
    frozen: bool = False
    name: str = "engine"
    models: tuple[str, ...] = ()
    metrics: bytes = b""
    tls: ssl.SSLContext | None = None
    received: list[Received] = field(default_factory=list)
    num_disconnects: int = 0
    num_connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _started: ClassVar[list[FakeEngine]] = []

    @property
    def url(self) -> str:
        """As given to `--replica`."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> FakeEngine:
        """Listen, on the port it had before if it was started before."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=2**24, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._started.append(self)
        return self

    @classmethod
    def close_all(cls) -> None:
        """Stop every engine started since the last call."""
        while cls._started:
            cls._started.pop()._stop()

    async def kill(self) -> None:
        """Stop listening and reset every connection, as a killed process does."""
        self._stop()
        await eventually(lambda: not self._writers)

    def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.num_connections += 1
        try:
            while True:
                request = await self._read(reader)
                path = request.line.split(b" ")[1]
                if self.frozen:
                    self.received += [request] if path != b"/metrics" else []
                    await reader.read()
                    continue
                if path == b"/metrics":
                    writer.write(json_answer(self.metrics))
                    continue
                if path == b"/health":
                    writer.write(json_answer(b"{}", b"200 OK" if self.healthy else b"503 Unavailable"))
                    continue
                if request.header(b"user-agent") == b"hypertier-router":
                    entries = [{"id": name, "object": "model", "root": name} for name in self.models]
                    body = json.dumps({"object": "list", "data": entries}).encode()
                    status = b"200 OK" if self.models else b"404 Not Found"
                    writer.write(json_answer(body, status))
                    continue
                self.received.append(request)
                await self._answer_watching(request, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader) -> Received:
        head = await reader.readuntil(b"\r\n\r\n")
        request = Received(head, b"")
        length = request.header(b"content-length")
        body = await reader.readexactly(int(length)) if length is not None else b""
        return Received(head, body)

    async def _answer_watching(
        self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer, unless the peer goes away first: that is counted."""
        answering = asyncio.ensure_future(self._answer(request, writer))
        watching = asyncio.ensure_future(reader.read(1))
        done, _ = await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
        if answering in done:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            answering.result()
            return
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        self.num_disconnects += 1
        raise ConnectionResetError

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if self.answer is None:
            writer.write(json_answer(b'{"served_by": "%s"}' % self.name.encode()))
            return
        await self.answer(request, writer)


@dataclass
class Stream:
    """An answer of server-sent events, one each time a test says so; `begun` counts answers with a head."""

    events: list[str]
    go: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        """Head and first event at once, the rest after `go`."""
        writer.write(SSE_HEAD + event(self.events[0]))
        self.begun += 1
        await self.go.wait()
        for text in self.events[1:]:
            writer.write(event(text))
            await writer.drain()
        writer.write(b"0\r\n\r\n")


@dataclass
class Answer:
    """One response as a client read it. `is_whole` is False when the connection ended inside it."""

    status: int
    head: bytes
    body: bytes
    is_whole: bool = True

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header."""
        return Received(self.head, b"").header(name)


class RawClient:
    """A client that sends exactly the bytes it is told to; closed by `run_loop` at the latest."""

    _opened: ClassVar[list[RawClient]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> RawClient:
        """Connect to loopback."""
        client = cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**26))
        cls._opened.append(client)
        return client

    @classmethod
    def close_all(cls) -> None:
        """Close every client opened since the last call."""
        while cls._opened:
            cls._opened.pop().close()

    def send(self, data: bytes) -> None:
        """Send as is."""
        self.writer.write(data)

    async def answer(self, *, is_head: bool = False) -> Answer:
        """Read the next response."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        answer = Answer(int(head.split(b" ")[1]), head, b"")
        if is_head or answer.status < 200:
            return answer
        length = answer.header(b"content-length")
        try:
            if answer.header(b"transfer-encoding") == b"chunked":
                await self._read_chunks(answer)
            elif length is not None:
                answer.body = await self.reader.readexactly(int(length))
            else:
                answer.body = await self.reader.read()
        except asyncio.IncompleteReadError as error:
            answer.body += error.partial
            answer.is_whole = False
        except ConnectionError:
            answer.is_whole = False
        return answer

    async def _read_chunks(self, answer: Answer) -> None:
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            data = await self.reader.readexactly(size + 2)
            if size == 0:
                return
            answer.body += data[:-2]

    async def ended(self) -> bytes:
        """What comes until the peer closes."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Go away at once."""
        self.writer.transport.abort()


def post(path: bytes, body: bytes, *headers: bytes) -> bytes:
    """A POST with a length, as bytes."""
    lines = [b"POST %s HTTP/1.1" % path, b"Host: test", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def get(path: bytes, *headers: bytes) -> bytes:
    """A GET, as bytes."""
    return b"\r\n".join([b"GET %s HTTP/1.1" % path, b"Host: test", *headers]) + b"\r\n\r\n"
