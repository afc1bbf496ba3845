"""How many bytes of prompt a replica keeps, by what engines say of themselves."""

from __future__ import annotations

import math

import pytest
from fakes_router import Traffic, healthy_replicas
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.api.openai import InferenceRequest, prefix_bytes
from hypertier.router.replicas.cache_sizes import (
    MAX_BYTES_PER_TOKEN,
    MIN_BYTES_PER_TOKEN,
    START_BYTES_PER_TOKEN,
    CacheSizes,
    Reading,
    read,
)

# As vLLM 0.32 writes it, shortened.
METRICS = b"""# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",hash_block_size="32",%sengine="0",\
num_cpu_blocks="None",num_gpu_blocks="1000",num_gpu_blocks_override="None"} 1.0
vllm:request_prompt_tokens_bucket{engine="0",le="1.0",model_name="m"} 0.0
vllm:request_prompt_tokens_count{engine="0",model_name="m"} 7.0
vllm:request_prompt_tokens_sum{engine="0",model_name="m"} 4200.0
""".replace(b"\\\n", b"")


def test_a_cache_is_blocks_and_their_size_or_what_the_engine_says_in_tokens() -> None:
    assert read(METRICS % b"") == Reading(16_000, 7.0, 4200.0, 1, 16)
    assert read(METRICS % b'kv_cache_size_tokens="12000",') == Reading(12_000, 7.0, 4200.0, 1, 16)
    assert read(METRICS % b'kv_cache_size_tokens="None",') == Reading(16_000, 7.0, 4200.0, 1, 16)


def test_ranks_of_data_parallel_engines_count_together() -> None:
    text = METRICS % b"" + (METRICS % b"").replace(b'engine="0"', b'engine="1"')

    assert read(text) == Reading(32_000, 14.0, 8400.0, 2, 16)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'vllm:cache_config_info{num_gpu_blocks="None",block_size="16"} 1.0', id="no-blocks"),
        pytest.param(b'vllm:cache_config_info{num_gpu_blocks="-5",block_size="16"} 1.0', id="negative"),
        pytest.param(b"vllm:request_prompt_tokens_sum{} NaN", id="nan"),
        pytest.param(b"vllm:request_prompt_tokens_count{} +Inf", id="endless"),
    ],
)
def test_what_says_nothing_of_a_cache_is_no_size(text: bytes) -> None:
    assert read(text)[:3] == (None, 0.0, 0.0)


@given(st.binary(max_size=300))
def test_no_text_does_harm(text: bytes) -> None:
    reading = read(b"vllm:cache_config_info{" + text)

    assert reading.cache_tokens is None or 0 < reading.cache_tokens <= 10**12


def test_bytes_of_a_token_are_learned_whatever_other_routers_send() -> None:
    sizes = CacheSizes()
    (replica,) = healthy_replicas(1)[1]
    sizes.learn(replica, Reading(1000, 500, 10**6))
    before = sizes.bytes_of(replica)

    for _ in range(50):
        sizes.finished(replica, 2500)
    sizes.learn(replica, Reading(1000, 500 + 150, 10**6 + 150 * 1000))  # three routers

    assert before == 1000 * START_BYTES_PER_TOKEN
    assert sizes.bytes_of(replica) == pytest.approx(2500)


def test_prompts_that_wait_are_not_compared_with_tokens_of_those_that_are_done() -> None:
    traffic = Traffic("prefixaware", 1)
    (replica,) = traffic.replicas.healthy
    traffic.sizes.learn(replica, Reading(1000, 0, 0))

    for _ in range(30):
        traffic.serve(InferenceRequest(3000, (), streamed=True))
    for _ in range(30):
        traffic.send(InferenceRequest(300_000, (), streamed=True))
    traffic.sizes.learn(replica, Reading(1000, 30, 30 * 1000))

    assert traffic.sizes.bytes_per_token == pytest.approx(3.0)


def test_a_restarted_engine_teaches_nothing_wrong() -> None:
    sizes = CacheSizes()
    (replica,) = healthy_replicas(1)[1]
    sizes.learn(replica, Reading(1000, 500, 10**6))
    for _ in range(50):
        sizes.finished(replica, 2500)

    sizes.learn(replica, Reading(1000, 3, 100))

    assert sizes.bytes_per_token == START_BYTES_PER_TOKEN


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 10**9), st.floats(0, 10**9)), max_size=20))
def test_bytes_of_a_token_stay_believable(steps: list[tuple[int, float, float]]) -> None:
    sizes = CacheSizes()
    (replica,) = healthy_replicas(1)[1]

    for num_bytes, num_prompts, tokens in steps:
        sizes.learn(replica, Reading(1000, num_prompts, tokens))
        for _ in range(30):
            sizes.finished(replica, num_bytes)

    assert MIN_BYTES_PER_TOKEN <= sizes.bytes_per_token <= MAX_BYTES_PER_TOKEN


def test_l1_counts_where_it_is_larger_than_the_gpus() -> None:
    replica, silent = healthy_replicas(2)[1]
    small, large = CacheSizes(l1_tokens=500), CacheSizes(l1_tokens=5000)
    for sizes in (small, large):
        sizes.learn(replica, Reading(1000, 0, 0))

    assert (small.tokens_of(replica), large.tokens_of(replica)) == (1000, 5000)
    assert large.tokens_of(silent) is None
    assert large.bytes_of(silent) == math.inf


def test_what_a_replica_must_have_evicted_draws_nothing() -> None:
    traffic = Traffic("prefixaware", 1)
    (replica,) = traffic.replicas.healthy
    prompts = [
        InferenceRequest(prefix_bytes(20), tuple(range(100 * i, 100 * i + 20)), streamed=True)
        for i in range(10)
    ]
    traffic.sizes.learn(replica, Reading(int(3.5 * prefix_bytes(20) / START_BYTES_PER_TOKEN), 0, 0))

    for prompt in prompts:
        traffic.serve(prompt)
    matched = [traffic.strategy.choose(prompt, [replica], 1e6).matched_bytes for prompt in prompts]

    assert matched[:6] == [0] * 6
    assert matched[-3:] == [prefix_bytes(20)] * 3
