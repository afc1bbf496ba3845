"""Cache against load, through the picker as the proxy uses it."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import pytest
from fakes_router import Traffic
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.api.openai import InferenceRequest, prefix_bytes
from hypertier.router.discovery.addresses import Address
from hypertier.router.strategies.prefixaware import RUNS_A_TURN
from hypertier.router.strategies.prefixes import BLOCK_BYTES, RUN_BYTES, RUNS_AT_ONCE


def conversation(number: int, num_blocks: int, num_common: int = 0) -> InferenceRequest:
    own = tuple(1000 * (number + 1) + i for i in range(num_common, num_blocks))
    return InferenceRequest(prefix_bytes(num_blocks), tuple(range(num_common)) + own, streamed=True)


def test_next_turn_of_a_conversation_goes_where_the_last_one_went() -> None:
    traffic = Traffic("prefixaware", 8)
    homes: dict[int, set[str]] = {}

    for turn in range(1, 5):
        for number in range(50):
            choice = traffic.serve(conversation(number, 8 * turn), seconds_per_byte=1e-5)
            homes.setdefault(number, set()).add(choice.replica.url)

    assert all(len(urls) == 1 for urls in homes.values())
    assert len(set.union(*homes.values())) == 8


def test_shared_system_prompt_does_not_glue_all_traffic_to_one_replica() -> None:
    traffic = Traffic("prefixaware", 8)

    served = Counter(
        traffic.send(conversation(number, 20, num_common=8)).replica.url for number in range(800)
    )

    assert max(served.values()) <= 1.1 * 800 / 8


def test_busy_replica_loses_even_what_it_has_cached() -> None:
    traffic = Traffic("prefixaware", 2)
    home = traffic.serve(conversation(1, 8)).replica

    served = [traffic.send(conversation(1, 8)).replica for _ in range(64)]

    assert served[0] is home
    assert any(replica is not home for replica in served)


@pytest.mark.parametrize("num_served", [0, 200], ids=["before times are known", "once they are"])
def test_a_replica_with_one_long_prompt_is_busier_than_one_with_many_short_ones(num_served: int) -> None:
    """What is counted is what they have to compute, not requests."""
    traffic = Traffic("prefixaware", 2)
    for number in range(num_served):
        traffic.serve(conversation(number, 20), seconds_per_byte=1e-5)

    full = traffic.send(conversation(900, 100)).replica
    served = [traffic.send(conversation(901 + number, 10)).replica for number in range(12)]

    assert full not in served


@pytest.mark.parametrize(("num_kept", "num_believed"), [(5, 0), (20, 20)])
def test_a_replica_is_believed_to_hold_what_its_times_bear_out(num_kept: int, num_believed: int) -> None:
    traffic = Traffic("prefixaware", 1)
    prompts = [conversation(number, 20 + 4 * number) for number in range(20)]
    kept: list[int] = []  # what the engine has, which says nothing of the size of its cache

    def serve(number: int) -> bool:
        choice = traffic.send(prompts[number])
        num_bytes = 0 if number in kept else prompts[number].num_bytes
        kept[:] = [*(other for other in kept if other != number), number][-num_kept:]
        traffic.answer(len(traffic.choices) - 1, after=0.01 + 1e-5 * num_bytes)
        return choice.matched_bytes > 0

    for _ in range(5):
        for number in range(20):
            serve(number)

    assert sum(serve(number) for number in range(20)) == num_believed
    assert serve(19)


def test_times_are_learned_from_first_events() -> None:
    traffic = Traffic("prefixaware", 2)

    for number in range(200):
        traffic.serve(conversation(number, 20), seconds_per_byte=1e-5)
    busy = traffic.send(conversation(900, 20)).replica

    assert traffic.send(conversation(901, 20)).replica is not busy


def test_ejected_replica_is_believed_to_hold_nothing() -> None:
    traffic = Traffic("prefixaware", 2)
    home = traffic.serve(conversation(1, 8)).replica

    traffic.replicas.eject(home, "test")
    traffic.replicas.admit(home)

    assert traffic.serve(conversation(1, 8)).matched_bytes == 0


def test_replica_that_left_gives_its_memory_back() -> None:
    traffic = Traffic("prefixaware", 2)
    for number in range(20):
        traffic.serve(conversation(number, 8))

    traffic.replicas.replace([])

    assert traffic.strategy.index_bytes == 0


@pytest.mark.parametrize("strategy", ["prefixaware", "kvaware"])
@pytest.mark.parametrize("change", ["ejected", "left", "joined"])
def test_what_replicas_were_sent_is_forgotten_over_many_turns_of_the_event_loop(
    change: str, strategy: str
) -> None:
    """However much it was: requests pass in between, and find what they would have found."""

    async def forget() -> tuple[list[int], list[int]]:
        traffic = Traffic(strategy, 2, index_bytes=1 << 27)
        for number in range(6000):
            traffic.serve(conversation(number, 8))
        first = traffic.replicas.healthy[0]
        if change == "ejected":
            traffic.replicas.eject(first, "test")
        elif change == "left":
            traffic.replicas.replace([traffic.replicas.healthy[1].address])
        else:
            others = (Address("10.0.1.1", 8000 + number) for number in range(200))
            traffic.replicas.replace([*(replica.address for replica in traffic.replicas.healthy), *others])
        taken, matched = [traffic.strategy.index_bytes], []
        while len(taken) < 3 or taken[-1] != taken[-3]:
            await asyncio.sleep(0)
            matched.append(traffic.serve(conversation(100_000, 8)).matched_bytes)
            taken.append(traffic.strategy.index_bytes)
        return taken, matched

    taken, matched = asyncio.run(forget())

    per_turn = (RUNS_A_TURN + 3 * RUNS_AT_ONCE) * (RUN_BYTES + 8 * BLOCK_BYTES)
    assert max(before - after for before, after in itertools.pairwise(taken)) <= per_turn
    assert taken[0] - taken[-1] > 4 * per_turn
    assert set(matched[1:]) == {prefix_bytes(8)}


@pytest.mark.parametrize("num_replicas", [1, 3, 16])
def test_index_stays_within_its_memory(num_replicas: int) -> None:
    capacity = 120 * 1024
    traffic = Traffic("prefixaware", num_replicas, index_bytes=capacity)

    for number in range(400):
        traffic.serve(conversation(number, 30))
        assert traffic.strategy.index_bytes <= capacity

    assert traffic.serve(conversation(399, 30)).matched_bytes > 0


@pytest.mark.parametrize("strategy", ["prefixaware", "kvaware"])
def test_index_stays_within_its_memory_when_replicas_come_and_none_is_sent_anything(strategy: str) -> None:
    traffic = Traffic(strategy, 1, index_bytes=2**20)
    for number in range(1000):
        traffic.serve(conversation(number, 30))
    alone = traffic.strategy.index_bytes

    (first,) = traffic.replicas.by_url.values()
    others = (Address("10.0.1.1", 8000 + number) for number in range(15))
    traffic.replicas.replace([first.address, *others])

    assert traffic.strategy.index_bytes <= alone / 8


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "answer", "fail", "eject", "admit", "leave", "list"]),
            st.integers(0, 5),
            st.integers(0, 30),
        ),
        max_size=80,
    )
)
def test_any_history_ends_in_a_healthy_choice_and_nothing_in_flight(
    steps: list[tuple[str, int, int]],
) -> None:
    traffic = Traffic("prefixaware", 4)
    addresses = [replica.address for replica in traffic.replicas.healthy]
    open_tickets: list[int] = []

    for step, number, blocks in steps:
        traffic.now += 0.3
        known = list(traffic.replicas.by_url.values())
        if step == "send" and traffic.replicas.healthy:
            choice = traffic.send(conversation(number, blocks))
            assert choice.replica in traffic.replicas.healthy
            open_tickets.append(len(traffic.choices) - 1)
        elif step == "answer" and open_tickets:
            traffic.answer(open_tickets.pop(number % len(open_tickets)))
        elif step == "fail" and open_tickets:
            ticket = open_tickets.pop()
            traffic.strategy.finished(ticket, traffic.now)
            traffic.replicas.finish(traffic.choices[ticket].replica)
        elif step == "eject" and known:
            traffic.replicas.eject(known[number % len(known)], "test")
        elif step == "admit" and known:
            traffic.replicas.admit(known[number % len(known)])
        elif step == "leave":
            traffic.replicas.replace(address for i, address in enumerate(addresses) if i != number % 4)
        else:
            traffic.replicas.replace(addresses)

    for ticket in open_tickets:
        traffic.answer(ticket)
    assert traffic.replicas.in_flight == 0
    traffic.replicas.replace(addresses)
    for replica in list(traffic.replicas.by_url.values()):
        traffic.replicas.admit(replica)
    assert len({traffic.send(InferenceRequest()).replica.url for _ in range(4)}) == 4
