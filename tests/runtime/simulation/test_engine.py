from __future__ import annotations

import pytest

from hypertier.simulation.engine import Engine, EngineProfile, Job, SharedStore
from hypertier.simulation.trace import BLOCK_TOKENS, TracedRequest

PROFILE = EngineProfile(noise=0.0, cache_tokens=8 * BLOCK_TOKENS)


def job(*blocks: int, extra: int = 0, output: int = 10) -> Job:
    """A prompt of full blocks and `extra` tokens behind them."""
    whole = (*blocks, 999) if extra else blocks
    return Job(TracedRequest(0.0, len(blocks) * BLOCK_TOKENS + extra, output, whole), 0)


def run(engine: Engine, one: Job) -> float:
    """Compute one prompt to its first token, end its answer, and give the seconds of the prompt."""
    engine.queue.append(one)
    seconds = engine.start_next()
    assert seconds is not None
    engine.finish_prefill()
    engine.finish_answer(one)
    return seconds


def test_a_cached_beginning_is_not_computed_again() -> None:
    engine = Engine(PROFILE, 0)
    first, second = job(1, 2), job(1, 2, 3)

    cold = run(engine, first)
    warm = run(engine, second)

    assert (first.cached_tokens, second.cached_tokens) == (0, 2 * BLOCK_TOKENS)
    assert cold == pytest.approx(PROFILE.prefill_seconds(0, 2 * BLOCK_TOKENS))
    assert warm == pytest.approx(PROFILE.prefill_seconds(2 * BLOCK_TOKENS, 3 * BLOCK_TOKENS))


def test_the_last_token_is_always_computed() -> None:
    engine = Engine(PROFILE, 0)
    run(engine, job(1, 2))
    again = job(1, 2)

    run(engine, again)

    assert again.cached_tokens == 2 * BLOCK_TOKENS - 1


def test_a_part_of_a_block_is_not_cached() -> None:
    engine = Engine(PROFILE, 0)
    run(engine, job(1, extra=5))
    again = job(1, 999)

    run(engine, again)

    assert again.cached_tokens == BLOCK_TOKENS


def test_the_cache_forgets_what_was_used_longest_ago_from_its_end() -> None:
    engine = Engine(PROFILE, 0)
    run(engine, job(1, 2, 3, 4))
    run(engine, job(11, 12, 13, 14, 15, 16))
    old, new = job(1, 2, 3, 4, 5), job(11, 12, 13, 14, 15, 16, 17)

    run(engine, new)
    assert new.cached_tokens == 6 * BLOCK_TOKENS
    run(engine, old)

    assert old.cached_tokens == 1 * BLOCK_TOKENS


def test_gained_and_lost_blocks_are_told() -> None:
    engine = Engine(PROFILE, 0)
    run(engine, job(1, 2, 3, 4, 5, 6))
    engine.queue.append(job(11, 12, 13))
    engine.start_next()

    _, _, gained, lost = engine.finish_prefill()

    assert (sorted(gained), lost) == ([11, 12, 13], [6])


def test_prompts_are_computed_in_order_and_one_at_a_time() -> None:
    engine = Engine(PROFILE, 0)
    first, second = job(1), job(2)
    engine.queue.extend([first, second])

    engine.start_next()

    assert engine.start_next() is None
    assert engine.finish_prefill()[0] is first
    assert engine.start_next() is not None
    assert engine.prefilling is second


def test_answers_and_slowness_make_everything_take_longer() -> None:
    quiet, slow, busy = Engine(PROFILE, 0), Engine(PROFILE, 0, slowness=2.0), Engine(PROFILE, 0)
    busy.num_decoding = 128

    seconds = run(quiet, job(1))

    assert run(slow, job(1)) == pytest.approx(2 * seconds)
    assert run(busy, job(1)) == pytest.approx(1.5 * seconds)


def test_what_another_engine_computed_comes_from_l2() -> None:
    l2 = SharedStore(100 * BLOCK_TOKENS)
    one, other = Engine(PROFILE, 0, l2), Engine(PROFILE, 1, l2)
    run(one, job(1, 2, 3))
    again = job(1, 2, 3, 4)

    seconds = run(other, again)

    assert (again.l2_tokens, again.cached_tokens) == (3 * BLOCK_TOKENS, 3 * BLOCK_TOKENS)
    loading = 3 * BLOCK_TOKENS / PROFILE.l2_tokens_per_second
    assert seconds == pytest.approx(loading + PROFILE.prefill_seconds(3 * BLOCK_TOKENS, 4 * BLOCK_TOKENS))


def test_an_l2_that_is_slower_than_computing_is_not_asked() -> None:
    profile = EngineProfile(noise=0.0, l2_tokens_per_second=10_000.0)
    l2 = SharedStore(100 * BLOCK_TOKENS)
    run(Engine(profile, 0, l2), job(1, 2, 3))
    again = job(1, 2, 3, 4)

    run(Engine(profile, 1, l2), again)

    assert (again.l2_tokens, again.cached_tokens) == (0, 0)
