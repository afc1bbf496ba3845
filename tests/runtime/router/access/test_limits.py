"""A tenant gets what its limits say, and is told what is left."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.access.limits import Limits, estimate_tokens, used_tokens
from hypertier.spec.access import TenantDefault


def entry(
    *, requests: int | None = None, tokens: int | None = None, concurrent: int | None = None
) -> TenantDefault:
    return TenantDefault(
        requests_per_minute=requests, tokens_per_minute=tokens, concurrent_requests=concurrent
    )


def limits(**given: int) -> Limits:
    return Limits(entry(**given), 1, 0.0)


def test_requests_of_a_minute_at_once_and_then_one_by_one() -> None:
    found = limits(requests=60)

    assert [found.admit(1, 0.0) for _ in range(60)] == [None] * 60
    refused = found.admit(1, 0.0)
    assert refused is not None
    assert (refused.status, refused.type, refused.code) == (429, "requests", "rate_limit_exceeded")
    assert refused.retry_after_seconds == 1
    assert found.admit(1, 1.0) is None
    assert found.admit(1, 1.5) is not None


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 400)), max_size=60))
def test_no_minute_has_more_than_two_of_its_limits(steps: list[tuple[float, int]]) -> None:
    """A full bucket, and what flows into it within the minute."""
    found = limits(tokens=1000)
    now, admitted = 0.0, []
    for pause, num_tokens in steps:
        now += pause
        if found.admit(num_tokens, now) is None:
            admitted.append((now, num_tokens))

    for begin, _ in admitted:
        assert sum(number for at, number in admitted if begin <= at < begin + 60) <= 2000 + 1e-6


def test_a_request_above_the_limit_gets_through_alone() -> None:
    found = limits(tokens=100)

    assert found.admit(5000, 0.0) is None
    assert found.admit(1, 60.0) is not None
    refused = found.admit(1, 60.0)
    assert refused is not None
    assert refused.type == "tokens"


def test_requests_at_once_end() -> None:
    found = limits(concurrent=2)
    assert [found.admit(1, 0.0) for _ in range(2)] == [None, None]
    refused = found.admit(1, 0.0)

    found.in_flight -= 1

    assert refused is not None
    assert refused.type == "concurrent_requests"
    assert found.admit(1, 0.0) is None


def test_what_is_refused_counts_nowhere() -> None:
    found = limits(requests=10, tokens=10)
    found.admit(10, 0.0)

    before = found.headers(0.0)
    found.admit(10, 0.0)

    assert found.headers(0.0) == before
    assert found.in_flight == 1


def test_headers_are_openais() -> None:
    found = limits(requests=600, tokens=60_000)
    for _ in range(3):
        found.admit(1000, 0.0)

    lines = dict(line.split(b": ") for line in found.headers(0.0).split(b"\r\n") if line)

    assert lines == {
        b"x-ratelimit-limit-requests": b"600",
        b"x-ratelimit-remaining-requests": b"597",
        b"x-ratelimit-reset-requests": b"300ms",
        b"x-ratelimit-limit-tokens": b"60000",
        b"x-ratelimit-remaining-tokens": b"57000",
        b"x-ratelimit-reset-tokens": b"3s",
    }
    assert limits().headers(0.0) == b""


def test_resets_beyond_a_minute_are_told() -> None:
    found = limits(tokens=100)
    found.admit(150, 0.0)

    assert b"x-ratelimit-reset-tokens: 1m30s\r\n" in found.headers(0.0)


def test_routers_share_a_limit() -> None:
    alone, beside = limits(requests=60, concurrent=3), limits(requests=60, concurrent=3)
    beside.change(entry(requests=60, concurrent=3), 3, 0.0)

    def admitted(found: Limits) -> int:
        count = 0
        while found.admit(1, 0.0) is None:
            count += 1
            found.in_flight = 0
        return count

    assert (admitted(alone), admitted(beside)) == (60, 20)
    assert (alone.max_concurrent, beside.max_concurrent) == (3, 1)


def test_what_was_used_stays_used_when_routers_come() -> None:
    found = limits(requests=60)
    for _ in range(30):
        found.admit(1, 0.0)

    found.change(entry(requests=60), 2, 0.0)

    assert found.requests is not None
    assert found.requests.level(0.0) == 15


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param({"max_tokens": 100}, 100, id="chat"),
        pytest.param({"max_completion_tokens": 50, "max_tokens": 100}, 100, id="both"),
        pytest.param({"max_output_tokens": 7}, 7, id="responses"),
        pytest.param({"max_tokens": "9"}, 0, id="no-number"),
        pytest.param({"max_tokens": 1.5}, 0, id="fraction"),
        pytest.param({"max_tokens": 10**12}, 0, id="beyond-reason"),
    ],
)
def test_estimate_is_bytes_by_four_and_what_is_asked_for(fields: dict[str, object], expected: int) -> None:
    for order in ({"messages": "x" * 40_000, **fields}, {**fields, "messages": "x" * 40_000}):
        body = json.dumps(order).encode()

        for path in (b"/v1/chat/completions", b"/v1/embeddings"):  # with a prompt that is found, and without
            for _ in range(2):  # and known
                assert estimate_tokens(body, path) == -(-len(body) // 4) + expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param({"prompt_tokens": 5, "total_tokens": 12, "completion_tokens": 7}, 12, id="openai"),
        pytest.param({"input_tokens": 5, "output_tokens": 7}, 12, id="anthropic"),
        pytest.param({"output_tokens": 7}, None, id="half"),
        pytest.param({}, None, id="none"),
    ],
)
def test_usage_is_read_at_the_end_of_an_answer(usage: dict[str, int], expected: int | None) -> None:
    answer = json.dumps({"choices": [], "usage": usage, "prompt_logprobs": None}).encode()

    assert used_tokens(answer) == expected


def test_more_used_than_taken_is_paid_back() -> None:
    found = limits(tokens=100)
    found.admit(10, 0.0)
    assert found.tokens is not None

    found.tokens.take(150)

    assert found.admit(1, 30.0) is not None
    assert found.admit(1, 40.0) is None
