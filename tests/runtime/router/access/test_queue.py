"""Whose turn it is, under a clock that a test moves."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.access.queue import MIN_LINES, FairQueue, Waits

FOREVER = float("inf")
Item = tuple[str, int]


def push(queue: FairQueue[Item], tenant: str, number: int, *, cost: float = 1, **given: float) -> Item | None:
    return queue.push(
        (tenant, number),
        tenant=tenant,
        weight=given.get("weight", 1),
        priority=int(given.get("priority", 0)),
        cost=cost,
        deadline=given.get("deadline", FOREVER),
    )


def drain(queue: FairQueue[Item]) -> list[Item]:
    return list(iter(queue.pop, None))


def test_tenants_take_turns_and_each_is_served_in_its_order() -> None:
    queue: FairQueue[Item] = FairQueue(100)
    for tenant in "ab":
        for number in range(3):
            push(queue, tenant, number)

    assert drain(queue) == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_who_has_less_time_leaves_before_those_in_front() -> None:
    queue: FairQueue[Item] = FairQueue(10)
    push(queue, "a", 0, deadline=30)
    push(queue, "a", 1, deadline=1)

    assert list(queue.expired(2)) == [("a", 1)]
    assert drain(queue) == [("a", 0)]


def test_weights_are_shares_of_the_work() -> None:
    queue: FairQueue[Item] = FairQueue(1000)
    for number in range(300):
        push(queue, "heavy", number, weight=3)
        push(queue, "light", number)

    served = Counter(tenant for tenant, _ in (queue.pop() or ("", 0) for _ in range(200)))

    assert abs(served["heavy"] - 150) <= 1


def test_long_prompts_cost_their_tenant_turns() -> None:
    queue: FairQueue[Item] = FairQueue(1000)
    for number in range(100):
        push(queue, "long", number, cost=9)
        push(queue, "short", number, cost=1)

    served = Counter(tenant for tenant, _ in (queue.pop() or ("", 0) for _ in range(50)))

    assert abs(served["long"] - 5) <= 1


def test_lower_priorities_go_first() -> None:
    queue: FairQueue[Item] = FairQueue(10)
    push(queue, "batch", 0, priority=5)
    push(queue, "chat", 0, priority=-1)
    push(queue, "plain", 0)

    assert [tenant for tenant, _ in drain(queue)] == ["chat", "plain", "batch"]


def test_a_light_tenant_waits_for_about_one_request_of_a_heavy_one() -> None:
    """One engine, a request a second; one tenant sends fifty a second, the other one every ten seconds."""
    queue: FairQueue[Item] = FairQueue(100)
    sent: dict[int, float] = {}
    waits: list[float] = []
    for second in range(600):
        for number in range(50):
            push(queue, "heavy", second * 50 + number)
        if second % 10 == 0:
            assert push(queue, "light", second) != ("light", second)
            sent[second] = second
        served = queue.pop()
        if served is not None and served[0] == "light":
            waits.append(second - sent[served[1]])

    assert len(waits) == 60
    assert max(waits) <= 2


def test_a_full_queue_takes_from_the_longest_line() -> None:
    queue: FairQueue[Item] = FairQueue(3)
    for number in range(3):
        assert push(queue, "heavy", number) is None

    assert push(queue, "light", 0) == ("heavy", 2)
    assert push(queue, "heavy", 3) == ("heavy", 3)
    assert drain(queue) == [("heavy", 0), ("light", 0), ("heavy", 1)]


def test_a_full_queue_takes_from_what_matters_least() -> None:
    queue: FairQueue[Item] = FairQueue(2)
    push(queue, "batch", 0, priority=1)
    push(queue, "chat", 0)

    assert push(queue, "chat", 1) == ("batch", 0)
    assert push(queue, "batch", 1, priority=1) == ("batch", 1)


def test_a_queue_of_one_goes_on() -> None:
    queue: FairQueue[Item] = FairQueue(1)
    push(queue, "light", 0, priority=1)
    queue.remove(("light", 0))
    push(queue, "heavy", 0, priority=1)

    assert push(queue, "light", 1) == ("heavy", 0)
    assert drain(queue) == [("light", 1)]


def test_who_leaves_owes_nothing() -> None:
    queue: FairQueue[Item] = FairQueue(100)
    for number in range(10):
        push(queue, "a", number)
    for number in range(9):
        assert queue.remove(("a", number))
    push(queue, "b", 0)
    push(queue, "b", 1)

    assert not queue.remove(("a", 0))
    assert drain(queue) == [("a", 9), ("b", 0), ("b", 1)]


def test_deadlines_pass() -> None:
    queue: FairQueue[Item] = FairQueue(10)
    push(queue, "a", 0, deadline=5)
    push(queue, "a", 1, deadline=9)
    push(queue, "b", 0, deadline=4)

    assert sorted(queue.expired(5)) == [("a", 0), ("b", 0)]
    assert drain(queue) == [("a", 1)]


def test_tenants_that_went_are_forgotten() -> None:
    queue: FairQueue[Item] = FairQueue(10)
    push(queue, "stays", 0, cost=1e9)
    push(queue, "stays", 1)
    for number in range(10_000):
        push(queue, f"t{number}", 0, priority=-1)
        queue.pop()

    assert len(queue._lines) <= 2 * 10 + MIN_LINES + 1
    assert len(queue) == 2


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), st.sampled_from("abc"), st.integers(1, 9)),
            st.tuples(st.just("pop"), st.just(""), st.just(0)),
            st.tuples(st.just("remove"), st.sampled_from("abc"), st.integers(0, 9)),
        ),
        max_size=80,
    ),
    st.integers(1, 6),
)
def test_whatever_happens_each_tenant_is_served_in_its_order(
    steps: list[tuple[str, str, int]], size: int
) -> None:
    queue: FairQueue[Item] = FairQueue(size)
    model: dict[str, deque[Item]] = {tenant: deque() for tenant in "abc"}
    for number, (step, tenant, argument) in enumerate(steps):
        if step == "push":
            displaced = push(queue, tenant, number, cost=argument)
            model[tenant].append((tenant, number))
            if displaced is not None:
                assert model[displaced[0]].pop() == displaced
        elif step == "pop":
            served = queue.pop()
            assert (served is None) == (not any(model.values()))
            if served is not None:
                assert model[served[0]].popleft() == served
        elif len(model[tenant]) > argument:
            leaving = model[tenant][argument]
            model[tenant].remove(leaving)
            assert queue.remove(leaving)
        assert len(queue) == sum(map(len, model.values())) <= size
        assert {tenant: queue.num_waiting(tenant) for tenant in "abc"} == {
            tenant: len(line) for tenant, line in model.items()
        }


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_nobody_is_served_ahead_of_its_share(order: str) -> None:
    """While both wait, what two tenants were served differs by at most one request of each."""
    queue: FairQueue[Item] = FairQueue(1000)
    costs = {"a": [7, 1, 3, 9, 2] * 20, "b": [4, 4, 1, 8] * 25}
    for tenant in order:
        for number, cost in enumerate(costs[tenant]):
            push(queue, tenant, number, cost=cost)
    done = Counter[str]()
    left = {tenant: len(line) for tenant, line in costs.items()}

    while all(left.values()):
        tenant, number = queue.pop() or ("", 0)
        done[tenant] += costs[tenant][number]
        left[tenant] -= 1
        assert abs(done["a"] - done["b"]) <= 9 + 8


def test_who_comes_late_is_owed_nothing_for_the_time_before() -> None:
    queue = FairQueue[tuple[str, int]](1000)
    for number in range(100):
        queue.push(("a", number), tenant="a", weight=1.0, priority=0, cost=1.0, deadline=1e9)
    for _ in range(50):
        queue.pop()
    for number in range(20):
        queue.push(("late", number), tenant="late", weight=1.0, priority=0, cost=1.0, deadline=1e9)

    served = [item[0] for item in (queue.pop() for _ in range(20)) if item is not None]

    assert 9 <= served.count("late") <= 11


@pytest.mark.parametrize(
    ("seconds", "told"),
    [([], 1), ([0.01], 1), ([2.5], 3), ([8.0, 0.0], 7), ([8.0] + [0.0] * 40, 1), ([3600.0], 60)],
)
def test_retry_after_is_the_mean_of_the_latest_waits_within_a_minute(seconds: list[float], told: int) -> None:
    waits = Waits()
    for one in seconds:
        waits.ended(one)

    assert waits.retry_after_seconds == told
