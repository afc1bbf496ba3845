"""What long lists of engines cost the router: `.venv/bin/python benchmarks/router/lists.py`.

    benchmarks/router/lists.py [--replicas 512 2000] [--strategies prefixaware ...] [--passes 3]

A whole router, but for sockets: engines answer its questions out of memory. They are `listed` all at once, as
by Kubernetes' API, become `healthy` one by one, with a request after each, `leave` the list one by one, again
with a request after each, are listed anew, and leave all at once (`gone`). Before they leave, each has been
sent conversations of 64 KiB, and has requests in flight; with `kvaware` it has told of its blocks. In the
first round they come to one engine whose index is full.

For each part the longest turn of the event loop and the sum of all turns, in milliseconds of CPU of the
loop's thread, the least of all passes: what else the machine does is not in it. The loop is asyncio's own,
and logs go to /dev/null. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import time
from collections.abc import Iterable
from typing import Any

from hypertier.router.api.openai import BLOCK_ENDS, InferenceRequest
from hypertier.router.app import Router
from hypertier.router.discovery.addresses import Address
from hypertier.router.discovery.slice_discovery import tell
from hypertier.router.kv.kv_events import Stored, chain
from hypertier.router.replicas.cache_sizes import Reading
from hypertier.router.replicas.health import Health
from hypertier.router.replicas.replicas import Replica, State
from hypertier.router.settings import RouterSettings
from hypertier.router.strategies.strategy import Choice

STRATEGIES = ("prefixaware", "kvaware", "session", "roundrobin")
PARTS = ("listed", "healthy", "leave", "gone")
PROMPT_BYTES, SYSTEM_BYTES, TOKEN_BYTES, BLOCK_TOKENS = 64 * 1024, 8 * 1024, 4, 16
NUM_CONVERSATIONS, NUM_IN_FLIGHT = 8, 2
"""Of each engine."""
NUM_FULL = 40_000
"""Prompts of one engine that fill its index."""


class Loop(asyncio.SelectorEventLoop):
    """Knows how much CPU its turns took since `begin`."""

    longest = total = 0.0

    def begin(self) -> None:
        """Count from now on."""
        self.longest = self.total = 0.0

    def _run_once(self) -> None:
        began = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        took = time.thread_time() - began
        self.longest = max(self.longest, took)
        self.total += took


def conversation(number: int, num_bytes: int = PROMPT_BYTES) -> InferenceRequest:
    """One whose first `SYSTEM_BYTES` it has in common with a tenth of all."""
    hashes = tuple(
        hash((number % 10 if end <= SYSTEM_BYTES else number, end)) % 2**64
        for end in BLOCK_ENDS
        if end <= num_bytes
    )
    return InferenceRequest(num_bytes, hashes, b"session-%d" % number, streamed=True)


class World:
    """A router, and engines that are well as soon as they are `let`."""

    def __init__(self, strategy: str, num_replicas: int) -> None:
        addresses = [Address(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", 8000) for i in range(num_replicas)]
        self.addresses = addresses
        self.num_sent = 0
        self._gates = {address: asyncio.Event() for address in addresses}
        settings = RouterSettings(
            listen="127.0.0.1:0",
            strategy=strategy,
            replicas=("http://10.0.0.0:8000",),
            health_interval_seconds=3600.0,
        )
        self.router = router = Router(settings)
        edges: Any = router
        edges._health._check = self._well
        edges._model_reading._fetch = self._models
        if edges._sizing is not None:
            edges._sizing._fetch = lambda address: Reading(400_000, 0, 0)
        if edges._kv_streams is not None:
            edges._kv_streams._run = self._silent
        self.replicas = router.replicas
        self._picker: Any = edges.front._proxy.picker

    async def _well(self, address: Address, timeout_seconds: float) -> Health:
        await self._gates[address].wait()
        return Health.GOOD

    async def _models(self, address: Address) -> list[dict[str, str]]:
        return [{"id": "model", "root": "model"}]

    async def _silent(self, replica: Replica) -> None:
        await asyncio.Event().wait()

    async def let(self, addresses: Iterable[Address]) -> None:
        """These are well now, one after the other; a request follows each."""
        for number, address in enumerate(addresses):
            self._gates[address].set()
            while self.replicas.by_url[f"http://{address}"].state is not State.HEALTHY:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.ask(number)

    def ask(self, number: int) -> None:
        """One request, from its choice to its end."""
        picker, ticket, now = self._picker, ("asked", number), time.monotonic()
        choice = picker.pick(ticket, conversation(number), now)
        assert choice is not None
        picker.strategy.first_token(ticket, now + 0.1)
        picker.strategy.finished(ticket, now + 0.2)
        self.router.metrics.counts.answered(choice.replica.url, "2xx")

    def fill(self, num_conversations: int) -> None:
        """Each engine was sent so many; the last `NUM_IN_FLIGHT` are in flight."""
        strategy = self._picker.strategy
        now = time.monotonic()
        for replica in self.replicas.healthy:
            for which in range(num_conversations):
                self.num_sent = number = self.num_sent + 1
                request = conversation(number)
                strategy.sent(number, request, Choice(replica, "load"), now)
                if which < num_conversations - NUM_IN_FLIGHT:
                    strategy.first_token(number, now + 0.1)
                    strategy.finished(number, now + 0.2)
                if strategy.name == "kvaware" and which < NUM_CONVERSATIONS:
                    self._tell(number, replica)

    def _tell(self, number: int, replica: Replica) -> None:
        """The engine says that it holds the conversation."""
        strategy: Any = self.router.strategy
        num_system = SYSTEM_BYTES // TOKEN_BYTES
        tokens = [number % 10] * num_system + [number] * (PROMPT_BYTES // TOKEN_BYTES - num_system)
        names = list(chain(tokens, BLOCK_TOKENS))
        strategy.hear(replica, rendering=1)
        strategy.apply(
            replica,
            Stored(names, None, tokens, BLOCK_TOKENS, "GPU", None, 0, is_whole=True, is_local=True),
        )

    async def settled(self) -> None:
        """What was put off is done."""
        for _ in range(3):
            await asyncio.sleep(0)
        while len(asyncio.get_running_loop()._ready):  # type: ignore[attr-defined]
            await asyncio.sleep(0)


async def measure(strategy: str, num_replicas: int) -> dict[str, tuple[float, float]]:
    """Longest turn and sum of turns of each part, in seconds."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    world = World(strategy, num_replicas)
    addresses = world.addresses
    found: dict[str, tuple[float, float]] = {}

    def note(part: str) -> None:
        longest, total = found.get(part, (0.0, 0.0))
        found[part] = max(longest, loop.longest), total + loop.total

    async def begin() -> None:
        gc.collect()
        await asyncio.sleep(0)
        loop.begin()

    world.replicas.replace(addresses[:1])
    await world.let(addresses[:1])
    world.fill(NUM_FULL)

    await begin()
    await tell(world.replicas, addresses[1:], ())
    await world.settled()
    note("listed")
    await begin()
    await world.let(addresses[1:])
    await world.settled()
    note("healthy")

    world.fill(NUM_CONVERSATIONS)
    await begin()
    for number in range(1, num_replicas):
        await tell(world.replicas, (), addresses[number - 1 : number])
        world.ask(number)
        await asyncio.sleep(0)
    world.replicas.replace([])
    await world.settled()
    note("leave")

    world.replicas.replace(addresses)
    await world.let(addresses)
    world.fill(NUM_CONVERSATIONS)
    await begin()
    await tell(world.replicas, (), addresses)
    await world.settled()
    note("gone")
    await world.router.stop()
    return found


def main() -> None:
    """A table for each number of engines, then the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, nargs="+", default=[512, 2000])
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES)
    parser.add_argument("--passes", type=int, default=3)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, filename=os.devnull)
    found: dict[str, dict[str, list[float]]] = {}
    for num in arguments.replicas:
        print(f"| {num} engines | " + " | ".join(PARTS) + " |\n" + "|---" * (len(PARTS) + 1) + "|")
        for strategy in arguments.strategies:
            passes = []
            for _ in range(arguments.passes):
                with asyncio.Runner(loop_factory=Loop) as runner:
                    passes.append(runner.run(measure(strategy, num)))
            least = {
                part: [round(1e3 * min(one[part][which] for one in passes), 1) for which in (0, 1)]
                for part in PARTS
            }
            found[f"{strategy}, {num}"] = least
            cells = (f"{longest}, {total}" for longest, total in least.values())
            print(f"| `{strategy}` | " + " | ".join(cells) + " |", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
