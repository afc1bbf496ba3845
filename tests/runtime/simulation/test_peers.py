"""What each peer's description says, on worlds of a few replicas."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hypertier.simulation.peers import (
    PEERS,
    CacheAware,
    KvRouter,
    LMetric,
    LoadAware,
    MatchedPods,
    PrefixAffinity,
    PrefixTrie,
    RoundRobin,
    SessionHash,
    WeightedScorers,
)
from hypertier.simulation.policy import Policy, Prompt, Scrape, World


def world(num_replicas: int = 3, scraped: Sequence[Scrape] = ()) -> World:
    return World(num_replicas, 100_000, False, lambda _: scraped, 1)


def prompt(number: int, *blocks: int, session: str = "") -> Prompt:
    return Prompt(number, len(blocks) * 512, blocks, session)


def send(policy: Policy, replica: int, *prompts: Prompt) -> None:
    for one in prompts:
        policy.sent(one, replica, 0.0)


def test_round_robin_takes_turns() -> None:
    policy = RoundRobin(world())

    assert sorted(policy.pick(prompt(i, i), 0.0) for i in range(3)) == [0, 1, 2]


def test_session_hash_keeps_a_session_together() -> None:
    policy = SessionHash(world(8))

    chosen = {policy.pick(prompt(i, i, session="a"), 0.0) for i in range(5)}
    spread = {policy.pick(prompt(i, i, session=str(i)), 0.0) for i in range(50)}

    assert len(chosen) == 1
    assert len(spread) > 4


def test_prefix_trie_follows_any_match_whatever_the_load() -> None:
    policy = PrefixTrie(world())
    send(policy, 1, *(prompt(i, 1, 2 + i) for i in range(50)))

    assert policy.pick(prompt(99, 1, 1000, 1001, 1002), 0.0) == 1


def test_cache_aware_follows_a_good_match_until_loads_are_far_apart() -> None:
    policy = CacheAware(world(2))
    send(policy, 1, prompt(0, 1, 2))

    assert policy.pick(prompt(1, 1, 2, 3), 0.0) == 1
    assert policy.pick(prompt(2, 1, 5, 6, 7), 0.0) == 0
    send(policy, 1, *(prompt(i, 1, 2) for i in range(3, 67)))
    assert policy.pick(prompt(99, 1, 2, 3), 0.0) == 0


def test_load_aware_weighs_the_match_against_the_load_above_the_mean() -> None:
    policy = LoadAware(world(2))
    send(policy, 1, prompt(0, 1, 2))

    # One request above the mean outweighs any match; at equal loads a match decides.
    assert policy.pick(prompt(1, 1, 9), 0.0) == 0
    send(policy, 0, prompt(2, 7))
    assert policy.pick(prompt(3, 1, 9), 0.0) == 1


def test_weighted_scorers_sum_queue_memory_and_prefix() -> None:
    idle, queued, full = Scrape(0, 0, 0.0), Scrape(5, 1, 0.0), Scrape(0, 1, 1.0)

    def choice(scraped: Sequence[Scrape]) -> int:
        policy = WeightedScorers(world(2, scraped))
        send(policy, 1, prompt(0, 1, 2, 3, 4, 5))
        return policy.pick(prompt(1, 1, 2, 3, 4, 9), 0.0)

    # The prefix weighs 3 x 4/5 = 2.4; a whole queue or a full memory weighs 2, both 4.
    assert choice((idle, queued)) == 1
    assert choice((idle, full)) == 1
    assert choice((idle, Scrape(5, 1, 1.0))) == 0


def test_kv_router_adds_prefill_and_decode_blocks() -> None:
    policy = KvRouter(world(2))
    send(policy, 1, prompt(0, 1, 2))

    # Replica 1: 2 to compute and 2 to decode from before; the match saves no more than 3 of 4.
    assert policy.pick(prompt(1, 1, 2, 3, 4), 0.0) == 0
    policy.first_token(prompt(0, 1, 2), 1, 0.0)
    policy.finished(prompt(0, 1, 2), 1, 0.0)
    assert policy.pick(prompt(2, 1, 2, 3, 4), 0.0) == 1


def test_lmetric_multiplies_work_by_sharers() -> None:
    policy = LMetric(world(2))
    send(policy, 1, prompt(0, 1, 2))
    policy.first_token(prompt(0, 1, 2), 1, 0.0)

    # (4 - 2) blocks x 2 requests against 4 blocks x 1: equal but for the token that is never cached.
    assert policy.pick(prompt(1, 1, 2, 3, 4, 5), 0.0) == 0
    assert policy.pick(prompt(1, 1, 2, 3), 0.0) == 1


def test_matched_pods_ignore_a_match_that_is_too_busy() -> None:
    policy = MatchedPods(world(3))
    send(policy, 1, prompt(0, 1, 2))
    policy.finished(prompt(0, 1, 2), 1, 0.0)

    assert policy.pick(prompt(1, 1, 2), 0.0) == 1
    send(policy, 1, *(prompt(i, 1, 2) for i in range(2, 6)))
    assert policy.pick(prompt(9, 1, 2), 0.0) != 1


def test_prefix_affinity_follows_a_tenth_and_else_the_smallest_tree() -> None:
    policy = PrefixAffinity(world(2))
    send(policy, 0, prompt(0, 7, 8, 9))
    send(policy, 1, prompt(1, 1, 2, 3, 4))

    assert policy.pick(prompt(2, 1, *range(100, 108)), 0.0) == 1
    assert policy.pick(prompt(3, 1, *range(200, 212)), 0.0) == 0


@pytest.mark.parametrize("name", PEERS)
def test_one_replica_is_always_the_choice(name: str) -> None:
    policy = PEERS[name](world(1, [Scrape(0, 0, 0.0)]))

    assert policy.pick(prompt(0, 1, 2), 0.0) == 0
