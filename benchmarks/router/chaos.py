"""Engines that die, freeze, lie and crawl under a load: `python benchmarks/router/chaos.py`, on Linux.

Four engines, each a process, stream ten numbered events; RATE requests a second come whatever is answered.
Every few seconds one engine is killed and started again, stopped for some seconds, made to answer 500 while
its /health is good, or made slow. A request that had not begun must succeed, but for the engine's own 500; a
stream that had may break off with its engine; none may be out of order. The last line is JSON: what became of
all requests.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

import uvloop
from peers import Peer, hypertier
from run import free_port, router

RATE = 200
SECONDS = 60
NUM_ENGINES = 4
NUM_EVENTS = 10
EVENT_SECONDS = 0.02
TROUBLE_SECONDS = 4.0
FLAGS = ("--health-timeout", "1", "--retry-budget", "1")


class Engine(asyncio.Protocol):
    """One connection to an engine; what it does is the process's `mode`."""

    mode = "good"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, _, rest = self.data.partition(b"\r\n\r\n")
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n")[0]) if at >= 0 else 0
            if len(rest) < length:
                return
            self.data = rest[length:]
            self.respond(head)

    def respond(self, head: bytes) -> None:
        path = head.split(b" ")[1]
        if path == b"/health" or Engine.mode == "liar":
            status = b"200 OK" if path == b"/health" else b"500 Internal Server Error"
            self.transport.write(b"HTTP/1.1 %b\r\ncontent-length: 2\r\n\r\n{}" % status)
        elif not path.startswith(b"/v1/chat"):
            self.transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
        else:
            delay = 1.0 if Engine.mode == "slow" else EVENT_SECONDS
            asyncio.get_running_loop().call_later(delay, self.stream, 0, delay)

    def stream(self, number: int, delay: float) -> None:
        """One event after the other."""
        if self.transport.is_closing():
            return
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        event = b"data: %d\n\n" % number
        chunk = b"%x\r\n%b\r\n" % (len(event), event)
        last = number + 1 == NUM_EVENTS
        self.transport.write((head if number == 0 else b"") + chunk + (b"0\r\n\r\n" if last else b""))
        if not last:
            asyncio.get_running_loop().call_later(min(delay, 0.1), self.stream, number + 1, delay)


async def serve(port: int) -> None:
    """An engine, until killed; SIGUSR1 makes it a liar, SIGUSR2 slow, SIGHUP good again."""
    loop = asyncio.get_running_loop()
    for number, mode in ((signal.SIGUSR1, "liar"), (signal.SIGUSR2, "slow"), (signal.SIGHUP, "good")):
        loop.add_signal_handler(number, setattr, Engine, "mode", mode)
    await loop.create_server(Engine, "127.0.0.1", port, backlog=4096)
    print("ready", flush=True)
    await asyncio.Event().wait()


def start(port: int) -> subprocess.Popen[str]:
    """An engine's process, once it listens."""
    process = subprocess.Popen(
        [sys.executable, __file__, "engine", str(port)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


async def request(port: int, ends: Counter[str]) -> None:
    """One streamed chat on a connection of its own, and how it ended."""
    writer = None
    answer = b""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        text = b"%d" % random.getrandbits(64)
        body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "%b"}]}' % text
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            data = await reader.read(65536)
            if not data:
                break
            answer += data
            if answer.startswith(b"HTTP/1.1 ") and not answer.startswith(b"HTTP/1.1 200"):
                break
    except OSError:
        pass
    finally:
        if writer is not None:
            writer.transport.abort()
    ends[end_of(answer)] += 1


def end_of(answer: bytes) -> str:
    """What became of a request, by its answer."""
    if not answer.startswith(b"HTTP/1.1 200"):
        return f"failed_{answer[9:12].decode()}" if answer else "failed_connection"
    numbers = [int(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: ")]
    if numbers != list(range(len(numbers))):
        return "out_of_order"
    return "whole" if len(numbers) == NUM_EVENTS and answer.endswith(b"\r\n0\r\n\r\n") else "broke_off"


async def trouble(ports: list[int], processes: list[subprocess.Popen[str]], done: Counter[str]) -> None:
    """One engine after the other, each in another way."""

    async def kill(at: int) -> None:
        processes[at].kill()
        await asyncio.to_thread(processes[at].wait)
        await asyncio.sleep(TROUBLE_SECONDS / 2)
        processes[at] = await asyncio.to_thread(start, ports[at])

    def signals(on: signal.Signals, off: signal.Signals) -> Callable[[int], Awaitable[None]]:
        async def act(at: int) -> None:
            processes[at].send_signal(on)
            await asyncio.sleep(TROUBLE_SECONDS)
            processes[at].send_signal(off)

        return act

    kinds: dict[str, Callable[[int], Awaitable[None]]] = {
        "killed": kill,
        "frozen": signals(signal.SIGSTOP, signal.SIGCONT),
        "liar": signals(signal.SIGUSR1, signal.SIGHUP),
        "slow": signals(signal.SIGUSR2, signal.SIGHUP),
    }
    for turn in range(10**6):
        name, act = list(kinds.items())[turn % len(kinds)]
        await act(turn % len(ports))
        done[name] += 1
        await asyncio.sleep(1.0)


async def load(
    port: int, ports: list[int], processes: list[subprocess.Popen[str]], seconds: float
) -> dict[str, object]:
    """All of it, for so long."""
    ends: Counter[str] = Counter()
    done: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    troubling = loop.create_task(trouble(ports, processes, done))
    begun, running = loop.time(), set()
    for number in range(int(seconds * RATE)):
        await asyncio.sleep(max(0.0, begun + number / RATE - loop.time()))
        task = loop.create_task(request(port, ends))
        running.add(task)
        task.add_done_callback(running.discard)
    troubling.cancel()
    for process in processes:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGHUP)
    await asyncio.gather(*running)
    return {"ends": dict(ends), "troubles": dict(done)}


def main() -> None:
    """Run, and print the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    arguments = parser.parse_args()
    ports = [free_port() for _ in range(NUM_ENGINES)]
    processes = [start(port) for port in ports]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    try:
        with router(Peer("hypertier", hypertier("prefixaware", *FLAGS)), urls) as (port, pid):
            found = uvloop.run(load(port, ports, processes, arguments.seconds))
            found["files_left"] = len(os.listdir(f"/proc/{pid}/fd"))
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["engine"]:
        uvloop.run(serve(int(sys.argv[2])))
    else:
        main()
