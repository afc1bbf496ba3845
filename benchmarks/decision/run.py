"""What a choice costs: `make bench NAME=decision`.

    python benchmarks/decision/run.py [--replicas 512] [--tokens 65536] [--passes 7]

Microseconds of CPU for one choice among so many replicas, for a prompt of so many tokens at four bytes each,
the least of the passes. The replicas hold conversations that begin with one of ten system prompts; each
prompt is a conversation's next turn, which one to three replicas hold as far as the turn before.
`and_noted_us` has what follows a choice, too: its place in the index, and the load. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import random
import time

from hypertier.router.api.openai import BLOCK_ENDS, InferenceRequest
from hypertier.router.discovery.addresses import Address
from hypertier.router.kv.kv_events import Stored, chain
from hypertier.router.replicas.cache_sizes import CacheSizes, Reading
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.strategies import build
from hypertier.router.strategies.kvaware import KvAware
from hypertier.router.strategies.strategy import Choice, Strategy

TOKEN_BYTES = 4
BLOCK_TOKENS = 16
CACHE_TOKENS = 400_000
NUM_SYSTEMS = 10
SYSTEM_BYTES = 8192
TURN_BYTES = 4096
NUM_CHOICES = 200
CONSTANT_SECONDS, SECONDS_PER_BYTE = 0.01, 1.25e-5
"""What an engine takes: 20,000 tokens a second."""
STRATEGIES = ("prefixaware", "kvaware", "session", "roundrobin")


def conversation(number: int, num_bytes: int) -> InferenceRequest:
    """One whose first `SYSTEM_BYTES` it has in common with a tenth of all."""
    hashes = tuple(
        hash((number % NUM_SYSTEMS if end <= SYSTEM_BYTES else number, end)) % 2**64
        for end in BLOCK_ENDS
        if end <= num_bytes
    )
    return InferenceRequest(num_bytes, hashes, b"session-%d" % number, streamed=True)


class World:
    """A strategy that knows what its replicas hold, how long prompts take, and what is in flight."""

    def __init__(self, name: str, num_replicas: int, num_tokens: int, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 1000.0
        self.num_bytes = num_tokens * TOKEN_BYTES
        self.replicas = ReplicaSet()
        self.replicas.replace(Address(f"10.0.{i // 250}.{i % 250}", 8000) for i in range(num_replicas))
        for replica in list(self.replicas.by_url.values()):
            self.replicas.admit(replica)
        sizes = CacheSizes()
        for replica in self.replicas.healthy:
            sizes.learn(replica, Reading(CACHE_TOKENS, 0, 0))
        self.strategy: Strategy = build(
            name, replicas=self.replicas, index_bytes=1 << 30, sizes=sizes, now=lambda: self.now
        )
        self.num_conversations = 4 * num_replicas
        self._fill()

    def turn(self) -> InferenceRequest:
        """Any conversation's next turn."""
        return conversation(self.draw.randrange(self.num_conversations), self.num_bytes + TURN_BYTES)

    def _fill(self) -> None:
        for number in range(self.num_conversations):
            request = conversation(number, self.num_bytes)
            for replica in self.draw.sample(self.replicas.healthy, 1 + number % 3):
                ticket = (number, replica.url)
                held = SYSTEM_BYTES if number >= self.num_conversations // 2 else 0
                self.strategy.sent(ticket, request, Choice(replica, "prefix", held), self.now)
                self.now += CONSTANT_SECONDS + SECONDS_PER_BYTE * (request.num_bytes - held)
                self.strategy.first_token(ticket, self.now)
                if number % 8:
                    self.strategy.finished(ticket, self.now)
                self._hear(number, request, replica)

    def _hear(self, number: int, request: InferenceRequest, replica: object) -> None:
        """The engine tells of the prompt's blocks, and of its tokens."""
        if not isinstance(self.strategy, KvAware):
            return
        num_system = SYSTEM_BYTES // TOKEN_BYTES
        tokens = [number % NUM_SYSTEMS] * num_system
        tokens += [number] * (self.num_bytes // TOKEN_BYTES - num_system)
        names = list(chain(tokens, BLOCK_TOKENS))
        told = Stored(names, None, tokens, BLOCK_TOKENS, "GPU", None, 0, is_whole=True, is_local=True)
        self.strategy.hear(replica)  # type: ignore[arg-type]
        self.strategy.apply(replica, told)  # type: ignore[arg-type]
        ends = [end // TOKEN_BYTES // BLOCK_TOKENS for end in BLOCK_ENDS[: len(request.block_hashes)]]
        self.strategy.links.learn(request.block_hashes, [names[end - 1] if end else None for end in ends])


def measure(world: World, *, noted: bool) -> float:
    """Microseconds of CPU for one choice, the mean over `NUM_CHOICES`."""
    requests = [world.turn() for _ in range(NUM_CHOICES)]
    healthy, strategy, now = world.replicas.healthy, world.strategy, world.now
    began = time.process_time()
    for number, request in enumerate(requests):
        choice = strategy.choose(request, healthy, now)
        if noted:
            strategy.sent(number, request, choice, now)
            strategy.first_token(number, now + 0.5)
            strategy.finished(number, now + 0.5)
    return (time.process_time() - began) / NUM_CHOICES * 1e6


def main() -> None:
    """A line for each strategy, then the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicas", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=65536)
    parser.add_argument("--passes", type=int, default=7)
    options = parser.parse_args()

    found: dict[str, dict[str, float]] = {"choice_us": {}, "and_noted_us": {}}
    for name in STRATEGIES:
        world = World(name, options.replicas, options.tokens, seed=1)
        for key, noted in (("choice_us", False), ("and_noted_us", True)):
            found[key][name] = round(min(measure(world, noted=noted) for _ in range(options.passes)), 1)
        print(f"{name:12} {found['choice_us'][name]:7.1f} us, noted {found['and_noted_us'][name]:7.1f} us")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
