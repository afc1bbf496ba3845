from __future__ import annotations

import random
from typing import Any

import pytest
from fakes_times import true_seconds
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.strategies import scoring
from hypertier.router.strategies.loads import AS_BELIEVED, LESS, MORE, NOTHING
from hypertier.router.strategies.prefill_times import MIN_OBSERVATIONS
from hypertier.router.strategies.scoring import Choice, Scoring

ALL = 0b1111


def taught(num_replicas: int = 4, slow: tuple[int, ...] = ()) -> Scoring:
    """A scoring that saw each replica compute prompts of many sizes, one at a time; the clock is at 1,000."""
    made = Scoring()
    for replica in range(num_replicas):
        made.add(replica, 0.0)
    draw = random.Random(1)
    for number in range(60 * num_replicas):
        replica, at = number % num_replicas, 10.0 * (number // num_replicas)
        held, size = draw.choice([0, 1000, 5000]), draw.randrange(6000, 60_000)
        took = true_seconds(held, size) * (3.0 if replica in slow else 1.0)
        made.sent(number, replica, held, size, at)
        made.first_token(number, at + took)
        made.finished(number, at + took)
    made.crowd(1000.0)
    return made


def test_until_times_are_known_sizes_decide() -> None:
    made = Scoring()
    for replica in (0, 1):
        made.add(replica, 0.0)
    made.sent("a", 0, 0, 1000, 0.0)

    near = made.choose(4000, [(3500, 0b01)], 0b11, 0.0)
    far = made.choose(4000, [(500, 0b01)], 0b11, 0.0)

    # 1000 + 500 * 2 + 0.1 * 1000 < 4000 < 1000 + 3500 * 2 + 0.1 * 1000
    assert (near.replica, near.held, near.seconds) == (0, 3500, None)
    assert (far.replica, far.held, far.seconds) == (1, 0.0, None)


def test_until_times_are_known_what_waits_is_waited_for_once() -> None:
    made = Scoring()
    for replica in (0, 1):
        made.add(replica, 0.0)
    made.sent("a", 0, 0, 1900, 0.0)

    choice = made.choose(4000, [(3100, 0b01)], 0b11, 0.0)

    # 1900 + 900 * 2 + 0.1 * 1900 < 4000; with what waits times two requests, too, it would be 5600
    assert (choice.replica, choice.held) == (0, 3100)


def test_until_times_are_known_a_crowd_leaves_the_holder_though_all_that_it_asks_is_held() -> None:
    made = Scoring()
    for replica in (0, 1):
        made.add(replica, 0.0)

    for ticket in range(20):
        replica = made.choose(4000, [(4000, 0b01)], 0b11, 0.0).replica
        made.sent(ticket, replica, 4000 if replica == 0 else 0, 4000, 0.0)

    assert made.in_flight(1) > 0


def test_an_idle_holder_is_chosen_and_its_time_is_told() -> None:
    choice = taught().choose(40_000, [(30_000, 0b0100)], ALL, 1000.0)

    assert (choice.replica, choice.held) == (2, 30_000)
    assert choice.seconds == pytest.approx(true_seconds(30_000, 40_000), rel=0.1)


def test_a_prompt_waits_for_its_holder_only_as_long_as_that_is_sooner() -> None:
    made = taught()
    made.sent("a", 2, 0, 20_000, 1000.0)
    short = made.choose(40_000, [(30_000, 0b0100)], ALL, 1000.0)
    made.sent("b", 2, 0, 60_000, 1000.0)
    long = made.choose(40_000, [(30_000, 0b0100)], ALL, 1000.0)

    assert short.replica == 2
    assert long.replica != 2
    assert long.held == 0


def test_in_a_crowd_it_waits_longer_since_work_twice_done_delays_everybody() -> None:
    def chosen(num_waiting: int) -> Choice:
        made = taught()
        made.sent("holder's", 2, 0, 60_000, 999.0)
        for number in range(num_waiting):
            for replica in range(4):
                made.sent((replica, number), replica, 0, 100, 999.0)
        made.crowd(1030.0)
        made.first_token("holder's", 1030.0)
        made.sent("again", 2, 0, 60_000, 1030.0)
        return made.choose(40_000, [(30_000, 0b0100)], ALL, 1030.0)

    assert chosen(0).replica != 2
    assert chosen(30).replica == 2


@pytest.mark.parametrize(("goes_on", "waits", "home"), [(True, True, 1), (False, True, 0), (True, False, 0)])
def test_a_session_leaves_whom_many_come_back_to_where_prompts_wait(
    goes_on: bool, waits: bool, home: int
) -> None:
    made = taught(2)
    took = true_seconds(0, 8000)
    for second in range(60):
        now = 1000.0 + second
        for number, replica in enumerate((0, 0, 1) if second % 4 == 0 else (0, 0)):
            at = now if waits else now + number * took
            until = now + (number % 2 + 1) * took if waits else at + took
            made.sent((second, number), replica, 0, 8000, at, goes_on=goes_on)
            made.crowd(until)
            made.first_token((second, number), until)
            made.finished((second, number), until)

    choice = made.choose(9000, [(4000, 0b01)], 0b11, 1060.0)

    assert choice.replica == home


@given(st.data())
def test_what_is_not_looked_at_would_not_have_been_chosen(data: st.DataObject) -> None:
    draw = data.draw
    made = taught(slow=draw(st.sampled_from([(), (1,)])))
    for number in range(draw(st.integers(0, 12))):
        made.sent(("x", number), draw(st.integers(0, 3)), 0, draw(st.integers(1, 60_000)), 1000.0)
    size = draw(st.integers(10_000, 60_000))
    held = sorted(draw(st.sets(st.integers(1, 70_000), max_size=3)), reverse=True)
    groups = [(float(tokens), 1 << replica) for replica, tokens in enumerate(held)]

    chosen = made.choose(size, groups, ALL, 1001.0)

    made._num_faster += 1  # one that is faster than all others: then everybody is looked at
    whole = made.choose(size, groups, ALL, 1001.0)
    assert (chosen.replica, chosen.held, chosen.seconds) == (whole.replica, whole.held, whole.seconds)


def test_waiting_work_is_done_as_time_passes_and_what_is_late_is_expected_late_again() -> None:
    made = taught()
    expected = true_seconds(0, 60_000)
    made.sent("a", 2, 0, 60_000, 1000.0)

    def seconds(now: float) -> float:
        choice = made.choose(1000, [], 0b0100, now)
        assert choice.seconds is not None
        return choice.seconds

    alone = true_seconds(0, 1000)
    assert seconds(1000.0) == pytest.approx(expected + alone, rel=0.1)
    assert seconds(1000.0 + expected / 2) == pytest.approx(expected / 2 + alone, rel=0.2)
    assert seconds(1000.0 + 3 * expected) == pytest.approx(2 * expected + alone, rel=0.2)


def test_a_slow_replica_is_known_by_its_first_tokens() -> None:
    choice = taught(slow=(1,)).choose(20_000, [], ALL, 1000.0)
    held_by_the_slow = taught(slow=(1,)).choose(20_000, [(2000, 0b0010)], ALL, 1000.0)

    assert choice.replica != 1
    assert held_by_the_slow.replica != 1


def test_short_prompts_whose_held_part_is_not_known_well_make_no_replica_slow() -> None:
    scoring = taught()
    for number in range(800):  # at one replica, each question is twice as long as believed
        now = 1000.0 + 10 * number
        length = 400 if number % 4 == 0 else 200
        took = true_seconds(50_000 - length, 50_000)
        if number % 8 > 3:
            held, took = 0, true_seconds(0, 50_000)
        else:
            held = 50_000 - 300
        scoring.sent(number, number % 4, held, 50_000, now)
        scoring.first_token(number, now + took)
        scoring.finished(number, now + took)

    assert {load.slowness for load in scoring._loads.values()} == {1.0}


@pytest.mark.parametrize(
    ("held", "truly_held", "surprise"),
    [
        (19_000, 19_000, AS_BELIEVED),
        (19_000, 15_000, AS_BELIEVED),
        (19_000, 0, LESS),
        (0, 19_000, MORE),
        (0, 0, NOTHING),
        (5_000, 0, NOTHING),
    ],
)
def test_the_time_of_a_prompt_tells_whether_it_was_held(held: int, truly_held: int, surprise: int) -> None:
    scoring = taught()
    before = scoring.model.seconds(0, 20_000)

    for number in range(10):
        now = 1000.0 + 10 * number
        scoring.sent(number, 0, held, 20_000, now)
        sent = scoring.first_token(number, now + true_seconds(truly_held, 20_000))
        scoring.finished(number, now + 5)

    assert sent is not None
    assert sent.surprise == surprise
    assert scoring.model.seconds(0, 20_000) == pytest.approx(before, rel=0.1 if surprise == LESS else 0.5)


def test_until_times_are_known_they_tell_nothing_of_what_was_held() -> None:
    scoring = Scoring()
    scoring.add(0, 0.0)
    scoring.sent(1, 0, 19_000, 20_000, 0.0)

    sent = scoring.first_token(1, 2.0)

    assert sent is not None
    assert sent.surprise == NOTHING


def test_what_all_replicas_have_in_common_is_no_slowness_of_any() -> None:
    scoring = taught()
    for number in range(400):  # all are three times as slow as they were
        now = 1000.0 + 10 * number
        scoring.sent(number, number % 4, 0, 10_000, now)
        scoring.first_token(number, now + 3 * true_seconds(0, 10_000))
        scoring.finished(number, now + 3 * true_seconds(0, 10_000))

    assert {load.slowness for load in scoring._loads.values()} == {1.0}
    assert scoring.model.seconds(0, 10_000) == pytest.approx(3 * true_seconds(0, 10_000), rel=0.2)


def test_equal_replicas_take_turns() -> None:
    made = taught()
    seen = []

    for number in range(8):
        replica = made.choose(1000, [], ALL, 1000.0 + number).replica
        made.sent(number, replica, 0, 1000, 1000.0 + number)
        made.first_token(number, 1000.5 + number)
        made.finished(number, 1000.6 + number)
        seen.append(replica)

    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_an_answer_that_is_not_streamed_holds_nobody_up_once_its_prompt_ought_to_be_computed() -> None:
    def seconds(streamed: bool) -> float | None:
        made = taught()
        made.sent("a", 2, 0, 60_000, 1000.0, streamed=streamed)
        return made.choose(1000, [], 0b0100, 1030.0).seconds

    assert seconds(streamed=False) == pytest.approx(true_seconds(0, 1000), rel=0.1)
    assert (seconds(streamed=True) or 0) > 10


def test_what_comes_behind_an_answer_that_is_not_streamed_is_learned_from_alone() -> None:
    made = taught()
    expected = true_seconds(0, 20_000)
    made.sent("unseen", 2, 0, 20_000, 1000.0, streamed=False)
    made.sent("seen", 2, 0, 20_000, 1000.0)

    made.first_token("seen", 1000.0 + 2 * expected)

    assert made.model.seconds(0, 20_000) == pytest.approx(expected, rel=0.1)
    assert made.choose(1000, [], 0b0100, 1010.0).seconds == pytest.approx(true_seconds(0, 1000), rel=0.1)


def test_prompts_that_were_sent_before_times_were_known_are_waited_for_by_the_times_of_now() -> None:
    scoring = Scoring()
    for replica in range(2):
        scoring.add(replica, 0.0)
    for number in range(6):  # while nothing is known, all of these go to one replica
        scoring.sent(f"early {number}", 1, 0, 40_000, 0.0)

    draw = random.Random(1)
    now = 0.0
    for number in range(MIN_OBSERVATIONS):
        size = draw.randrange(2000, 60_000)
        scoring.sent(number, 0, 0, size, now)
        now += true_seconds(0, size)
        scoring.first_token(number, now)
        scoring.finished(number, now)

    late = scoring.choose(1000, [], 0b10, 0.0).seconds
    assert late is not None
    assert late == pytest.approx(6 * true_seconds(0, 40_000) + true_seconds(0, 1000), rel=0.2)


def test_a_removed_replica_is_forgotten_with_what_it_had_in_hand() -> None:
    made = taught()
    made.sent("a", 2, 0, 1000, 1000.0)

    made.remove(2)
    made.first_token("a", 1000.1)
    made.finished("a", 1000.2)
    made.add(2, 1001.0)

    assert made.in_flight(2) == 0
    assert made.choose(1000, [], 0b0100, 1001.0).replica == 2


def test_a_request_without_an_answer_leaves_nothing_behind() -> None:
    made = taught()
    made.sent("a", 2, 0, 60_000, 1000.0)

    made.finished("a", 1000.1)
    made.finished("a", 1000.2)
    made.first_token("a", 1000.3)

    choice = made.choose(1000, [], 0b0100, 1000.4)
    assert made.in_flight(2) == 0
    assert choice.seconds == pytest.approx(true_seconds(0, 1000), rel=0.1)


def test_there_must_be_a_replica_to_choose() -> None:
    with pytest.raises(ValueError, match="no replica"):
        taught().choose(1000, [], 0, 1000.0)


def test_of_replicas_that_cost_about_the_same_the_one_with_least_work_of_late_is_chosen() -> None:
    made = taught()
    seen = ((3, 60_000, 1000.0), (0, 3000, 1400.0), (1, 2000, 1410.0), (2, 1000, 1420.0))
    for replica, tokens, now in seen:
        made.sent(replica, replica, 0, tokens, now)
        made.first_token(replica, now + true_seconds(0, tokens))
        made.finished(replica, now + 9.0)

    assert made.choose(1000, [], ALL, 1430.0).replica == 3
    assert made.choose(1000, [], 0b0111, 1430.0).replica == 2


def test_the_more_comes_the_longer_a_prompt_waits_for_its_holder() -> None:
    def chosen(every_seconds: float) -> int:
        made = taught()
        took = true_seconds(0, 10_000)
        for number in range(40):
            now = 1000.0 + number * every_seconds
            for replica in range(4):
                made.sent((replica, number), replica, 0, 10_000, now)
            for replica in range(4):
                made.first_token((replica, number), now + took)
                made.finished((replica, number), now + took)
        made.sent("holder's", 3, 0, 30_000, now + took)
        return made.choose(20_000, [(19_000, 0b1000)], ALL, now + took).replica

    assert chosen(30.0) != 3
    assert chosen(0.6) == 3


def test_however_many_come_a_prompt_delays_a_bounded_number() -> None:
    assert scoring._cost(1e9, 2.0, 0.0, 1e9) == 1e9 + 2.0 + scoring.MAX_CROWD
    assert scoring._cost(0.0, 2.0, 3.0, 0.0) == 2.0 + 3.0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "token", "end", "leave", "come"]), st.integers(0, 20), st.integers(0, 3)
    ),
    max_size=80,
)


