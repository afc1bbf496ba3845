"""Cache against load."""

from __future__ import annotations

from collections import Counter

from fakes_router import healthy_replicas
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.openai import InferenceRequest, prefix_bytes
from hypertier.router.picking import Picker
from hypertier.router.replicas import ReplicaSet
from hypertier.router.residency import Residency
from hypertier.router.strategies.prefixaware import PrefixAware


def picker(num_replicas: int) -> tuple[Picker, ReplicaSet]:
    replicas, _ = healthy_replicas(num_replicas)
    residency = Residency(1 << 22)
    return Picker(PrefixAware(residency), replicas, residency), replicas


def conversation(number: int, num_blocks: int, num_common: int = 0) -> InferenceRequest:
    own = tuple(1000 * (number + 1) + i for i in range(num_common, num_blocks))
    return InferenceRequest(prefix_bytes(num_blocks), tuple(range(num_common)) + own)


def test_next_turn_of_a_conversation_goes_where_the_last_one_went() -> None:
    one, _ = picker(8)
    homes = {}

    for turn in range(1, 5):
        for number in range(50):
            pick = one.pick(conversation(number, 8 * turn))
            assert pick is not None
            homes.setdefault(number, set()).add(pick.replica.url)

    assert all(len(urls) == 1 for urls in homes.values())


def test_shared_system_prompt_does_not_glue_all_traffic_to_one_replica() -> None:
    one, replicas = picker(8)
    served: Counter[str] = Counter()

    for number in range(800):  # all in flight at once
        request = conversation(number, 20, num_common=8)
        pick = one.pick(request)
        assert pick is not None
        replicas.start(pick.replica, request.num_bytes - pick.matched_bytes)
        served[pick.replica.url] += 1

    assert max(served.values()) <= 1.1 * 800 / 8


def test_busy_replica_loses_even_what_it_has_cached() -> None:
    one, replicas = picker(2)
    request = conversation(1, 8)
    home = one.pick(request)
    assert home is not None

    for _ in range(64):
        replicas.start(home.replica, 4096)

    moved = one.pick(request)
    assert moved is not None
    assert moved.replica is not home.replica


@given(
    held=st.integers(0, 8),
    pending=st.integers(0, 10**6),
    in_flight=st.integers(0, 100),
    more=st.integers(1, 1000),
)
def test_more_work_never_raises_a_score_and_more_cache_never_lowers_it(
    held: int, pending: int, in_flight: int, more: int
) -> None:
    _, (replica,) = healthy_replicas(1)
    residency = Residency(1 << 20)
    strategy = PrefixAware(residency)
    request = conversation(1, 8)
    residency.record(replica.url, request.block_hashes[:held])
    replica.in_flight, replica.pending_bytes = in_flight, pending
    before = strategy.score(request, replica)

    replica.pending_bytes += more
    with_work = strategy.score(request, replica)
    replica.pending_bytes -= more
    replica.in_flight += more
    with_requests = strategy.score(request, replica)
    replica.in_flight -= more
    residency.record(replica.url, request.block_hashes)
    with_cache = strategy.score(request, replica)

    assert with_work < before
    assert with_requests < before
    assert with_cache >= before
