"""What engines say against what they were sent, through the picker as the proxy uses it."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from fakes_router import Traffic

from hypertier.router.api.openai import InferenceRequest, Prompt, prefix_bytes, read
from hypertier.router.http.heads import Request
from hypertier.router.kv.kv_events import Cleared, Stored, chain
from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.kvaware import COMPUTING_SHARE, MAX_PROMPT_BYTES, KvAware

NUM_BLOCKS = 8  # of bytes, 64 each, and as many tokens as blocks


def request(number: int) -> InferenceRequest:
    hashes = tuple(1000 * (number + 1) + i for i in range(NUM_BLOCKS))
    return InferenceRequest(prefix_bytes(NUM_BLOCKS), hashes, streamed=True)


def tokens(number: int) -> list[int]:
    return [100 * (number + 1) + i for i in range(NUM_BLOCKS)]


class Engines(Traffic):
    """All in step; `tokenized` and `says` are what the router heard."""

    def __init__(self, num_replicas: int, index_bytes: int = 1 << 22) -> None:
        super().__init__("kvaware", num_replicas, index_bytes)
        assert isinstance(self.strategy, KvAware)
        self.kvaware: KvAware = self.strategy
        for replica in self.replicas.healthy:
            self.kvaware.hear(replica)

    def tokenized(self, number: int) -> None:
        names = list(chain(tokens(number), 1))
        self.kvaware.links.learn(request(number).block_hashes, names)

    def says(self, replica: Replica, number: int, num_blocks: int = NUM_BLOCKS, medium: str = "GPU") -> None:
        ids = tokens(number)[:num_blocks]
        self.kvaware.apply(replica, Stored(ids, None, ids, 1, medium, None, 0, True, True))


def test_a_prompt_goes_to_the_replica_that_says_it_holds_it() -> None:
    engines = Engines(4)
    holder = engines.replicas.healthy[2]
    engines.tokenized(1)
    engines.says(holder, 1)

    choice = engines.serve(request(1))

    assert (choice.replica, choice.reason, choice.matched_bytes) == (holder, "kv", prefix_bytes(NUM_BLOCKS))
    assert not engines.kvaware.fallbacks


def test_what_was_evicted_draws_nothing_though_it_was_sent_there() -> None:
    engines = Engines(2)
    home = engines.serve(request(1)).replica
    engines.tokenized(1)
    engines.says(home, 1)
    assert engines.serve(request(1)).reason == "kv"

    engines.kvaware.apply(home, Cleared())

    choice = engines.serve(request(1))
    assert (choice.reason, choice.matched_bytes) == ("load", 0)


def test_gpu_draws_more_than_l1_and_l1_more_than_nothing() -> None:
    engines = Engines(3)
    gpu, l1, _ = engines.replicas.healthy
    engines.tokenized(1)
    for replica in (gpu, l1):
        engines.says(replica, 1)
    engines.says(l1, 1, medium="CPU")
    engines.kvaware.apply(l1, Cleared())

    first = engines.serve(request(1))
    engines.kvaware.apply(gpu, Cleared())
    second = engines.serve(request(1))

    assert (first.replica, second.replica) == (gpu, l1)
    assert 0 < second.matched_bytes < first.matched_bytes


def test_a_replica_that_holds_more_is_preferred() -> None:
    engines = Engines(2)
    less, more = engines.replicas.healthy
    engines.tokenized(1)
    engines.says(less, 1, num_blocks=2)
    engines.says(more, 1, num_blocks=6)

    assert engines.serve(request(1)).replica is more


@pytest.mark.parametrize(
    ("cause", "in_step", "is_tokenized"),
    [
        pytest.param("no_events", False, True, id="no-events"),
        pytest.param("not_tokenized", True, False, id="not-tokenized"),
        pytest.param("not_confirmed", True, True, id="not-confirmed"),
    ],
)
def test_without_what_it_needs_it_is_prefixaware_and_says_why(
    cause: str, in_step: bool, is_tokenized: bool
) -> None:
    engines = Engines(4)
    home = engines.serve(request(1)).replica
    engines.kvaware.fallbacks.clear()
    if not in_step:
        for replica in engines.replicas.healthy:
            engines.kvaware.forget(replica)
    if is_tokenized:
        engines.tokenized(1)

    choice = engines.serve(request(1))

    assert (choice.replica, choice.reason) == (home, "prefix")
    assert engines.kvaware.fallbacks == {cause: 1}


def test_no_engine_is_asked_for_the_tokens_of_a_body_that_takes_long_to_read() -> None:
    engines = Engines(1)
    prompt = Prompt(b"/v1/completions", b" " * (MAX_PROMPT_BYTES + 1), 1)

    engines.serve(request(1).replace(prompt=prompt))

    assert engines.kvaware.tokenizations == {"unsupported": 1}


def test_tokens_are_learned_anew_once_engines_render_prompts_otherwise() -> None:
    """One engine after the other restarts, first with the same chat template, then with another."""
    engines = Engines(2)
    first, second = engines.replicas.healthy
    for replica in (first, second):
        engines.kvaware.hear(replica, 1, rendering=1)
    known = []

    for replica, rendering in ((first, 1), (second, 1), (first, 2), (second, 2)):
        engines.tokenized(1)
        engines.kvaware.forget(replica)
        engines.kvaware.hear(replica, 1, rendering)
        known.append(engines.kvaware.links.knows(request(1).block_hashes))

    assert known == [True, True, False, False]


def test_chats_that_begin_with_one_image_go_to_one_replica_whatever_they_ask() -> None:
    """Engines alone know the hash that names its blocks: what was sent where decides, and it is counted."""
    engines = Engines(4)

    def ask(image: str, text: str) -> InferenceRequest:
        content = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": text}]
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
        sent = Request(method=b"POST", target=b"/v1/chat/completions", body=body, has_body=True)
        return read(sent, session_key=None, hash_prompt=True)

    images = [f"data:image/png;base64,{letter * 20_000}" for letter in "ABCD"]
    homes = [engines.serve(ask(image, "What is this?")).replica for image in images]
    engines.kvaware.fallbacks.clear()

    again = [engines.serve(ask(image, "And how large?")).replica for image in images]

    assert again == homes
    assert engines.kvaware.fallbacks == {"not_tokenized": 4}


def test_a_replica_that_is_not_heard_is_judged_by_what_it_was_sent() -> None:
    engines = Engines(2)
    home = engines.serve(request(1)).replica
    other = next(replica for replica in engines.replicas.healthy if replica is not home)
    engines.tokenized(1)
    engines.says(other, 1, num_blocks=1)
    engines.kvaware.forget(home)

    choice = engines.serve(request(1))

    assert choice.replica is home
    assert engines.kvaware.fallbacks["no_events"] == 1


def test_what_is_being_computed_somewhere_draws_what_comes_behind() -> None:
    engines = Engines(8)
    holder = engines.replicas.healthy[3]
    engines.tokenized(1)
    engines.says(holder, 1, num_blocks=1)
    for _ in range(30):  # until times are known
        engines.serve(request(2), seconds_per_byte=1e-3)
    computing = engines.send(request(1))

    behind = engines.send(request(1))

    assert behind.replica is computing.replica
    assert behind.matched_bytes == prefix_bytes(NUM_BLOCKS)


def test_beyond_what_is_known_in_tokens_what_was_sent_tells() -> None:
    engines = Engines(8)
    home = engines.serve(request(1)).replica
    for replica in engines.replicas.healthy:
        engines.says(replica, 1, num_blocks=2)
    engines.kvaware.links.learn(request(1).block_hashes[:2], list(chain(tokens(1)[:2], 1)))

    choice = engines.serve(request(1))

    assert (choice.replica, choice.reason, choice.matched_bytes) == (home, "kv", prefix_bytes(NUM_BLOCKS))


def test_tokens_are_learned_anew_where_engines_have_blocks_of_another_length() -> None:
    engines = Engines(1)
    replica = engines.replicas.healthy[0]
    engines.kvaware.hear(replica, 1)
    engines.tokenized(1)
    engines.says(replica, 1)
    engines.serve(request(1))

    engines.kvaware.forget(replica)
    engines.kvaware.hear(replica, 2)

    engines.serve(request(1))
    assert not engines.kvaware.links.knows(request(1).block_hashes)
    assert engines.kvaware.fallbacks == {"not_tokenized": 1}


def test_a_crowd_that_begins_alike_is_not_glued_to_the_holder() -> None:
    engines = Engines(8)
    engines.tokenized(1)
    engines.says(engines.replicas.healthy[0], 1, num_blocks=4)

    served = Counter(engines.send(request(1)).replica.url for _ in range(800))

    assert max(served.values()) <= 1.5 * 800 / 8


def test_a_replica_that_left_gives_its_memory_back() -> None:
    engines = Engines(2)
    engines.tokenized(1)
    before = engines.kvaware.index_bytes
    for replica in engines.replicas.healthy:
        engines.says(replica, 1)

    engines.replicas.replace([])

    assert engines.kvaware.index_bytes == before


def test_memory_stays_within_its_bound() -> None:
    engines = Engines(2, index_bytes=1 << 16)

    for number in range(500):
        engines.tokenized(number)
        engines.says(engines.replicas.healthy[number % 2], number)
        engines.serve(request(number))

    assert engines.kvaware.index_bytes <= 1 << 16
    assert engines.kvaware.index.dropped["full"] > 0


def test_what_is_being_computed_counts_and_stays_within_the_bound() -> None:
    engines = Engines(2, index_bytes=1 << 16)
    before = engines.kvaware.index_bytes

    for number in range(500):
        engines.send(request(number))

    sent = engines.kvaware._prompts.num_bytes
    assert before + sent < engines.kvaware.index_bytes <= 1 << 16
    assert engines.kvaware._computing.num_bytes <= COMPUTING_SHARE * (1 << 16)
