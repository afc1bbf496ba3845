from __future__ import annotations

from hypertier.lab.metrics import parse_counts, parse_healthy

METRICS = """\
# HELP vllm:prompt_tokens_cached_by_source_total Cached prompt tokens.
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="a, \\"b\\"",source="device"} 128.0
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m",source="disk"} 0.0
vllm:prompt_tokens_cached_by_source_created{engine="0",model_name="m",source="disk"} 1.7e+09
vllm:time_to_first_token_seconds_sum{engine="0"} 0.5
vllm:time_to_first_token_seconds_count{engine="0"} 1.0
hypertier_l2_write_bytes_total{engine="0"} 1.5e+06
"""


def test_counts_are_read_by_source() -> None:
    counts = parse_counts(METRICS)

    assert counts.cached_tokens == {"device": 128, "disk": 0}
    assert (counts.ttft_seconds, counts.num_answers, counts.l2_write_bytes) == (0.5, 1, 1_500_000)


def test_a_request_is_the_difference_of_two_scrapes() -> None:
    before = parse_counts(METRICS)
    after = parse_counts(METRICS.replace('"disk"} 0.0', '"disk"} 256.0').replace("0.5", "0.75"))

    request = after.since(before)

    assert (request.hit_source, request.num_cached_tokens, request.ttft_seconds) == ("L2", 256, 0.25)


def test_no_cached_token_is_no_hit() -> None:
    counts = parse_counts(METRICS)

    assert counts.since(counts).hit_source == "none"


def test_several_sources_are_all_named() -> None:
    text = METRICS.replace('"disk"} 0.0', '"disk"} 256.0')

    assert parse_counts(text).hit_source == "GPU+L2"


def test_the_router_is_asked_which_replicas_it_would_pick() -> None:
    text = (
        'hypertier_router_replica_healthy{replica="http://127.0.0.1:1"} 1.0\n'
        'hypertier_router_replica_healthy{replica="http://127.0.0.1:2"} 0.0\n'
        'hypertier_router_in_flight{replica="http://127.0.0.1:3"} 1.0\n'
    )

    assert parse_healthy(text) == {"http://127.0.0.1:1"}
