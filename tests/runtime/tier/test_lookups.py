"""Lookups end: by an answer, by the deadline, or by what a load showed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from fakes_tier import FakeClock, eventually
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.tier.lookups import MOST_KEYS, Prober, Verdicts
from hypertier.tier.metrics import Counters

A, B, C = b"a", b"b", b"c"


def verdicts(clock: FakeClock, capacity: int = 100) -> Verdicts:
    return Verdicts(0.2, Counters(), clock, hit_seconds=30, miss_seconds=2, capacity=capacity)


def test_a_new_key_is_unknown_and_goes_into_the_batch_once() -> None:
    table = verdicts(FakeClock())

    answers = [table.ask("r1", A), table.ask("r2", A), table.ask("r1", B)]

    assert answers == [None, None, None]
    assert table.take_batch() == [A, B]
    assert table.take_batch() == []


def test_an_answer_serves_all_requests() -> None:
    table = verdicts(FakeClock())
    table.ask("r1", A)

    table.resolve(A, True)

    assert table.ask("r1", A) is True
    assert table.ask("r2", A) is True
    assert table.is_known_present(A)


def test_past_the_deadline_a_lookup_is_a_miss_and_stays_one_for_its_request() -> None:
    clock = FakeClock()
    table = verdicts(clock)
    table.ask("r1", A)
    clock.advance(0.19)
    before = table.ask("r1", A)
    clock.advance(0.01)

    after = table.ask("r1", A)
    table.resolve(A, True)

    assert (before, after) == (None, False)
    assert table.ask("r1", A) is False
    assert table.ask("r2", A) is True


def test_while_an_answer_is_overdue_further_requests_do_not_wait() -> None:
    clock = FakeClock()
    table = verdicts(clock)
    table.ask("r1", A)
    clock.advance(0.2)

    assert table.ask("r2", A) is False


def test_a_failed_load_makes_a_hit_a_miss() -> None:
    table = verdicts(FakeClock())
    table.ask("r1", A)
    table.resolve(A, True)
    table.ask("r1", A)

    table.resolve(A, False)

    assert table.ask("r1", A) is False
    assert not table.is_known_present(A)


def test_verdicts_age_and_are_asked_for_again() -> None:
    clock = FakeClock()
    table = verdicts(clock)
    table.resolve(A, True)
    table.resolve(B, False)
    clock.advance(2)
    after_two = [table.ask("r", A), table.ask("r", B)]
    clock.advance(28)

    assert after_two == [True, None]
    assert table.ask("r", A) is None
    assert table.take_batch() == [B, A]


def test_an_answer_that_never_comes_is_asked_for_again() -> None:
    """As when the process that asks L2 dies with the question."""
    clock = FakeClock()
    table = verdicts(clock)
    table.ask("r1", A)
    table.take_batch()
    clock.advance(2)

    late, again = table.ask("r1", A), table.ask("r2", A)

    assert (late, again) == (False, None)
    assert table.take_batch() == [A]


def test_a_finished_request_may_ask_anew_under_its_name() -> None:
    table = verdicts(FakeClock())
    table.refuse("r", A)
    refused = table.ask("r", A)

    table.forget_request("r")

    assert (refused, table.ask("r", A)) == (False, None)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "hit", "miss", "wait", "finish", "flush"]),
            st.sampled_from(["r1", "r2"]),
            st.integers(0, 30),
        ),
        max_size=120,
    ),
    st.sampled_from([8, 64]),
    st.sampled_from([1, 3]),
)
def test_memory_is_bounded_and_no_request_is_put_off_beyond_the_deadline(
    steps: list[tuple[str, str, int]],
    capacity: int,
    min_chunks: int,
) -> None:
    clock = FakeClock()
    table = verdicts(clock, capacity)
    waits_since: dict[tuple[str, bytes], float] = {}

    for what, request, number in steps:
        key = b"%d" % number
        if what == "ask":
            answer = table.ask(request, key, min_chunks)
            if answer is None and min_chunks == 1:
                since = waits_since.setdefault((request, key), clock.now)
                assert capacity == 8 or clock.now - since < 0.2
            else:
                waits_since.pop((request, key), None)
        elif what in ("hit", "miss"):
            table.resolve(key, what == "hit")
            waits_since.clear()
        elif what == "wait":
            clock.advance(number / 100)
        elif what == "finish":
            table.forget_request(request)
            waits_since.clear()
        else:
            table.take_batch()
        assert len(table) <= capacity


def test_the_prober_answers_batches_in_order() -> None:
    prober = Prober(lambda keys: [key == A for key in keys])
    answers: list[tuple[bytes, bool]] = []

    prober.submit([A, B])
    prober.submit([B])

    def collected() -> bool:
        answers.extend(prober.take_answers())
        return len(answers) == 3

    assert eventually(collected)
    assert answers == [(A, True), (B, False), (B, False)]
    prober.close(20)


def test_batches_that_wait_are_asked_in_one_go_and_each_tells_how_long_it_waited() -> None:
    clock, may_answer, probes = FakeClock(), threading.Event(), list[list[bytes]]()

    def probe(keys: Sequence[bytes]) -> list[bool]:
        probes.append(list(keys))
        assert may_answer.wait(20)
        return [True] * len(keys)

    prober = Prober(probe, clock=clock)
    prober.submit([A])
    assert eventually(lambda: len(probes) == 1)
    for key in (B, C):
        clock.advance(1)
        prober.submit([key])
    prober.submit([])
    clock.advance(1)

    may_answer.set()
    answers: list[tuple[bytes, bool]] = []
    assert eventually(lambda: bool(answers.extend(prober.take_answers()) or len(answers) == 3))
    prober.close(20)

    assert probes == [[A], [B, C]]
    assert prober.take_seconds() == [3, 2, 1]
    assert prober.take_seconds() == []


def test_what_waits_to_be_asked_is_bounded_in_one_go_and_nothing_is_left_out() -> None:
    may_answer, sizes = threading.Event(), list[int]()

    def probe(keys: Sequence[bytes]) -> list[bool]:
        sizes.append(len(keys))
        assert may_answer.wait(20)
        return [True] * len(keys)

    prober = Prober(probe)
    prober.submit([A])
    assert eventually(lambda: len(sizes) == 1)
    for _ in range(5):
        prober.submit([B] * (MOST_KEYS // 2))

    may_answer.set()
    prober.close(20)

    assert sizes == [1, MOST_KEYS, MOST_KEYS, MOST_KEYS // 2]


def prefix_of(table: Verdicts, request: str, keys: list[bytes], min_chunks: int) -> list[bool | None]:
    return [table.ask(request, key, min_chunks) for key in keys]


def test_a_prefix_too_short_to_be_worth_it_is_a_miss_as_a_whole() -> None:
    table = verdicts(FakeClock())
    keys = [b"%d" % i for i in range(4)]
    first = prefix_of(table, "r", keys, 3)
    table.take_batch()
    for key, found in zip(keys, [True, True, False, True], strict=True):
        table.resolve(key, found)

    assert first == [None] * 4
    assert prefix_of(table, "r", keys, 3) == [False] * 4
    assert prefix_of(table, "another", keys[:1], 1) == [True]


def test_a_prefix_long_enough_is_a_hit_to_its_end() -> None:
    table = verdicts(FakeClock())
    keys = [b"%d" % i for i in range(4)]
    prefix_of(table, "r", keys, 3)
    table.take_batch()
    for key, found in zip(keys, [True, True, True, False], strict=True):
        table.resolve(key, found)

    assert prefix_of(table, "r", keys, 3) == [True, True, True, False]
    assert table.ask("r", keys[2], 100) is True  # once decided, a request is served


def test_a_known_prefix_is_judged_after_the_step_that_asked_for_it() -> None:
    table = verdicts(FakeClock())
    keys = [b"%d" % i for i in range(4)]
    for key in keys:
        table.resolve(key, True)

    during_the_step = prefix_of(table, "r", keys, 3)
    table.take_batch()

    assert during_the_step == [None] * 4
    assert prefix_of(table, "r", keys, 3) == [True] * 4


def test_one_unanswered_lookup_puts_off_the_judgement_no_longer_than_the_deadline() -> None:
    clock = FakeClock()
    table = verdicts(clock)
    prefix_of(table, "r", [A, B], 2)
    table.take_batch()
    table.resolve(A, True)

    before = table.ask("r", A, 2)
    clock.advance(0.2)

    assert (before, table.ask("r", A, 2)) == (None, False)
