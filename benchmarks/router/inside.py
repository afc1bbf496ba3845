"""CPU of a request inside the router, without a socket: `.venv/bin/python benchmarks/router/inside.py`.

Bytes go to a client's connection and an engine's answer to the connection that carried them, as an event loop
would hand them over; transports keep nothing. The least of many batches counts, so a busy machine shows less
than in `run.py`, and what is compiled is compared with its sources in seconds: each runs in a process of its
own, in turns. Prints a table, then one JSON object of microseconds a request.

Rows: `plain`; `access`, which has keys, a salt, limits and the queue; `tells`, which has another router to
tell; and `hears`, which is what such a router takes for each request that it is told of.

With `--instructions` valgrind counts instructions instead, which no load of the machine changes; where a
FOLDER follows, each case leaves its profile there for `callgrind_annotate`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast

import engine
import uvloop
from features import access_flags
from load import Bodies

from hypertier.router import compiled
from hypertier.router.app import Router
from hypertier.router.discovery.addresses import parse_replica
from hypertier.router.http.connection import accepted
from hypertier.router.http.upstream import Upstream
from hypertier.router.peers import news
from hypertier.router.peers.peers import Incoming, Outgoing
from hypertier.router.peers.sharing import Shared
from hypertier.router.settings import RouterSettings

# name: body bytes, mode, requests in a batch
CASES = {
    "1k": (1024, "json", 400),
    "32k": (32 * 1024, "json", 100),
    "256k": (256 * 1024, "json", 20),
    "sse": (1024, "sse", 100),
}
ROWS = ("plain", "access", "tells", "hears")
BATCHES = 60
PASSES = 3
READ_BYTES = 256 * 1024  # what uvloop reads at once
HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n"
    b"Authorization: Bearer sk-bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


class Transport:
    """Counts what is written."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self.num_writes = 0
        self.last = b""
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        self.num_writes += 1
        self.last = data

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        self.write(parts[0])

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Transport | None:
        return self if name == "socket" else None

    def fileno(self) -> int:
        return 0

    def setsockopt(self, *_: int) -> None:
        pass

    def abort(self) -> None:
        self._protocol.connection_lost(None)


def count(on: bool) -> None:
    """Have the valgrind that this process runs under count from now on, or no longer."""
    command = ["callgrind_control", "-i", "on" if on else "off", str(os.getpid())]
    subprocess.run(command, check=True, capture_output=True)


class Link:
    """Keeps what a router tells another."""

    num_queued = 0

    def __init__(self) -> None:
        self.told: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)


def router_of(**settings: Any) -> Router:
    """A router whose four engines are healthy, though nobody can connect to them."""
    urls = tuple(f"http://127.0.0.1:{9000 + number}" for number in range(4))
    router = Router(
        RouterSettings(listen="127.0.0.1:0", replicas=urls, explain=True, metrics_port=1, **settings)
    )
    router.replicas.replace(map(parse_replica, urls))
    for replica in list(router.replicas.by_url.values()):
        router.replicas.admit(replica)
    router.peers.sharing = cast(Shared, router.strategy)
    return router


def settings_of(row: str, folder: Path) -> dict[str, Any]:
    """What a router of that row is told."""
    if row == "plain":
        return {}
    if row == "access":
        named = access_flags(folder)
        pairs = zip(named[::2], named[1::2], strict=True)
        return {flag[2:].replace("-", "_"): file for flag, file in pairs}
    return {"peer": ("127.0.0.1:1",), "peer_listen": "127.0.0.1:2"}


