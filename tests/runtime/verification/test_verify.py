"""Verification against endpoints that work, that can't tell, and that lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes_endpoint import TOKENS, FakeEndpoint, fake_endpoint

from hypertier.verification.checks import Check
from hypertier.verification.endpoint import MAX_TOKENS, Endpoint
from hypertier.verification.verify import (
    MAX_TRIES,
    NUM_UNHEARD,
    STORE_SECONDS,
    Report,
    Verifier,
    Wish,
    prompt,
)

OTHER = (" the", " wrong", " tokens")
WISH = Wish(prompt_tokens=200, timeout_seconds=30)
ALL_PASS = ["passed"] * 5


def verify(state: FakeEndpoint, wish: Wish = WISH, *, key: str | None = None) -> Report:
    with fake_endpoint(state):
        return Verifier(Endpoint(state.url, key=key), wish, sleep=lambda seconds: None).run()


def results(report: Report) -> list[str]:
    return [check.result for check in report.checks]


def found(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        pytest.param(FakeEndpoint(), ["first", "again", "other", "other"], id="chosen by header"),
        pytest.param(FakeEndpoint(turns=True), ["first", "again", "again"], id="in turns"),
        pytest.param(
            FakeEndpoint(turns=True, by_header=False, replicas=tuple("abc")),
            ["first", "again", "again", "again"],
            id="in turns of three",
        ),
    ],
)
def test_an_endpoint_whose_cache_works_passes(state: FakeEndpoint, asked: Sequence[str]) -> None:
    report = verify(state)

    assert (results(report), report.status) == (ALL_PASS, 0)
    assert [each.why for each in report.asked][: len(asked)] == list(asked)[: len(report.asked)]
    assert len({body["prompt"] for _, body in state.received}) == 1


@pytest.mark.parametrize(
    ("state", "name", "result", "status", "words"),
    [
        pytest.param(
            FakeEndpoint(caches=False), "cached", "failed", 1, "0 of 201 tokens came", id="never cached"
        ),
        pytest.param(
            FakeEndpoint(caches=False, tells_replica=False),
            "cached",
            "failed",
            1,
            f"sent again {MAX_TRIES} times",
            id="never cached by whom nobody tells",
        ),
        pytest.param(
            FakeEndpoint(tells_counts=False),
            "cached",
            "could not be told",
            2,
            "no answer tells",
            id="no counts",
        ),
        pytest.param(
            FakeEndpoint(always_cached=True),
            "cached",
            "could not be told",
            2,
            "the count proves nothing",
            id="a new prompt is cached, too",
        ),
        pytest.param(
            FakeEndpoint(turns=True, replicas=tuple("abcdefghijklmnopqr"), by_header=False),
            "cached",
            "could not be told",
            2,
            "16 repetitions were answered by as many",
            id="too many replicas in turns",
        ),
        pytest.param(
            FakeEndpoint(answer_on_hit=OTHER), "same answer", "failed", 1, "token 2 is ' same' of", id="wrong"
        ),
        pytest.param(
            FakeEndpoint(answer_on_hit=TOKENS[:2]), "same answer", "failed", 1, "the end of one", id="shorter"
        ),
        pytest.param(FakeEndpoint(l2=False), "L2", "failed", 1, "had to compute", id="L2 is off"),
        pytest.param(
            FakeEndpoint(l2=False, turns=True), "L2", "failed", 1, "had to compute", id="L2 is off, in turns"
        ),
        pytest.param(
            FakeEndpoint(by_header=False),
            "L2",
            "could not be told",
            2,
            f"answered all {2 + NUM_UNHEARD} requests",
            id="always the same replica",
        ),
        pytest.param(
            FakeEndpoint(replicas=("a",)),
            "L2",
            "could not be told",
            2,
            f"a answered all {2 + MAX_TRIES} requests, in turns",
            id="one replica",
        ),
        pytest.param(
            FakeEndpoint(tells_replica=False), "L2", "could not be told", 2, "does not tell", id="no replica"
        ),
    ],
)
def test_what_is_wrong_or_not_told_is_said(
    state: FakeEndpoint, name: str, result: str, status: int, words: str
) -> None:
    report = verify(state)

    check = found(report, name)
    assert (check.result, report.status) == (result, status)
    assert words in check.why
    assert check.to_do


@pytest.mark.parametrize(
    ("state", "name", "result", "words"),
    [
        pytest.param(
            FakeEndpoint(models_refusal=(401, b'{"error": {"message": "no key"}}')),
            "endpoint",
            "failed",
            "it answers 401: no key",
            id="401",
        ),
        pytest.param(
            FakeEndpoint(refusal=(503, b"<html>no")), "endpoint", "failed", "it answers 503", id="503"
        ),
        pytest.param(
            FakeEndpoint(refusal=(302, b"")), "endpoint", "failed", "it answers 302", id="a redirection"
        ),
        pytest.param(
            FakeEndpoint(models_refusal=(200, b"<html>Welcome\x1b[31m to nginx")),
            "endpoint",
            "failed",
            "speaks no API of OpenAI's: <html>Welcome [31m to nginx",
            id="not ours",
        ),
        pytest.param(
            FakeEndpoint(models_refusal=(200, b'{"data": [{"id": 7}, null]}')),
            "endpoint",
            "failed",
            "lists no model",
            id="models without a name",
        ),
        pytest.param(
            FakeEndpoint(models_refusal=(200, b"[" * 100_000)), "endpoint", "failed", "no API", id="too deep"
        ),
        pytest.param(
            FakeEndpoint(models=("a", "b")), "endpoint", "could not be told", "several models: a, b", id="two"
        ),
        pytest.param(FakeEndpoint(cut_after=1), "answers", "failed", "broke off after 1 tokens", id="cut"),
        pytest.param(FakeEndpoint(cut_after=4), "answers", "failed", "broke off after 3", id="no end"),
        pytest.param(FakeEndpoint(answer=()), "answers", "failed", "has no token", id="empty"),
    ],
)
def test_an_endpoint_that_does_not_answer_is_said_to(
    state: FakeEndpoint, name: str, result: str, words: str
) -> None:
    report = verify(state)

    check = found(report, name)
    assert check.result == result
    assert words in check.why
    assert {each.result for each in report.checks[-3:]} == {"could not be told"}
    assert report.status == (1 if result == "failed" else 2)


def test_a_model_that_is_not_served_is_named_beside_those_that_are() -> None:
    report = verify(FakeEndpoint(models=("a", "b")), replace(WISH, model="c"))

    assert found(report, "endpoint").why == "it serves a, b, and not c"
    assert report.status == 1


def test_an_endpoint_that_never_answers_ends_in_time() -> None:
    report = verify(FakeEndpoint(is_silent=True), replace(WISH, timeout_seconds=0.3))

    assert found(report, "answers").result == "failed"
    assert "--timeout" in found(report, "answers").to_do
    assert report.seconds < 10


def test_nobody_there_is_said() -> None:
    report = Verifier(Endpoint("http://127.0.0.1:9"), WISH).run()

    assert "is the URL that of the router" in found(report, "endpoint").to_do
    assert report.status == 1


def test_without_l2_nobody_else_is_asked_and_nothing_is_waited_for() -> None:
    state, slept = FakeEndpoint(), list[float]()
    with fake_endpoint(state):
        report = Verifier(Endpoint(state.url), replace(WISH, asks_l2=False), sleep=slept.append).run()

    assert [check.name for check in report.checks] == ["endpoint", "answers", "cached", "same answer"]
    assert (report.status, len(report.asked), slept) == (0, 2, [])


def test_l2_has_time_to_store_before_anybody_else_may_be_asked() -> None:
    state, slept = FakeEndpoint(), list[float]()
    with fake_endpoint(state):
        Verifier(Endpoint(state.url), WISH, sleep=slept.append).run()

    assert slept == [STORE_SECONDS]


def test_an_engine_that_leaves_zero_out_is_believed_where_counts_are_expected() -> None:
    off = FakeEndpoint(caches=False, tells_zero=False)

    untold, expected = verify(off), verify(off, replace(WISH, expects_details=True))

    assert found(untold, "cached").result == "could not be told"
    assert found(expected, "cached").result == "failed"
    assert found(expected, "L2").result == "failed"
    assert verify(FakeEndpoint(tells_zero=False)).status == 0


def test_tokens_that_are_as_likely_but_for_rounding_prove_nothing() -> None:
    near = {" same": -1.0, " wrong": -1.1, " the": -1.2, " tokens": -1.3}
    far = {**near, " wrong": -9.0}

    tie = verify(FakeEndpoint(answer_on_hit=OTHER, likely=near))
    differ = verify(FakeEndpoint(answer_on_hit=OTHER, likely=far))

    assert found(tie, "same answer").result == "could not be told"
    assert found(differ, "same answer").result == "failed"


def test_every_run_has_a_prompt_of_its_own_from_its_first_character_on() -> None:
    one, other = FakeEndpoint(), FakeEndpoint()
    verify(one)
    verify(other)

    prompts = [state.received[0][1]["prompt"] for state in (one, other)]
    assert prompts[0][:16] != prompts[1][:16]
    assert prompts[0].split()[1:] != prompts[1].split()[1:]


def test_a_prompt_is_as_long_as_asked_for_and_never_longer_than_the_model_takes() -> None:
    assert len(prompt("salt", 500, None).split()) == 501
    assert len(prompt("salt", 500, 100)) + MAX_TOKENS < 100
    assert prompt("salt", 500, 1)


def test_requests_are_greedy_and_bear_the_key_and_an_id_to_explain_them_by() -> None:
    state = FakeEndpoint()
    report = verify(state, key="secret")

    headers, body = state.received[0]
    assert (body["temperature"], body["max_tokens"], body["stream"]) == (0, MAX_TOKENS, True)
    assert headers["Authorization"] == "Bearer secret"
    assert [sent["x-request-id"] for sent, _ in state.received] == [each.request_id for each in report.asked]
    assert len({sent["x-session-id"] for sent, _ in state.received[:2]}) == 1