@given(STEPS)
def test_whatever_happens_a_choice_is_one_of_those_asked_for(steps: list[tuple[str, int, int]]) -> None:
    made = taught()
    present = {0, 1, 2, 3}
    open_: set[Any] = set()
    now = 1000.0

    for what, number, replica in steps:
        now += number / 10
        if what == "send" and replica in present and number not in open_:
            made.sent(number, replica, 0, 500 + number, now, streamed=number % 2 == 0)
            open_.add(number)
        elif what == "token":
            made.first_token(number, now)
        elif what == "end":
            made.finished(number, now)
            open_.discard(number)
        elif what == "leave":
            made.remove(replica)
            present.discard(replica)
        elif what == "come":
            made.add(replica, now)
            present.add(replica)
        if present:
            among = sum(1 << one for one in present)
            assert made.choose(1000, [(400, 0b0011)], among, now).replica in present
    for number in list(open_):
        made.finished(number, now)

    assert all(made.in_flight(replica) == 0 for replica in range(4))
    assert made.crowd(now + 1000.0) == pytest.approx(0.0, abs=1e-9)


def test_of_many_equal_replicas_those_free_soonest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    made = taught(64)
    among = (1 << 64) - 1
    for number in range(400):
        replica = made.choose(20_000, [(10_000, 0b1111)], among, 1000.0).replica
        made.sent(number, replica, 10_000 if replica < 4 else 0, 20_000, 1000.0)

    quick = made.choose(20_000, [(10_000, 0b1111)], among, 1000.1)
    monkeypatch.setattr(scoring, "SMALL_SET", 64)
    whole = made.choose(20_000, [(10_000, 0b1111)], among, 1000.1)

    assert quick.seconds == pytest.approx(whole.seconds, rel=0.1)
    assert MIN_OBSERVATIONS < 60


def test_first_token_of_what_was_thought_not_to_be_streamed_is_no_error() -> None:
    scoring = Scoring()
    scoring.add(0, 0.0)
    for ticket in range(2 * MIN_OBSERVATIONS):
        scoring.sent(ticket, 0, 0, 100, float(ticket))
        scoring.first_token(ticket, ticket + 0.1)
        scoring.finished(ticket, ticket + 0.1)

    scoring.sent("late", 0, 0, 100, 1000.0, streamed=False)
    scoring.first_token("late", 1010.0)
    scoring.finished("late", 1011.0)

    assert scoring.in_flight(0) == 0
