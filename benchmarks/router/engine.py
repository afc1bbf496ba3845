"""Fake engines that answer at once: the other side of the benchmark, several ports in one process.

Usage: engine.py NUM_ENGINES. Prints the ports as one JSON list once all of them listen.
"""

from __future__ import annotations

import asyncio
import json
import sys
from array import array
from typing import cast

import uvloop

NUM_CHUNKS = 32
CHUNK_SECONDS = 0.01

_EVENT = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" w"}}]}\n\n'
)
_CHUNK = b"%x\r\n%s\r\n" % (len(_EVENT), _EVENT)
_SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_SSE_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_CHAT = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "word " * 40}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 140},
    }
).encode()
_MODELS = json.dumps(
    {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "owned_by": "vllm", "root": name} for name in ("m", "paced")
        ],
    }
).encode()


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole JSON answer."""
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


_rendered: dict[tuple[int, bytes], bytes] = {}


def render(body: bytes) -> bytes:
    """As vLLM's /render: a token id for every four bytes of the body; made once per conversation."""
    key = (len(body), body[-1000:-500])
    if key not in _rendered:
        tokens = [number & 0x1FFFF for number in array("I", body[: len(body) // 4 * 4])]
        _rendered[key] = answer(json.dumps({"request_id": "r", "token_ids": tokens}).encode())
    return _rendered[key]


class Engine(asyncio.Protocol):
    """One connection; reads by Content-Length or chunks, which is all that routers send."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.parts: list[bytes] = []
        self.num_bytes = 0
        self.wanted = 0

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        self.num_bytes += len(data)
        while self.num_bytes >= self.wanted and self.num_bytes:
            data = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
            self.parts = [data]
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                self.wanted = self.num_bytes + 1
                return
            head = data[:end].lower()
            at = head.find(b"\r\ncontent-length:")
            if at >= 0:
                self.wanted = end + int(head[at + 17 : head.index(b"\r\n", at + 17)])
                if self.num_bytes < self.wanted:
                    return
                body = data[end : self.wanted]
            elif b"\r\ntransfer-encoding:" in head:
                last = data.find(b"0\r\n\r\n", end)
                if last < 0:
                    self.wanted = self.num_bytes + 1
                    return
                self.wanted = last + 5
                body = data[end : self.wanted]
            else:
                self.wanted, body = end, b""
            rest = data[self.wanted :]
            self.parts, self.num_bytes, self.wanted = [rest] if rest else [], len(rest), 0
            self.respond(head, body)
            if self.transport.is_closing():
                return

    def respond(self, head: bytes, body: bytes) -> None:
        """Answer one request."""
        if head.startswith(b"pri "):  # a router that asks for gRPC first
            self.transport.close()
            return
        path = head.split(b" ", 2)[1]
        if path.endswith(b"/render"):
            self.transport.write(render(body))
        elif path == b"/v1/models":
            self.transport.write(answer(_MODELS))
        elif path == b"/health":
            self.transport.write(answer(b"{}"))
        elif not path.startswith(b"/v1/"):
            self.transport.write(answer(b"{}", b"404 Not Found"))
        elif b'"model": "paced"' in body or b'"model":"paced"' in body:  # a field that no router drops
            self.transport.write(_SSE_HEAD)
            self.pace(NUM_CHUNKS)
        elif b'"stream": true' in body or b'"stream":true' in body:
            self.transport.write(_SSE_HEAD)
            self.flood(NUM_CHUNKS)
        else:
            self.transport.write(answer(_CHAT))

    def flood(self, num_left: int) -> None:
        """One event a turn of the loop, as fast as that goes."""
        if self.transport.is_closing():
            return
        if num_left == 0:
            self.transport.write(_SSE_END)
            return
        self.transport.write(_CHUNK)
        asyncio.get_running_loop().call_soon(self.flood, num_left - 1)

    def pace(self, num_left: int) -> None:
        """One event every CHUNK_SECONDS."""
        if self.transport.is_closing():
            return
        if num_left == 0:
            self.transport.write(_SSE_END)
            return
        self.transport.write(_CHUNK)
        asyncio.get_running_loop().call_later(CHUNK_SECONDS, self.pace, num_left - 1)


async def main(num_engines: int) -> None:
    """Listen until killed."""
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Engine, "127.0.0.1", 0, backlog=4096) for _ in range(num_engines)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
