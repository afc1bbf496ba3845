"""What is found in a request without parsing it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.api import openai
from hypertier.router.api.openai import (
    BLOCK_ENDS,
    MAX_HASHED_BYTES,
    Refusal,
    chain_hashes,
    find_string,
    likely_bytes,
    prefix_bytes,
)
from hypertier.router.http.heads import Request


def chat(text: str, **more: object) -> Request:
    body = json.dumps({"model": "m", **more, "messages": [{"role": "user", "content": text}]}).encode()
    return Request(method=b"POST", target=b"/v1/chat/completions", body=body, has_body=True)


def hashes(request: Request) -> tuple[int, ...]:
    return openai.read(request, session_key=None, hash_prompt=True).block_hashes


@given(common=st.integers(0, 6000), first=st.binary(max_size=300), second=st.binary(max_size=300))
def test_prompts_share_exactly_the_blocks_they_share(common: int, first: bytes, second: bytes) -> None:
    ours, theirs = bytes(common) + first, bytes(common) + second
    num_equal = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    num_equal = min(len(ours), len(theirs)) if num_equal is None else num_equal

    one, other = chain_hashes(ours, b"m"), chain_hashes(theirs, b"m")

    num_shared = sum(end <= num_equal for end in BLOCK_ENDS)
    assert one[:num_shared] == other[:num_shared]
    assert not set(one[num_shared:]) & set(other[num_shared:])


def test_prompts_of_two_models_share_nothing() -> None:
    text = bytes(10_000)

    assert not set(chain_hashes(text, b"a")) & set(chain_hashes(text, b"b"))


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "behind"])
def test_prompts_of_two_salts_share_nothing_where_their_tokens_count(is_first: bool) -> None:
    def read(salt: str, *, keep: bool) -> openai.InferenceRequest:
        fields = {"messages": "x" * 500}
        fields = {"cache_salt": salt} | fields if is_first else fields | {"cache_salt": salt}
        request = Request(target=b"/v1/chat/completions", body=json.dumps(fields).encode(), has_body=True)
        return openai.read(request, session_key=None, hash_prompt=True, keep_prompt=keep)

    one, other = read("a", keep=True), read("b", keep=True)

    assert not set(one.block_hashes) & set(other.block_hashes)
    assert one.prompt is not None
    assert one.prompt.seed == b"a"
    assert read("a", keep=False).block_hashes[0] == read("b", keep=False).block_hashes[0]


def test_hashing_ends_where_nothing_is_shared_any_more() -> None:
    assert len(chain_hashes(bytes(4 * MAX_HASHED_BYTES), b"")) == len(BLOCK_ENDS)
    assert prefix_bytes(len(BLOCK_ENDS)) == MAX_HASHED_BYTES
    assert prefix_bytes(0) == 0


def test_fields_before_the_prompt_do_not_change_its_hashes() -> None:
    first, second = chat("x" * 500, temperature=0.1), chat("x" * 500, temperature=0.9, seed=7)

    assert hashes(first) == hashes(second) != ()


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (b"/v1/completions", b'{"model": "m", "prompt": "%s"}' % (b"x" * 100)),
        (b"/v1/completions?beta=1", b'{"prompt" :\n"%s"}' % (b"x" * 100)),
        (b"/v1/responses", b'{"input": "%s"}' % (b"x" * 100)),
        (b"/v1/messages", b'{"messages": [{"content": "%s"}]}' % (b"x" * 100)),
    ],
    ids=["completions", "query-and-space", "responses", "messages"],
)
def test_prompt_is_found_where_its_path_has_it(target: bytes, body: bytes) -> None:
    request = Request(method=b"POST", target=target, body=body, has_body=True)

    assert len(hashes(request)) >= 1


def test_prompt_is_not_looked_for_without_end() -> None:
    """A name of a key in each eleventh byte, and no key: 6 s for what a client may send, 64 MB."""
    path = b"/v1/chat/completions"

    assert openai.prompt_start(b'{"tools": [' + b'"messages",' * 900 + b'1], "messages": []}', path) > 0
    assert openai.prompt_start(b"{" + b'"messages" ' * 6_000_000 + b"}", path) == 0
    assert openai.prompt_start(b'{"messages"' + b" " * 64 + b":1}", path) == len(b'{"messages"') + 65
    assert openai.prompt_start(b'{"messages"' + b" " * 65 + b":1}", path) == 0


@pytest.mark.parametrize("body", [b"", b"{}", b"\x00\xff", b'"messages"', b"[]"])
def test_body_without_a_prompt_is_no_error(body: bytes) -> None:
    request = Request(method=b"POST", target=b"/v1/chat/completions", body=body, has_body=True)

    assert hashes(request) == ()


@given(st.binary(max_size=200), st.sampled_from([b"/v1/chat/completions", b"/v1/completions", b"/x"]))
def test_any_body_is_read_without_an_error(body: bytes, target: bytes) -> None:
    request = Request(method=b"POST", target=target, body=body, has_body=True)

    found = openai.read(request, session_key=b"user", hash_prompt=True)

    assert 0 <= found.num_bytes <= len(body)


@given(st.from_regex(r"[A-Za-z0-9 :/{}\[\],._-]{0,40}", fullmatch=True), st.text(max_size=80))
def test_string_field_is_found_whatever_the_prompt_says(value: str, text: str) -> None:
    body = json.dumps({"user": value, "messages": [{"role": "user", "content": text}]}).encode()

    assert find_string(body, b"user") in (value.encode(), None)
    assert find_string(json.dumps({"model": value, "messages": [text]}).encode(), b"model") == value.encode()


@pytest.mark.parametrize("num_bytes", [10, 100_000], ids=["short", "long"])
@pytest.mark.parametrize("is_first", [True, False], ids=["before", "behind"])
def test_field_is_found_before_and_behind_a_prompt_of_any_length(is_first: bool, num_bytes: int) -> None:
    prompt = {"messages": [{"role": "user", "content": 'say "user": "me" ' + "x" * num_bytes}]}
    fields = {"user": "u-1"} | prompt if is_first else prompt | {"user": "u-1"}
    request = Request(target=b"/v1/chat/completions", body=json.dumps(fields).encode(), has_body=True)

    found = openai.read(request, session_key=b"user", hash_prompt=False)

    assert found.session == b"u-1"


@pytest.mark.parametrize("num_bytes", [10, 100_000], ids=["short", "long"])
@pytest.mark.parametrize(("stream", "expected"), [(True, True), (False, False), (None, False)])
def test_streamed_request_is_known_by_its_field(stream: bool | None, expected: bool, num_bytes: int) -> None:
    prompt = {"messages": [{"role": "user", "content": '"stream": true' + "x" * num_bytes}]}
    field = {} if stream is None else {"stream": stream}

    found = [
        openai.read(
            Request(target=b"/v1/chat/completions", body=json.dumps(fields).encode(), has_body=True),
            session_key=None,
            hash_prompt=True,
        ).streamed
        for fields in (prompt | field, field | prompt)
    ]

    assert found == [expected, expected]


NESTED = {"tools": [{"function": {"model": "nested", "description": "d" * 5000}}]}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        pytest.param(b"/v1/chat/completions", {"messages": "x" * 500, "model": "m", **NESTED}, id="midst"),
        pytest.param(b"/v1/embeddings", {"model": "m", "input": ["x" * 9000]}, id="before-another-prompt"),
    ],
)
def test_a_model_is_found_wherever_the_body_has_it(path: bytes, fields: dict[str, object]) -> None:
    body = json.dumps(fields).encode()
    request = Request(target=path, body=body, has_body=True)
    other = Request(target=path, body=body.replace(b'"m"', b'"adapter"'), has_body=True)

    found, others = (openai.read(each, session_key=None, hash_prompt=True) for each in (request, other))

    assert (found.model, others.model) == (b"m", b"adapter")
    assert not set(found.block_hashes) & set(others.block_hashes)


def test_an_alias_is_replaced_in_the_midst_of_a_body_and_not_within_its_prompt() -> None:
    fields = {
        "messages": [{"model": "a"}],
        "model": "a",
        **NESTED,
        "metadata": {"model": "a", "x": "y" * 5000},
    }
    body = json.dumps(fields).encode()

    renamed = openai.rename_model(body, b"/v1/chat/completions", {b"a": b"other"})

    assert json.loads(renamed) == {**fields, "model": "other"}
    assert len(renamed) == len(body) + len("other") - len("a")


def test_session_comes_from_the_header_before_the_body() -> None:
    request = chat("hi", user="from-body")
    in_body = openai.read(request, session_key=b"user", hash_prompt=False)
    request.add_field(b"user", b"from-header")

    in_header = openai.read(request, session_key=b"user", hash_prompt=False)

    assert (in_body.session, in_header.session) == (b"from-body", b"from-header")


def test_prompts_part_somewhere_within_the_block_that_they_do_not_share() -> None:
    whole = likely_bytes(8, 10_000)  # 512 bytes, and blocks of 512 behind them
    short = likely_bytes(8, 600)

    assert (whole, short) == (512 + 256, 512 + 44)
    assert likely_bytes(8, 512) == prefix_bytes(8) == 512
    assert likely_bytes(0, 10_000) == 0
    assert likely_bytes(len(BLOCK_ENDS), 10**7) == MAX_HASHED_BYTES


def test_refusal_is_answered_in_openais_shape() -> None:
    refusal = Refusal(503, "no healthy replica", "no_replica", retry_after_seconds=2)

    head, _, body = openai.error_response(refusal, request_id=b"r", keep_alive=False).partition(b"\r\n\r\n")

    assert head.split(b"\r\n") == [
        b"HTTP/1.1 503 Service Unavailable",
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"x-request-id: r",
        b"retry-after: 2",
        b"connection: close",
    ]
    assert json.loads(body)["error"] == {
        "message": "no healthy replica",
        "type": "server_error",
        "param": None,
        "code": "no_replica",
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "not_found_error"),
        (408, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_refusal_on_the_messages_api_is_answered_in_anthropics_shape(status: int, kind: str) -> None:
    refusal = Refusal(status, "why", "code", kind="requests")

    for path in (b"/v1/messages", b"/v1/messages/count_tokens"):
        told = json.loads(openai.error_body(refusal, path))
        assert told["type"] == "error"
        assert told["error"] == {"type": kind, "message": "why", "param": None, "code": "code"}
    assert json.loads(openai.error_body(refusal, b"/v1/messages_of_another")).keys() == {"error"}
