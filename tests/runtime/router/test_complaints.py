"""What users of other routers complained of, by the test that holds it here.

The numbers are those of issues and pull requests (`PR`) of the projects named, read 2026-12-01.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
COMPLAINTS = {
    "production-stack 687: the trie never evicts, 2 to 16 GB": ["index_stays_within_its_memory"],
    "production-stack 707, PR 1072: counters leak on failed requests": [
        "nothing_is_left_of_many_requests_that_ended_every_way"
    ],
    "production-stack 601: a pod that ends gets requests": ["unlisted_replica_finishes_its_requests_first"],
    "production-stack 619: a pod that is not ready gets requests": ["new_replica_waits_for_a_good_check"],
    "production-stack 1091: a deletion is lost while the watch reconnects": [
        "what_happens_while_the_watch_is_cut_is_not_lost"
    ],
    "production-stack 228, PR 999: the watch loops on 410 and 504": [
        "version_that_the_server_does_not_take_is_listed_anew"
    ],
    "production-stack 749: a hung backend hangs everything": ["silent_engine_is_given_up_with_504"],
    "production-stack 448: liveness fails at 1,000 requests": [
        "thousand_requests_in_flight_keep_health_and_metrics_answering"
    ],
    "production-stack 382: no other replica is tried": ["dead_replica_is_retried_before_the_first_byte"],
    "production-stack 612: a benchmark's first requests pass, the rest get 400": [
        "every_wave_of_requests_is_served_like_the_first",
        "vllms_own_benchmark_completes_every_request",
    ],
    "production-stack PR 1045: kvaware takes chats for empty prompts": [
        "a_chat_goes_where_the_engine_says_that_it_is_cached",
        "a_chat_is_found_by_the_events_of_the_engine_that_computed_it",
    ],
    "production-stack PR 1060, 1062: kvaware misses without a word": [
        "an_engine_that_stores_other_tokens_than_it_tells_is_named_everywhere_and_still_served",
        "without_events_it_serves_as_prefixaware_and_counts_why",
        "an_engine_that_restarted_is_verified_again",
    ],
    "production-stack PR 884, 1035: kvaware piles onto one replica": [
        "a_crowd_that_begins_alike_is_not_glued_to_the_holder"
    ],
    "production-stack 635: plain asyncio and h11 are slow": [
        "router_runs_on_uvloop_and_knows_no_general_http_server"
    ],
    "sglang 13894: 503 for all at 2,048 requests though workers live": [
        "overload_that_engines_answer_with_503_closes_the_way_to_none"
    ],
    "sglang 25811, vllm-router PR 60: one client's 4xx open the breaker for all": [
        "client_with_bad_requests_closes_the_way_for_nobody"
    ],
    "sglang 31206: a half-open breaker never closes": [
        "probation_ends_with_a_success_and_another_failure_doubles_the_time"
    ],
    "sglang PR 39461, 11399: a client that left is computed for": [
        "client_that_goes_away_takes_its_request_with_it",
        "a_client_that_leaves_its_stream_frees_the_engine",
    ],
    "sglang PR 32322: the watch goes stale silently": ["watch_that_went_silent_is_made_up_for_by_the_resync"],
    "sglang PR 14305: every miss goes to the smallest tree": [
        "shared_system_prompt_does_not_glue_all_traffic_to_one_replica"
    ],
    "sglang PR 16734: the tree grows between two evictions": ["index_stays_within_its_memory"],
    "sglang 21199: first tokens come later than with round robin": [
        "who_looks_for_prefixes_never_makes_first_tokens_later_than_turns_do"
    ],
    "smg PR 2468: a worker that restarted on its address never rejoins": [
        "replica_that_comes_back_is_picked_again"
    ],
    "smg PR 1621: long prompts fill a replica unseen": [
        "a_replica_with_one_long_prompt_is_busier_than_one_with_many_short_ones",
        "busy_replica_loses_even_what_it_has_cached",
    ],
    "vllm-router 110, sglang PR 8500: vLLM's own fields are stripped": [
        "request_reaches_the_engine_byte_for_byte"
    ],
    "vllm-router 158: healthy workers answer 502 to another Host": [
        "engine_sees_the_host_that_the_client_asked_for"
    ],
    "llm-d-router 1109: prompts of 220 KB take more than a second": [
        "request_costs_a_bounded_number_of_calls_and_a_prompt_of_220_kb_few_more"
    ],
    "llm-d-router 2641: rendered tokens differ from the engine's, hits vanish": [
        "an_engine_that_is_not_as_it_says_is_named_with_why",
        "what_is_believed_cached_is_what_the_engine_finds",
    ],
    "GIE 854, 2115, ai-gateway 827, 1209: large bodies fail": ["large_body_arrives_whole_up_to_the_bound"],
    "aibrix 1176, 1774, 1810: time-outs cut long answers": [
        "long_answer_that_is_not_streamed_outlives_the_timeouts_of_clients"
    ],
    "llm-d-router 1158: tiny blocks take all memory": ["memory_is_bounded_and_what_does_not_fit_is_counted"],
    "llm-d-router 1842: scraping makes a busy engine unresponsive": [
        "no_replica_is_asked_more_often_than_each_few_minutes"
    ],
    "dynamo PR 7072: recovery from a gap in the events loops": [
        "a_gap_that_is_no_longer_kept_makes_it_forget_and_begin_anew",
        "a_gap_that_an_empty_replay_leaves_open_is_not_passed_over",
    ],
    "dynamo PR 11194: publishers are missing and nobody says so": [
        "an_engine_that_sends_nothing_again_is_not_in_step",
        "an_engine_that_says_nothing_of_what_it_computes_is_not_believed",
    ],
}


@cache
def names() -> set[str]:
    """Every test's."""
    return {
        node.name
        for folder in (TESTS / "runtime" / "router", TESTS / "e2e")
        for file in folder.rglob("test_*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_a_complaint_has_tests_that_hold_it(complaint: str) -> None:
    assert {f"test_{name}" for name in COMPLAINTS[complaint]} - names() == set()
