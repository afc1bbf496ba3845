from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hypertier.errors import TierUnavailableError
from hypertier.lab.simulated.engine import SimulatedEngine
from hypertier.lab.simulated.l2 import build_l2
from hypertier.lab.simulated.settings import EngineSettings
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.metrics import Counters
from hypertier.tier.settings import TierSettings

BLOCK = 16
SETTINGS = EngineSettings(
    model="m",
    port=0,
    block_size=BLOCK,
    max_model_len=16 * BLOCK,
    kv_cache_bytes=16 * BLOCK * 4096,
    l1_bytes=32 * BLOCK * 4096,
)
TIER = TierSettings(url="redis://nowhere:1", lookup_deadline_ms=20_000, io_timeout_ms=20_000)
PROMPT = list(range(1, 5 * BLOCK))  # four full blocks and a rest


@contextmanager
def engine(
    backend: MemoryBackend | None = None, settings: EngineSettings = SETTINGS
) -> Iterator[SimulatedEngine]:
    """An engine whose prefill takes no time."""
    if backend is not None:
        backend.reopen()
    l2 = build_l2(settings, TIER, backend, Counters()) if backend is not None else None
    made = SimulatedEngine(settings, l2, sleep=lambda seconds: None)
    yield made
    made.close()


def said(prefill_words: Iterator[str]) -> list[str]:
    return list(itertools.islice(prefill_words, 8))


def breaks(backend: MemoryBackend) -> None:
    """Every call fails from now on."""
    backend.error = TierUnavailableError("out of order")


def spoils(backend: MemoryBackend) -> None:
    """The last byte of everything stored is another."""
    backend.values.update({key: value[:-1] + b"\0" for key, value in backend.values.items()})


def loses(backend: MemoryBackend) -> None:
    """Nothing is stored any more."""
    backend.values.clear()


def test_a_new_prompt_is_computed_whole() -> None:
    with engine() as one:
        assert one.prefill(PROMPT).cached_tokens == {}


def test_a_repeated_prompt_comes_from_the_engines_memory() -> None:
    with engine() as one:
        first = one.prefill(PROMPT)

        again = one.prefill(PROMPT)

        assert again.cached_tokens == {"device": 4 * BLOCK}
        assert said(again.words) == said(first.words)


def test_a_prompt_that_begins_alike_shares_its_full_blocks() -> None:
    with engine() as one:
        one.prefill(PROMPT)

        other = one.prefill([*PROMPT[: 2 * BLOCK], 400, *PROMPT[2 * BLOCK :]])

        assert other.cached_tokens == {"device": 2 * BLOCK}


def test_the_last_token_is_never_cached() -> None:
    with engine() as one:
        one.prefill(PROMPT[:BLOCK])

        assert one.prefill(PROMPT[:BLOCK]).cached_tokens == {}


def test_after_a_reset_blocks_come_from_l1() -> None:
    with engine() as one:
        first = one.prefill(PROMPT)
        one.reset()

        again = one.prefill(PROMPT)

        assert again.cached_tokens == {"host": 4 * BLOCK}
        assert said(again.words) == said(first.words)


def test_a_second_engine_finds_in_l2_what_the_first_computed() -> None:
    backend = MemoryBackend()
    with engine(backend) as first:
        computed = first.prefill(PROMPT)
    with engine(backend) as second:
        found = second.prefill(PROMPT)
        again = second.prefill(PROMPT)

    assert found.cached_tokens == {"disk": 4 * BLOCK}
    assert again.cached_tokens == {"device": 4 * BLOCK}
    assert said(found.words) == said(computed.words)


@pytest.mark.parametrize("happens", [breaks, spoils, loses])
def test_what_l2_fails_to_give_is_computed(happens: Callable[[MemoryBackend], None]) -> None:
    backend = MemoryBackend()
    with engine(backend) as first:
        computed = first.prefill(PROMPT)
    happens(backend)
    with engine(backend) as second:
        recomputed = second.prefill(PROMPT)

    assert recomputed.cached_tokens == {}
    assert said(recomputed.words) == said(computed.words)


def test_another_namespace_shares_nothing() -> None:
    backend = MemoryBackend()
    with engine(backend) as first:
        first.prefill(PROMPT)
    with engine(backend, replace(SETTINGS, served_model_name="another")) as second:
        assert second.prefill(PROMPT).cached_tokens == {}


def test_without_l1_nothing_is_stored_beyond_the_engine() -> None:
    backend = MemoryBackend()
    settings = replace(SETTINGS, l1_bytes=0)
    with engine(backend, settings) as first:
        first.prefill(PROMPT)
    with engine(backend, settings) as second:
        assert second.prefill(PROMPT).cached_tokens == {}


def test_many_prompts_in_a_small_l1_stay_right() -> None:
    backend = MemoryBackend()
    settings = replace(SETTINGS, l1_bytes=6 * BLOCK * 4096)
    prompts = [[number, *PROMPT] for number in range(10)]
    with engine() as alone:
        expected = [said(alone.prefill(prompt).words) for prompt in prompts]

    with engine(backend, settings) as one:
        answers = [said(one.prefill(prompt).words) for prompt in prompts * 2]

    assert answers == expected * 2


def test_other_words_follow_another_prompt() -> None:
    with engine() as one:
        answers = {tuple(said(one.prefill([*PROMPT, last]).words)) for last in range(20)}

    assert len(answers) == 20
