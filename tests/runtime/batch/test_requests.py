from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
from fakes_batch import lines_of
from hypothesis import given
from hypothesis import strategies as st

from hypertier.batch import requests
from hypertier.batch.requests import BatchRequest, in_order_of_prompts, read_requests
from hypertier.errors import BatchError

GOOD = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def line(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode() + b"\n"


def test_requests_are_read_with_their_bodies_whole() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "é 😀"}], "unknown": [1.5, None]}

    found = read_requests([line(body=body, url="/v1/chat/completions"), b"  \n", line(custom_id="b")], "in")

    assert [(each.custom_id, each.url) for each in found] == [
        ("a", "/v1/chat/completions"),
        ("b", "/v1/completions"),
    ]
    assert json.loads(found[0].body) == body


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line(), b"{"], "in:2: { is no JSON; expected one object a line"),
        ([b"[]\n"], "in:1: [] is no object"),
        ([line(custom_id=None)], "in:1: custom_id is None; expected a text of 1 to 512 bytes"),
        ([line(custom_id="")], "in:1: custom_id is nothing; expected a text"),
        ([line(custom_id="x" * 513)], "expected a text of 1 to 512 bytes"),
        ([line(), line()], "in:2: custom_id is a, as in line 1; expected another"),
        ([line(method="GET")], "in:1: method is GET; expected POST"),
        ([line(url="/v1/models")], "in:1: url is /v1/models; expected one of /v1/chat/completions,"),
        ([line(url=["x"])], "in:1: url is ['x']; expected one of"),
        ([line(body="x")], "in:1: body is x; expected an object"),
        ([line(body={"stream": True})], "in:1: body.stream is true; expected false"),
        ([b"\n"], "in:1: there is no request"),
        ([], "in:1: there is no request"),
        ([b"[" * 100_000], "in:1: "),
    ],
)
def test_the_first_line_that_can_not_be_sent_is_named(lines: list[bytes], message: str) -> None:
    with pytest.raises(BatchError, match=re.escape(message)):
        read_requests(lines, "in")


def test_a_file_beyond_openais_bounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_REQUESTS", 2)

    with pytest.raises(BatchError, match="in:3: more than 2 requests, or than 200 MB; split the file"):
        read_requests(lines_of("a", "b", "c").splitlines(keepends=True), "in")


@given(JSON)
def test_whatever_a_line_holds_it_is_a_request_or_named(value: object) -> None:
    for text in (json.dumps(value).encode(), line(body=value), line(custom_id=value), line(url=value)):
        with suppress(BatchError):
            assert read_requests([text], "in")


def test_what_begins_alike_comes_one_after_another() -> None:
    bodies = [
        {"temperature": 1, "model": "m", "messages": [{"role": "system", "content": "B"}]},
        {"model": "m", "messages": [{"role": "system", "content": "A"}, {"role": "user", "content": "2"}]},
        {"model": "l", "messages": [{"role": "system", "content": "B"}]},
        {"seed": 1, "model": "m", "messages": [{"role": "system", "content": "A"}]},
    ]
    sent = [
        BatchRequest(str(n), "/v1/chat/completions", json.dumps(body).encode())
        for n, body in enumerate(bodies)
    ]

    assert [each.custom_id for each in in_order_of_prompts(sent)] == ["2", "1", "3", "0"]
