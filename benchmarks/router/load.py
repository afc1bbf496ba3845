"""The load generator: keeps a number of requests in flight, on one connection each, until all are answered.

Usage: load.py PORT BODY_BYTES CONCURRENCY NUM_REQUESTS json|sse|paced [SEED]. Prints one JSON object.
Bodies are chats of NUM_CONVERSATIONS conversations that share a system prompt; each has a last message of its
own, so that no two requests are the same and a prefix index has something to find.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import cast

import uvloop

NUM_CONVERSATIONS = 64
SYSTEM_SHARE = 0.25
TAIL_BYTES = 160


def conversations(body_bytes: int, mode: str, seed: int) -> list[bytes]:
    """The beginnings of all bodies; `%` of a 12-digit number ends each."""
    rng = random.Random(seed)
    words = [
        f"{''.join(rng.choices('abcdefghijklmnopqrstuvwxyz', k=rng.randint(2, 9)))}" for _ in range(2000)
    ]
    fields = {"model": "m", "max_tokens": 64}
    fields |= {"stream": True} if mode != "json" else {}
    fields |= {"user": "paced"} if mode == "paced" else {}

    def text(num_bytes: int) -> str:
        made = " ".join(rng.choices(words, k=num_bytes // 3 + 1))
        return made[:num_bytes]

    system = text(int(body_bytes * SYSTEM_SHARE))
    found = []
    for _ in range(NUM_CONVERSATIONS):
        left = max(0, body_bytes - len(system) - TAIL_BYTES - 200)
        messages = [{"role": "system", "content": system}]
        messages += [
            {"role": role, "content": text(left // 4)} for role in ("user", "assistant", "user", "assistant")
        ]
        body = json.dumps({**fields, "messages": messages}).encode()[:-2]
        found.append(body + b', {"role": "user", "content": "' + text(TAIL_BYTES - 20).encode() + b" ")
    return found


class Client(asyncio.Protocol):
    """One connection that sends the next request when an answer is whole."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.answer = b""
        self.wanted = 0
        self.begun_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.next()

    def next(self) -> None:
        """Send one more, or stop."""
        body = self.run.take()
        if body is None:
            self.transport.close()
            return
        self.answer, self.wanted = b"", 0
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n"
            b"Authorization: Bearer sk-bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        ) % len(body)
        self.begun_at = time.perf_counter()
        self.transport.write(head + body)

    def data_received(self, data: bytes) -> None:
        self.answer = answer = self.answer + data if self.answer else data
        if not self.wanted:
            end = answer.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            head = answer[:end].lower()
            if not head.startswith(b"http/1.1 200"):
                self.run.fail(answer)
                return
            at = head.find(b"content-length:")
            self.wanted = end + int(head[at + 15 : head.index(b"\r\n", at)]) if at >= 0 else -1
        if answer.endswith(b"\r\n0\r\n\r\n") if self.wanted < 0 else len(answer) >= self.wanted:
            self.run.seconds.append(time.perf_counter() - self.begun_at)
            self.next()

    def connection_lost(self, exc: Exception | None) -> None:
        self.run.closed()


class Run:
    """What the connections share: bodies to send and times taken."""

    def __init__(self, bodies: list[bytes], num_requests: int, concurrency: int, seed: int) -> None:
        self.bodies = bodies
        self.left = num_requests
        self.open = concurrency
        self.rng = random.Random(seed)
        self.seconds: list[float] = []
        self.done = asyncio.Event()
        self.error = b""

    def take(self) -> bytes | None:
        """The next body."""
        if self.left == 0 or self.error:
            return None
        self.left -= 1
        return self.rng.choice(self.bodies) + b'%012d"}]}' % self.left

    def fail(self, answer: bytes) -> None:
        """An answer that is not a success ends the run."""
        self.error = answer[:500]
        self.done.set()

    def closed(self) -> None:
        """One connection ended."""
        self.open -= 1
        if self.open == 0:
            self.done.set()


async def main(port: int, body_bytes: int, concurrency: int, num_requests: int, mode: str, seed: int) -> None:
    """Run and print."""
    run = Run(conversations(body_bytes, mode, 1), num_requests, concurrency, seed)
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    for _ in range(concurrency):
        await loop.create_connection(lambda: Client(run), "127.0.0.1", port)
    await run.done.wait()
    elapsed = time.perf_counter() - begun
    run.seconds.sort()
    num_done = len(run.seconds)
    if run.error or num_done != num_requests:
        sys.exit(f"{num_done} of {num_requests} answered; {run.error!r}")
    print(
        json.dumps(
            {
                "requests_per_second": num_done / elapsed,
                "p50_us": run.seconds[num_done // 2] * 1e6,
                "p99_us": run.seconds[num_done * 99 // 100] * 1e6,
            }
        )
    )


if __name__ == "__main__":
    arguments = sys.argv[1:]
    seed = int(arguments[5]) if len(arguments) > 5 else 1
    uvloop.run(main(*(int(argument) for argument in arguments[:4]), arguments[4], seed))
