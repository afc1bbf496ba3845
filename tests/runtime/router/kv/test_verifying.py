"""What an engine says of its blocks is believed once it was tried, and why not is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from fakes_engine import eventually, run_loop
from fakes_kv_engine import CHAT, COMPLETIONS, TOKENIZE, KvEngine

from hypertier.router.discovery.addresses import parse_replica
from hypertier.router.kv.kv_events import Event, decode
from hypertier.router.kv.verifying import Verifier
from hypertier.router.replicas.replicas import Replica, ReplicaSet


class Believer:
    """Keeps what it is told of replicas; `sizes` are those of what it may believe."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.sizes: dict[Replica, int | None] = {}
        self.renderings: dict[Replica, int | None] = {}

    def apply(self, replica: Replica, event: Event) -> None:
        self.events.append(event)

    def hear(self, replica: Replica, block_size: int | None = None, rendering: int | None = None) -> None:
        self.sizes[replica] = block_size
        self.renderings[replica] = rendering

    def doubt(self, replica: Replica) -> None:
        self.sizes.pop(replica, None)

    def forget(self, replica: Replica) -> None:
        self.sizes.pop(replica, None)


@asynccontextmanager
async def tried(*engines: KvEngine) -> AsyncIterator[tuple[Verifier, Believer, list[Replica]]]:
    """Engines whose events are heard, one after the other: each once the one before it was tried."""
    replicas, believer = ReplicaSet(), Believer()
    verifier = Verifier(believer, model_of=lambda replica: None, event_seconds=0.05, retry_seconds=0.05)
    found = []
    try:
        for engine in engines:
            await engine.start()
            address = parse_replica(engine.url)
            replicas.replace([*(replica.address for replica in found), address])
            replica = replicas.by_url[engine.url]
            found.append(replica)

            async def say(event: Any, replica: Replica = replica) -> None:
                for each in decode(msgspec.msgpack.encode([0.0, [event], 0]))[1]:
                    verifier.apply(replica, each)

            engine.say = say
            before = verifier.results.total()
            verifier.hear(replica)
            await eventually(lambda before=before: verifier.results.total() > before)  # type: ignore[misc]
        yield verifier, believer, found
    finally:
        await verifier.stop()


def outcome(*engines: KvEngine) -> tuple[set[str], dict[str, int | None], list[str]]:
    """What came of the tries, the block sizes of those that are believed, and what is said of each."""

    async def act() -> tuple[set[str], dict[str, int | None], list[str]]:
        async with tried(*engines) as (verifier, believer, replicas):
            sizes = {replica.url: size for replica, size in believer.sizes.items()}
            return set(verifier.results), sizes, [replica.kv_events for replica in replicas]

    return run_loop(act())


@pytest.mark.parametrize("block_size", [16, 128])
def test_an_engine_that_stores_what_it_tokenizes_is_believed(block_size: int) -> None:
    engine = KvEngine(block_size=block_size)

    results, sizes, said = outcome(engine)

    assert (results, said) == ({"good"}, ["verified"])
    assert sizes == {engine.url: block_size}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_form_that_an_engine_does_not_serve_is_no_fault(path: bytes) -> None:
    assert outcome(KvEngine(not_served=(path,)))[0] == {"good"}


def test_an_engine_that_tells_no_block_size_gets_longer_prompts_until_it_speaks() -> None:
    engine = KvEngine(block_size=512)
    engine.metrics = b""

    assert outcome(engine)[0] == {"good"}


def test_engines_with_one_chat_template_render_alike_and_one_with_another_does_not() -> None:
    async def act() -> list[int | None]:
        engines = [KvEngine(), KvEngine(), KvEngine(template="<U>{}<A>", told="<U>{}<A>")]
        async with tried(*engines) as (_, believer, replicas):
            return [believer.renderings[replica] for replica in replicas]

    one, same, other = run_loop(act())

    assert one == same
    assert one != other
    assert None not in (one, other)


def test_layers_with_a_sliding_window_do_not_tell_how_long_blocks_are() -> None:
    engine = KvEngine(block_size=16, window_block_size=32)

    results, sizes, _ = outcome(engine)

    assert results == {"good"}
    assert sizes == {engine.url: 16}


def test_an_engine_that_names_no_salts_is_believed_and_counted() -> None:
    assert outcome(KvEngine(names_salts=False))[0] == {"unsalted"}


@pytest.mark.parametrize(
    ("engine", "cause", "problem"),
    [
        pytest.param(KvEngine(told="<u>{}<assistant>"), "tokens", "chat: ", id="another-template"),
        pytest.param(
            KvEngine(told="<USER>{}<assistant>"), "tokens", "token 1 of a prompt", id="other-tokens"
        ),
        pytest.param(KvEngine(not_served=(TOKENIZE,)), "failed", "neither chats nor", id="no-tokenize"),
        pytest.param(
            KvEngine(not_served=(CHAT, COMPLETIONS)), "failed", "neither chats nor", id="no-prompts"
        ),
        pytest.param(KvEngine(num_ranks=2), "data_parallel", "2 data-parallel ranks", id="ranks"),
    ],
)
def test_an_engine_that_is_not_as_it_says_is_named_with_why(
    engine: KvEngine, cause: str, problem: str
) -> None:
    results, sizes, said = outcome(engine)

    assert (results, sizes) == ({cause}, {})
    assert said[0].startswith(f"{cause}: ")
    assert problem in said[0]


def test_an_engine_that_says_nothing_of_what_it_computes_is_not_believed() -> None:
    async def act() -> tuple[set[str], dict[Replica, int | None]]:
        async with tried(KvEngine()) as (verifier, believer, (replica,)):
            mute = KvEngine()
            await mute.start()
            other = Replica(mute.url, parse_replica(mute.url))
            verifier.results.clear()
            verifier.hear(other)
            await eventually(lambda: bool(verifier.results))
            del believer.sizes[replica]
            return set(verifier.results), believer.sizes

    assert run_loop(act()) == ({"silent"}, {})


def test_engines_of_other_block_sizes_are_not_mixed() -> None:
    one, other = KvEngine(block_size=16), KvEngine(block_size=32)

    results, sizes, said = outcome(one, other)

    assert results == {"good", "block_size"}
    assert sizes == {one.url: 16}
    assert said[1].startswith(
        "block_size: its blocks are of 32 tokens, those of engines that are believed of 16"
    )


def test_an_engine_that_was_mended_is_believed_without_a_restart_of_the_router() -> None:
    engine = KvEngine(told="<u>{}")

    async def act() -> str:
        async with tried(engine) as (_, believer, (replica,)):
            engine.told = engine.template
            await eventually(lambda: replica in believer.sizes)
            return replica.kv_events

    assert run_loop(act()) == "verified"


def test_an_engine_with_another_model_is_tried_again() -> None:
    engine = KvEngine()

    async def act() -> tuple[bool, str]:
        async with tried(engine) as (verifier, believer, (replica,)):
            engine.told = "<u>{}"
            verifier.again(replica)
            is_believed = replica in believer.sizes
            await eventually(lambda: verifier.results["tokens"] > 0)
            return is_believed, replica.kv_events.partition(":")[0]

    assert run_loop(act()) == (False, "tokens")
