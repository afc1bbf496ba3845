"""The load generator: keeps a number of requests in flight, on one connection each, until all are answered.

Usage: load.py PORT BODY_BYTES CONCURRENCY NUM_REQUESTS json|sse|paced [SEED [tls]]. Prints one JSON object.
Of a body, SYSTEM_SHARE is a system prompt that all share; the rest is a conversation, in NEW_SHARE of the
requests a new one. So a prefix index finds about 62 % of the bytes, as in public traces of conversations, and
has to learn the others.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import sys
import time
from typing import cast

import uvloop

NUM_CONVERSATIONS = 64
SYSTEM_SHARE = 0.25
NEW_SHARE = 0.5
TAIL_BYTES = 100
POOL_BYTES = 4 * 1024 * 1024


class Bodies:
    """Chats of about one size: a system prompt that all share, a conversation, known or new, and a question.

    A known conversation is one of NUM_CONVERSATIONS that come again and again; a new one is never seen twice.
    """

    def __init__(self, num_bytes: int, mode: str, seed: int) -> None:
        rng = self._rng = random.Random(seed)
        words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(2000)]
        self._text = " ".join(rng.choices(words, k=POOL_BYTES // 6)).encode()
        fields: dict[str, object] = {"model": "paced" if mode == "paced" else "m", "max_tokens": 64}
        fields |= {"stream": True} if mode != "json" else {}
        system = self._slice(int(num_bytes * SYSTEM_SHARE)).decode()
        head = json.dumps({**fields, "messages": [{"role": "system", "content": system}]}).encode()[:-2]
        self._head = head + b', {"role": "user", "content": "'
        self._history_bytes = max(0, num_bytes - len(self._head) - TAIL_BYTES)
        self._known = [self._slice(self._history_bytes) for _ in range(NUM_CONVERSATIONS)]

    def next(self, number: int) -> bytes:
        """The body of one request; `number` makes it unlike every other."""
        is_new = self._rng.random() < NEW_SHARE
        history = self._slice(self._history_bytes) if is_new else self._rng.choice(self._known)
        return b'%s%s %0*d"}]}' % (self._head, history, TAIL_BYTES - 5, number)

    def _slice(self, num_bytes: int) -> bytes:
        start = self._rng.randrange(len(self._text) - num_bytes)
        return self._text[start : start + num_bytes]


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

    def __init__(self, bodies: Bodies, num_requests: int, concurrency: int) -> None:
        self.bodies = bodies
        self.left = num_requests
        self.open = concurrency
        self.seconds: list[float] = []
        self.done = asyncio.Event()
        self.error = b""

    def take(self) -> bytes | None:
        """The next body."""
        if self.left == 0 or self.error:
            return None
        self.left -= 1
        return self.bodies.next(self.left)

    def fail(self, answer: bytes) -> None:
        """An answer that is not a success ends the run."""
        self.error = answer[:500]
        self.done.set()

    def closed(self) -> None:
        """One connection ended."""
        self.open -= 1
        if self.open == 0:
            self.done.set()


async def main(
    port: int, body_bytes: int, concurrency: int, num_requests: int, mode: str, seed: int, tls: bool
) -> None:
    """Run and print."""
    run = Run(Bodies(body_bytes, mode, seed), num_requests, concurrency)
    loop = asyncio.get_running_loop()
    context = ssl._create_unverified_context() if tls else None  # what a client checks is not measured
    begun = time.perf_counter()
    for _ in range(concurrency):
        await loop.create_connection(lambda: Client(run), "127.0.0.1", port, ssl=context)
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
    uvloop.run(main(*(int(argument) for argument in arguments[:4]), arguments[4], seed, "tls" in arguments))
