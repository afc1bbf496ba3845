"""CPU of a request inside the router, without a socket: `.venv/bin/python benchmarks/router/inside.py`.

Bytes go to a client's connection and an engine's answer to the connection that carried them, as an event loop
would hand them over; transports keep nothing. The least of many batches counts, so a busy machine shows less
than in `run.py`, and what is compiled is compared with its sources in seconds: each runs in a process of its
own, in turns. Prints a table, then one JSON object of microseconds a request.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any, cast

import engine
import uvloop
from load import Bodies

from hypertier.router import compiled
from hypertier.router.app import Router
from hypertier.router.connection import accepted
from hypertier.router.settings import RouterSettings, parse_replica
from hypertier.router.upstream import Upstream

# name: body bytes, mode, requests in a batch
CASES = {
    "1k": (1024, "json", 400),
    "32k": (32 * 1024, "json", 100),
    "256k": (256 * 1024, "json", 20),
    "sse": (1024, "sse", 100),
}
BATCHES = 60
PASSES = 3
READ_BYTES = 256 * 1024  # what uvloop reads at once
HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n"
    b"Authorization: Bearer sk-bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


class Transport:
    """Counts what is written."""

    def __init__(self) -> None:
        self.num_writes = 0
        self.last = b""

    def write(self, data: bytes) -> None:
        self.num_writes += 1
        self.last = data

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        self.write(parts[0])

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        pass

    def get_extra_info(self, name: str) -> None:
        return None

    def abort(self) -> None:
        pass


async def measure(case: str) -> float:
    """Microseconds a request, the least of all batches."""
    num_bytes, mode, num_requests = CASES[case]
    urls = tuple(f"http://127.0.0.1:{9000 + number}" for number in range(4))
    router = Router(RouterSettings(listen="127.0.0.1:0", replicas=urls, strategy="prefixaware", explain=True))
    router.replicas.replace(map(parse_replica, urls))
    engines: list[tuple[Upstream, Transport]] = []
    for replica in list(router.replicas.by_url.values()):
        router.replicas.admit(replica)
        upstream, transport = Upstream(replica), Transport()
        upstream.connection_made(cast(asyncio.Transport, transport))
        replica.idle.append(upstream)
        engines.append((upstream, transport))
    client, answers = accepted(router.front), Transport()
    client.connection_made(cast(asyncio.Transport, answers))
    events = [engine._SSE_HEAD + engine._CHUNK, *[engine._CHUNK] * (engine.NUM_CHUNKS - 1), engine._SSE_END]
    pieces = events if mode == "sse" else [engine.answer(engine._CHAT)]
    bodies, number, least = Bodies(num_bytes, mode, time.time_ns()), 10**9, float("inf")
    for _ in range(BATCHES):
        batch: list[list[bytes]] = []
        for _ in range(num_requests):
            number -= 1
            body = bodies.next(number)
            message = HEAD % len(body) + body
            batch.append([message[at : at + READ_BYTES] for at in range(0, len(message), READ_BYTES)])
        written = [transport.num_writes for _, transport in engines]
        begun = time.process_time()
        for parts in batch:
            for part in parts:
                client.data_received(part)
            for at, (upstream, transport) in enumerate(engines):
                if transport.num_writes != written[at]:
                    written[at] = transport.num_writes
                    for piece in pieces:
                        upstream.data_received(piece)
                    break
            else:
                sys.exit(f"no engine was asked; the client got {answers.last!r}")
        least = min(least, (time.process_time() - begun) / num_requests)
    await router.stop()
    return least * 1e6


def in_process(form: str) -> dict[str, float]:
    """All cases in a process of its own, `compiled` or as `sources`."""
    environment = {**os.environ, compiled.SWITCH: "1" if form == "compiled" else "0"}
    done = subprocess.run(
        [sys.executable, __file__, "--here"], env=environment, capture_output=True, text=True, check=True
    )
    return cast(dict[str, float], json.loads(done.stdout))


def main() -> None:
    """Measure both forms in turns, the least of all passes counts."""
    if "--here" in sys.argv:
        print(json.dumps({case: uvloop.run(measure(case)) for case in CASES}))
        return
    forms = ["sources", "compiled"] if compiled.fits() else ["sources"]
    found: dict[str, dict[str, float]] = {form: dict.fromkeys(CASES, float("inf")) for form in forms}
    for _ in range(PASSES):
        for form in forms:
            for case, microseconds in in_process(form).items():
                found[form][case] = min(found[form][case], round(microseconds, 1))
    print("| form | " + " | ".join(CASES) + " |\n" + "|---" * (len(CASES) + 1) + "|")
    for form, cases in found.items():
        print(f"| {form} | " + " | ".join(str(cases[case]) for case in CASES) + " |")
    told: dict[str, Any] = found
    print(json.dumps(told))


if __name__ == "__main__":
    main()
