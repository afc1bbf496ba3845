"""The time to the first token while L2 fails, next to an engine that has no L2.

Two real engines answer the same prompts in turns: one with L1 alone, one with L2, in which the first half of
the prompts is stored. The fault begins before the first prompt. Each time is less what the engine's thread
waited for a CPU, which the two of them share with everything else here.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from support import Setting

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fakes_tier import RealCluster, RealValkey, Relay, eventually
from fakes_tier_engine import Engine, EngineHost, engine_host_in

from hypertier.tier.backends.slots import key_slot
from hypertier.tier.settings import TierSettings

DEADLINE_SECONDS = (TierSettings.lookup_deadline_ms + TierSettings.load_deadline_ms) / 1000
ALLOWED_RATIO = 1.02
MOVE_SECONDS = 0.05  # between slots, so that they move while all prompts are answered
PROMPT = "Of all that can happen to a cache, most happens while nobody looks. " * 20
DEFAULTS = {
    name: getattr(TierSettings, name)
    for name in ("lookup_deadline_ms", "load_deadline_ms", "io_timeout_ms", "stripe_bytes", "gate")
}


@dataclass
class World:
    """A Valkey, or a cluster, and a relay in front that stays when it goes."""

    valkeys: list[RealValkey] = field(default_factory=lambda: [RealValkey()])
    cluster: RealCluster | None = None
    relay: Relay = field(init=False)

    def __post_init__(self) -> None:
        self.relay = Relay(self.valkeys[0].port)

    @property
    def valkey(self) -> RealValkey:
        return self.valkeys[-1]

    def close(self) -> None:
        """End everything."""
        self.relay.close()
        for server in [*self.valkeys, *([self.cluster] if self.cluster else [])]:
            server.close()


Fault = Callable[[World], AbstractContextManager[object]]


@contextlib.contextmanager
def absent(world: World) -> Iterator[None]:
    """The other engine has no L2 either: what two engines differ by."""
    yield


@contextlib.contextmanager
def none(world: World) -> Iterator[None]:
    """Nothing happens."""
    yield


@contextlib.contextmanager
def killed(world: World) -> Iterator[None]:
    """The server is gone."""
    world.valkey.kill()
    yield


@contextlib.contextmanager
def stopped(world: World) -> Iterator[None]:
    """SIGSTOP: connections stand, nothing answers."""
    world.valkey.freeze()
    yield
    world.valkey.thaw()


@contextlib.contextmanager
def slow(world: World) -> Iterator[None]:
    """Each answer comes 100 ms late, each MiB of one once more."""
    world.relay.delay_seconds = 0.1
    yield
    world.relay.delay_seconds = 0.0


@contextlib.contextmanager
def stalling(world: World) -> Iterator[None]:
    """Lookups are answered, loads are not."""
    world.relay.keeps_values = True
    yield
    world.relay.keeps_values = False


@contextlib.contextmanager
def full(world: World) -> Iterator[None]:
    """Every SET is refused."""
    world.valkey.ask(b"CONFIG SET maxmemory-policy noeviction maxmemory 1")
    yield


@contextlib.contextmanager
def evicting(world: World) -> Iterator[None]:
    """There is room for two prompts."""
    world.valkey.ask(b"CONFIG SET maxmemory-policy allkeys-lru maxmemory 12mb")
    yield


@contextlib.contextmanager
def restarted_empty(world: World) -> Iterator[None]:
    """Another server, without the data, has taken its place."""
    world.valkey.kill()
    world.valkeys.append(RealValkey())
    world.relay.target = world.valkey.port
    yield


@contextlib.contextmanager
def resharded(world: World) -> Iterator[None]:
    """Every slot of a cluster's first server moves to the second, one after the other, all the while.

    Raises what moving them did, since nothing was tried then.
    """
    cluster, over = world.cluster, threading.Event()
    assert cluster is not None
    names = cluster.nodes[0].keys()
    slots = {key_slot(name) for name in names}

    def move() -> None:
        for slot in slots:
            if over.wait(MOVE_SECONDS):
                return
            cluster.move(slot, 0, 1)

    with ThreadPoolExecutor(1) as thread:
        moving = thread.submit(move)
        try:
            yield
        finally:
            over.set()
    moving.result()


FAULTS: tuple[Fault, ...] = (
    absent,
    none,
    killed,
    stopped,
    slow,
    stalling,
    full,
    evicting,
    restarted_empty,
    resharded,
)


def measure(setting: Setting) -> dict[str, float]:
    """Print a line per fault, and return the worst of them."""
    known = [fault.__name__ for fault in FAULTS]
    if unknown := set(setting.faults) - set(known):
        sys.exit(f"--faults has {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    print(f"first token, seconds; the deadline is {DEADLINE_SECONDS}")
    print("| L2 | without: p50, max | with: p50, max | ratio, p50 (95 %) | most over 1.02 | all over 1.02 |")
    print("|---|---|---|---|---|---|")
    worst_ratio = worst_excess = 0.0
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # the engines' log
        host = stack.enter_context(engine_host_in(Path(directory)))
        without = host.start("")
        for fault in FAULTS:
            if setting.faults and fault.__name__ not in setting.faults:
                continue
            line, ratio, excess = judge(fault, compare(host, without, fault, setting.rounds))
            print(line, file=sys.__stdout__, flush=True)
            if fault not in (absent, none):
                worst_ratio, worst_excess = max(worst_ratio, ratio), max(worst_excess, excess)
    return {
        "ttft_worst_p50_ratio": worst_ratio,
        "ttft_worst_excess_seconds": worst_excess,
        "ttft_deadline_seconds": DEADLINE_SECONDS,
    }


def compare(host: EngineHost, without: Engine, fault: Fault, rounds: int) -> list[tuple[float, float]]:
    """Seconds to the first token of each prompt: without L2, and with one that fails."""
    world = World()
    if fault is resharded:
        world.cluster = RealCluster()
    url = world.cluster.url if world.cluster else world.relay.url
    engine = host.start("" if fault is absent else url, **DEFAULTS)
    prompts = [f"{fault.__name__} {number}: {PROMPT}" for number in range(2 * rounds)]
    if fault is not absent:
        store(engine, prompts[:rounds])
    pairs = []
    with fault(world):
        for number, prompt in enumerate(prompts):
            turns = [without, engine] if number % 2 else [engine, without]
            seconds = {each.pid: first_token(each, prompt) for each in turns}
            pairs.append((seconds[without.pid], seconds[engine.pid]))
    engine.kill()
    world.close()
    return pairs


def store(engine: Engine, prompts: Sequence[str]) -> None:
    """Have prompts stored, and see one found."""

    def is_found() -> bool:
        for prompt in prompts:
            engine.first_token(prompt)
            engine.forget()
        found = [engine.first_token(prompt)["cached"] > 0 for prompt in prompts]
        engine.forget()
        return all(found)

    assert eventually(is_found, 120)


def first_token(engine: Engine, prompt: str) -> float:
    """Time one prompt; whatever is under way ends before the next."""
    timed = engine.first_token(prompt)
    engine.forget()
    return timed["seconds"] - timed["shortage"]


def judge(fault: Fault, pairs: Sequence[tuple[float, float]]) -> tuple[str, float, float]:
    """A line of the table, the median ratio, and the most that a prompt took over 1.02 times without L2."""
    plain, faulty = [a for a, _ in pairs], [b for _, b in pairs]
    ratios = sorted(b / a for a, b in pairs)
    ratio = statistics.median(ratios)
    low, high = confidence(ratios)
    excess = [b - ALLOWED_RATIO * a for a, b in pairs]
    name = fault.__name__.replace("_", " ")
    line = (
        f"| {name} | {statistics.median(plain):.3f}, {max(plain):.3f} "
        f"| {statistics.median(faulty):.3f}, {max(faulty):.3f} "
        f"| {ratio:.3f} ({low:.3f} to {high:.3f}) | {max(excess):+.3f} | {sum(excess):+.3f} |"
    )
    return line, ratio, max(excess)


def confidence(ordered: Sequence[float]) -> tuple[float, float]:
    """Between which of them the median of what they were drawn from lies with 95 %, by their ranks alone."""
    rank = max(0, math.floor((len(ordered) - 1.96 * math.sqrt(len(ordered))) / 2))
    return ordered[rank], ordered[-1 - rank]
