"""What a line of a captured file says of a request, and that no message repeats a word of it."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.router.capture.records import Record, line_of
from hypertier.router.capture.settings import CaptureSettings
from hypertier.simulation.captured.lines import Exchange, LeftOut, read_line
from hypertier.simulation.captured.prompt import read_prompt
from hypertier.simulation.captured.usage import Usage, read_usage

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "secret words"}],
}
COMPLETION = {"model": "m", "prompt": "secret words"}
RESPONSES = {"model": "m", "instructions": "be kind", "input": "secret words"}
PARTS = [{"type": "text", "text": "secret words"}]
TIME = 1_764_720_000.0


def captured(
    body: Any, answer: bytes = b'{"choices":[]}', kind: bytes = b"application/json", **how: Any
) -> bytes:
    """A line, written as the router does."""
    record = Record("id", "", TIME, "application/json", json.dumps(body).encode(), **how.pop("record", {}))
    record.answer.append(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n\r\n%b" % (kind, answer))
    line = line_of(record, CaptureSettings(spool="there", **how))
    assert line is not None
    return line


def exchange(line: bytes) -> Exchange:
    found = read_line(line)
    assert isinstance(found, Exchange)
    return found


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        pytest.param({"usage": {"prompt_tokens": 7, "completion_tokens": 3}}, (7, 3), id="chat"),
        pytest.param({"usage": {"input_tokens": 7, "output_tokens": 3}}, (7, 3), id="responses"),
        pytest.param(
            {"usage": {"input_tokens": 2, "cache_read_input_tokens": 5, "output_tokens": 3}},
            (7, 3),
            id="messages, of which a part was cached",
        ),
        pytest.param({"usage": {"prompt_tokens": 7}}, (7, None), id="embeddings"),
        pytest.param(
            {"usage": {"prompt_tokens": 10**15, "completion_tokens": True}}, (None, None), id="nonsense"
        ),
        pytest.param({"usage": None}, (None, None), id="nothing"),
    ],
)
def test_usage_is_read_in_every_api_s_words(answer: Any, usage: tuple[int | None, int | None]) -> None:
    found = exchange(captured(CHAT, json.dumps(answer).encode())).usage

    assert (found.input_tokens, found.output_tokens) == usage


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        pytest.param(
            [{"choices": [{"delta": {"content": "hé"}}]}, {"choices": [], "usage": {"prompt_tokens": 7}}],
            Usage(7, None, 3),
            id="chat",
        ),
        pytest.param(
            [{"choices": [{"text": "ab"}]}, {"choices": [{"text": "c"}]}], Usage(text_bytes=3), id="no usage"
        ),
        pytest.param(
            [{"response": {"usage": {"input_tokens": 7, "output_tokens": 3}}}], Usage(7, 3), id="responses"
        ),
        pytest.param(
            [
                {"message": {"usage": {"input_tokens": 7, "output_tokens": 0}}},
                {"usage": {"output_tokens": 3}},
            ],
            Usage(7, 3),
            id="messages",
        ),
    ],
)
def test_usage_is_read_in_streams(events: list[Any], usage: Usage) -> None:
    stream = (
        "".join(f"event: x\r\ndata: {json.dumps(event)}\r\n\r\n" for event in events) + "data: [DONE]\n\n"
    )

    assert exchange(captured(CHAT, stream.encode(), b"text/event-stream")).usage == usage


def test_a_captured_line_has_a_time_a_model_and_its_prompt() -> None:
    found = exchange(captured(CHAT))

    assert (found.at, found.model) == (TIME, "m")
    assert b"secret words" in found.prompt.text


@pytest.mark.parametrize(
    ("line", "why"),
    [
        pytest.param(captured(CHAT, redacts=True), LeftOut.REDACTED, id="redacted"),
        pytest.param(captured(COMPLETION, redacts=True), LeftOut.REDACTED, id="redacted completion"),
        pytest.param(
            captured({**COMPLETION, "prompt": [1, 2]}, redacts=True), LeftOut.REDACTED, id="of tokens"
        ),
        pytest.param(captured(RESPONSES, redacts=True), LeftOut.REDACTED, id="redacted response"),
        pytest.param(
            captured({"messages": [{"role": "user", "content": PARTS}]}, redacts=True),
            LeftOut.REDACTED,
            id="parts",
        ),
        pytest.param(captured(CHAT, modes=("Output",)), LeftOut.NO_REQUEST, id="answers alone"),
        pytest.param(captured({"prompt": "x" * 2000}, max_payload_kb=1), LeftOut.CUT, id="cut off"),
    ],
)
def test_what_shows_no_beginning_is_left_out_and_says_why(line: bytes, why: LeftOut) -> None:
    assert read_line(line) is why


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}, id="batch"
        ),
        pytest.param(CHAT, id="a body"),
        pytest.param({"timestamp": TIME, **CHAT}, id="with a time"),
        pytest.param({"timestamp": "2025-12-03T00:00:00+00:00", "body": CHAT}, id="with a time in ISO 8601"),
        pytest.param(
            {"body": CHAT, "response": {"body": {"usage": {"prompt_tokens": 7}}}}, id="with an answer"
        ),
    ],
)
def test_requests_that_nobody_captured_are_read_too(row: Any) -> None:
    found = exchange(json.dumps(row).encode())

    assert found.prompt == read_prompt(CHAT)
    assert found.at == (TIME if "timestamp" in row else None)
    assert found.usage.input_tokens == (7 if "response" in row else None)


SECRET = "secret words"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f'{{"prompt": "{SECRET}'.encode(), id="broken off"),
        pytest.param(json.dumps([SECRET]).encode(), id="no object"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(json.dumps({SECRET: SECRET}).encode(), id="no request"),
        pytest.param(json.dumps({"body": SECRET}).encode(), id="no body"),
        pytest.param(json.dumps({"messages": []}).encode(), id="no message"),
        pytest.param(json.dumps({"timestamp": SECRET, "prompt": SECRET}).encode(), id="no time"),
        pytest.param(json.dumps({"timestamp": 1e300, "prompt": SECRET}).encode(), id="no year"),
        pytest.param(json.dumps({"captureData": {}, "eventMetadata": SECRET}).encode(), id="no metadata"),
        pytest.param(json.dumps({"hash_ids": [1], "input_length": 5}).encode(), id="a trace"),
        pytest.param(captured(CHAT).replace(b"secret", b"sec\\ret"), id="a request that is no JSON"),
        pytest.param(captured(CHAT).replace(b'"JSON"', b'"BASE64"'), id="no base64"),
        pytest.param(b"\xff\xfe" + SECRET.encode(), id="no text"),
    ],
)
def test_what_is_no_request_is_refused_without_a_word_of_it(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected|no ") as error:
        read_line(line)

    assert "secret" not in str(error.value)
    assert "words" not in str(error.value)


def same(one: Any, other: Any) -> bool:
    return read_prompt(one) == read_prompt(other)


def test_what_engines_render_alike_is_the_same_prompt() -> None:
    marked = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]

    assert same(
        {"messages": [{"role": "user", "content": "hi"}]}, {"messages": [{"content": marked, "role": "user"}]}
    )
    assert same({"prompt": "p", "max_tokens": 1}, {"temperature": 1, "prompt": "p"})
    tool = {"name": "a"}
    assert same(
        {"prompt": "p", "tools": [tool]}, {"prompt": "p", "tools": [{**tool, "cache_control": {"type": "x"}}]}
    )
    assert not same({"prompt": "p", "tools": [{"name": "a"}]}, {"prompt": "p", "tools": [{"name": "b"}]})


@pytest.mark.parametrize(
    ("body", "beginning"),
    [
        pytest.param({**CHAT, "tools": [{"name": "find"}]}, b'[{"name":"find"}]', id="tools"),
        pytest.param({**CHAT, "system": "of old"}, b"of old", id="Anthropic's system"),
        pytest.param(RESPONSES, b"be kind", id="instructions"),
    ],
)
def test_what_templates_put_first_is_first(body: Any, beginning: bytes) -> None:
    found = read_prompt(body)

    assert found is not None
    assert found.text.startswith(beginning)


def test_a_turn_begins_with_the_turn_before_and_has_its_opening() -> None:
    said = [*CHAT["messages"], {"role": "assistant", "content": "yes"}, {"role": "user", "content": "more"}]

    one, two = read_prompt(CHAT), read_prompt({**CHAT, "messages": said})

    assert one is not None
    assert two is not None
    assert two.text.startswith(one.text)
    assert one.opening == two.opening == one.text


def test_an_image_is_its_digest_and_tokens_are_counted() -> None:
    image = base64.b64encode(bytes(9000)).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}

    seen = read_prompt({"messages": [{"role": "user", "content": [part]}]})
    tokens = read_prompt({"prompt": [5, 6, 7]})

    assert seen is not None
    assert tokens is not None
    assert len(seen.text) < 200
    assert tokens.num_tokens == 3


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "usage",
                        "choices",
                        "delta",
                        "message",
                        "tool_calls",
                        "function",
                        "content",
                        "messages",
                        "role",
                        "captureData",
                        "eventMetadata",
                        "endpointInput",
                        "data",
                        "prompt",
                        "body",
                        "response",
                    ]
                ),
                x,
            )
        ),
    )
)
def test_whatever_stands_in_a_line_is_a_request_or_refused(value: Any) -> None:
    text = json.dumps(value).encode()
    read_usage(text)
    with suppress(ValueError):
        read_line(text)
