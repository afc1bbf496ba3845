"""What an endpoint says is read as it is, or refused; never believed for its shape alone."""

from __future__ import annotations

import json

import pytest

from hypertier.errors import AnswerError
from hypertier.verification.answer import MAX_SHOWN, AnswerReader, count, told

TOKEN = {"choices": [{"text": "a"}]}


def read(*events: object) -> AnswerReader:
    reader = AnswerReader(lambda: 2.0)
    for event in events:
        reader.feed(b"data: %s\r\n\r\n" % json.dumps(event).encode())
    reader.feed(b"data: [DONE]\n\n")
    return reader


def test_bytes_may_come_in_any_pieces() -> None:
    reader = AnswerReader(lambda: 3.0)
    for byte in b': a comment\n\ndata: {"choices": [{"text": "a\xc3\xa9"}]}\n\ndata: [DONE]\n\n':
        reader.feed(bytes([byte]))

    answer = reader.answer(None, 1.0)

    assert (answer.text, answer.ttft_seconds) == ("aé", 2.0)


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param(None, id="null"),
        pytest.param([1], id="a list"),
        pytest.param({"prompt_tokens": -1, "prompt_tokens_details": {"cached_tokens": True}}, id="no counts"),
        pytest.param({"prompt_tokens": 1e9, "prompt_tokens_details": "none"}, id="no details"),
        pytest.param({"prompt_tokens": 10**30, "prompt_tokens_details": {"cached_tokens": "7"}}, id="huge"),
    ],
)
def test_a_count_that_is_none_counts_as_not_told(usage: object) -> None:
    answer = read(TOKEN, {"choices": [], "usage": usage}).answer(None, 0.0)

    assert (answer.prompt_tokens, answer.cached_tokens) == (None, None)


@pytest.mark.parametrize(
    "choices", [None, {}, [None], [{"text": 7}], [{"text": "", "logprobs": {"tokens": [7]}}]], ids=repr
)
def test_choices_without_text_are_no_tokens(choices: object) -> None:
    with pytest.raises(AnswerError, match="no token"):
        read({"choices": choices}).answer(None, 0.0)


@pytest.mark.parametrize("event", [[], 7, {"error": {"message": "gone"}}, {"error": "gone"}], ids=repr)
def test_an_event_that_is_none_or_an_error_ends_the_answer(event: object) -> None:
    with pytest.raises(AnswerError, match=r"gone|no API"):
        read(TOKEN, event)


def test_likely_tokens_of_another_number_are_left_out() -> None:
    probabilities = {"tokens": ["a", "b"], "top_logprobs": [{"a": -1, "b": "x"}]}
    answer = read({"choices": [{"text": "ab", "logprobs": probabilities}]}).answer(None, 0.0)

    assert (answer.tokens, answer.likely) == (("a", "b"), ({}, {}))


def test_what_is_shown_is_short_and_harms_no_terminal() -> None:
    assert told(b"\x1b[2J\r\nhello\xff") == "[2J hello\ufffd"
    assert len(told("x" * 10**6)) == MAX_SHOWN + 1
    assert told("") == "nothing"


def test_an_error_that_is_too_deep_to_show_is_still_one() -> None:
    for depth in (50, 300, 900, 980, 5000):
        deep = b'data: {"error": ' + b"[" * depth + b"]" * depth + b"}\n"
        with pytest.raises(AnswerError):
            AnswerReader(lambda: 0.0).feed(deep)


def test_a_bool_is_no_count() -> None:
    assert (count(True), count(0)) == (None, 0)