async def measure(case: str, row: str, folder: Path, *, counted: bool = False) -> float:
    """Microseconds a request, the least of all batches; `counted`, the last batch is counted."""
    num_bytes, mode, num_requests = CASES[case]
    router, other, link = (
        router_of(**settings_of(row, folder)),
        router_of(**settings_of("hears", folder)),
        Link(),
    )
    if row in ("tells", "hears"):
        router.peers.greeted(cast(Outgoing, link))
    engines: list[tuple[Upstream, Transport]] = []
    for replica in router.replicas.healthy:
        upstream = Upstream(replica)
        transport = Transport(cast(asyncio.Protocol, upstream))
        upstream.connection_made(cast(asyncio.Transport, transport))
        replica.idle.append(upstream)
        engines.append((upstream, transport))
    client, hearing = accepted(router.front), Incoming(other.peers)
    answers = Transport(client)
    client.connection_made(cast(asyncio.Transport, answers))
    hearing.connection_made(cast(asyncio.Transport, Transport(hearing)))
    hearing.data_received(news.greeting(router.peers.router_id))
    events = [engine._SSE_HEAD + engine._CHUNK, *[engine._CHUNK] * (engine.NUM_CHUNKS - 1), engine._SSE_END]
    pieces = events if mode == "sse" else [engine.answer(engine._CHAT)]
    bodies, number, least = Bodies(num_bytes, mode, time.time_ns()), 10**9, float("inf")
    for turn in range(3 if counted else BATCHES):
        batch: list[list[bytes]] = []
        for _ in range(num_requests):
            number -= 1
            body = bodies.next(number)
            message = HEAD % len(body) + body
            batch.append([message[at : at + READ_BYTES] for at in range(0, len(message), READ_BYTES)])
        written = [transport.num_writes for _, transport in engines]
        if counted and turn == 2 and row != "hears":
            count(True)
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
        router.peers._flush()
        if row == "hears":
            if counted and turn == 2:
                count(True)
            begun = time.process_time()
            for told in link.told:
                hearing.data_received(told)
        least = min(least, (time.process_time() - begun) / num_requests)
        link.told.clear()
    if counted:
        count(False)
    await router.stop()
    await other.stop()
    return least * 1e6


def in_process(form: str, case: str, row: str, *here: str, before: Sequence[str] = ()) -> str:
    """What comes of it in a process of its own, `compiled` or as `sources`."""
    environment = {**os.environ, compiled.SWITCH: "1" if form == "compiled" else "0", "PYTHONHASHSEED": "0"}
    command = [*before, sys.executable, __file__, "--here", case, "--row", row, *here]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def instructions(form: str, case: str, row: str, folder: Path) -> float:
    """Thousands a request."""
    kept = folder / f"{form}-{row}-{case}.callgrind"
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={kept}"]
    in_process(form, case, row, "--counted", before=valgrind)
    total = next(line for line in kept.read_text().splitlines() if line.startswith("totals:"))
    return int(total.split()[1]) / CASES[case][2] / 1e3


def main() -> None:
    """Measure both forms in turns, the least of all passes counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=CASES, help="repeatable; all by default")
    parser.add_argument("--row", action="append", choices=ROWS, help="repeatable; all by default")
    parser.add_argument("--form", action="append", choices=["sources", "compiled"], help="repeatable")
    parser.add_argument("--instructions", nargs="?", const="", metavar="FOLDER")
    parser.add_argument("--here", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rows, cases = arguments.row or list(ROWS), arguments.case or list(CASES)
    forms = arguments.form or (["sources", "compiled"] if compiled.fits() else ["sources"])
    if "compiled" in forms and not compiled.fits():
        parser.error("there are no compiled modules of these sources: python3 -m hypertier.router.compile")
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.here:
            folder = Path(temporary)
            print(uvloop.run(measure(arguments.here, rows[0], folder, counted=arguments.counted)))
            return
        counted = arguments.instructions is not None
        found: dict[str, dict[str, float]] = {f"{form}, {row}": {} for row in rows for form in forms}
        for _ in range(1 if counted else PASSES):
            for case, row, form in product(cases, rows, forms):
                if counted:
                    cost = instructions(form, case, row, Path(arguments.instructions or temporary))
                else:
                    cost = float(in_process(form, case, row))
                mine = found[f"{form}, {row}"]
                mine[case] = min(mine.get(case, cost), round(cost, 1))
    print("| form, row | " + " | ".join(cases) + " |\n" + "|---" * (len(cases) + 1) + "|")
    for name, costs in found.items():
        print(f"| {name} | " + " | ".join(str(costs[case]) for case in cases) + " |")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
