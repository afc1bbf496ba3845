"""From a prompt's bytes to an engine's blocks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fakes_engine import FakeEngine, Received, json_answer
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import TokenizeError
from hypertier.router.api.openai import BLOCK_ENDS, Prompt
from hypertier.router.discovery.addresses import Address
from hypertier.router.kv.kv_events import chain
from hypertier.router.kv.tokens import (
    LINK_BYTES,
    Links,
    Tokens,
    inserted,
    is_adapter,
    names_of,
    question,
    read_tokens,
    tokenize,
)

CHAT = "/v1/chat/completions"


def prompt_of(path: str, body: dict[str, Any]) -> Prompt:
    text = json.dumps(body).encode()
    key = b'"prompt":' if path == "/v1/completions" else b'"messages":'
    return Prompt(path.encode(), text, text.index(key) + len(key))


def chat(*texts: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text} for text in texts], **fields}


def test_a_chat_is_asked_as_the_engine_renders_it() -> None:
    body = chat("Grüße", chat_template_kwargs={"enable_thinking": False}, max_tokens=5)

    asked = question(prompt_of(CHAT, body))

    assert json.loads(asked.body) == {
        "model": "m",
        "messages": body["messages"],
        "chat_template_kwargs": {"enable_thinking": False},
        "return_token_strs": True,
    }
    assert asked.num_bytes == len(json.dumps(body["messages"]))


def test_what_the_template_gets_beside_the_messages_is_asked_with_them_and_without() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = chat(
        "hi",
        tools=tools,
        documents=[{"text": "d"}],
        chat_template="{{ x }}",
        chat_template_kwargs={"k": 1},
        reasoning_effort="low",
    )

    asked = question(prompt_of(CHAT, body))

    plain = {
        "model": "m",
        "messages": body["messages"],
        "chat_template": "{{ x }}",
        "return_token_strs": True,
    }
    given = {"k": 1, "documents": [{"text": "d"}], "reasoning_effort": "low", "enable_thinking": True}
    assert json.loads(asked.body) == {**plain, "tools": tools, "chat_template_kwargs": given}
    assert json.loads(asked.bare or b"") == {**plain, "chat_template_kwargs": {"k": 1}}


def test_calls_of_tools_are_text() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]}
    body = {"model": "m", "messages": [call, {"role": "tool", "tool_call_id": "1", "content": "42"}]}

    assert json.loads(question(prompt_of(CHAT, body)).body)["messages"] == body["messages"]


def test_a_completion_is_asked_by_its_text() -> None:
    asked = question(
        prompt_of("/v1/completions", {"model": "m", "prompt": "once", "add_special_tokens": False})
    )

    assert json.loads(asked.body) == {
        "model": "m",
        "prompt": "once",
        "add_special_tokens": False,
        "return_token_strs": True,
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(CHAT, chat("a", functions=[{"name": "f"}]), id="functions"),
        pytest.param(CHAT, chat("a", cache_salt="tenant"), id="salt"),
        pytest.param(CHAT, chat([{"type": "image_url"}]), id="image"),
        pytest.param("/v1/messages", chat("a"), id="another-api"),
        pytest.param("/v1/completions", {"prompt": [1, 2]}, id="token-ids"),
        pytest.param("/v1/completions", {"prompt": ["a", "b"]}, id="several"),
    ],
)
def test_a_prompt_whose_blocks_would_be_named_otherwise_is_not_asked(path: str, body: dict[str, Any]) -> None:
    with pytest.raises(TokenizeError) as caught:
        question(prompt_of(path, body))

    assert caught.value.cause == "unsupported"


def test_a_body_that_is_nested_without_end_is_unsupported() -> None:
    with pytest.raises(TokenizeError) as caught:
        question(Prompt(CHAT.encode(), b'{"messages":' + b"[" * 100_000, 12))

    assert caught.value.cause == "unsupported"


@given(st.binary(max_size=100), st.integers(0, 100))
def test_no_body_does_worse_than_be_unsupported(body: bytes, start: int) -> None:
    causes = ["unsupported"]

    try:
        question(Prompt(CHAT.encode(), body, start))
    except TokenizeError as error:
        causes.append(error.cause)

    assert set(causes) == {"unsupported"}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'{"tokens": [1]}', id="no-strings"),
        pytest.param(b'{"tokens": [1], "token_strs": null}', id="null-strings"),
        pytest.param(b'{"tokens": [1], "token_strs": [1]}', id="numbers"),
        pytest.param(b'{"tokens": [1, 2], "token_strs": ["a"]}', id="other-length"),
        pytest.param(b'{"tokens": ["x"], "token_strs": ["a"]}', id="words"),
        pytest.param(b'{"tokens": [Infinity], "token_strs": ["a"]}', id="endless"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)
def test_an_answer_without_tokens_has_failed(answer: bytes) -> None:
    with pytest.raises(TokenizeError) as caught:
        read_tokens(answer)

    assert caught.value.cause == "failed"


@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found"], ids=["good", "refused"])
def test_an_engine_is_asked_over_http(status: bytes) -> None:
    async def answer(received: Received, writer: asyncio.StreamWriter) -> None:
        assert received.line == b"POST /tokenize HTTP/1.1"
        writer.write(json_answer(b'{"tokens": [7, 8], "token_strs": ["a", "bc"]}', status))

    async def asked() -> Tokens:
        engine = FakeEngine(answer=answer)
        await engine.start()
        try:
            address = Address("127.0.0.1", int(engine.url.rpartition(":")[2]))
            return (await asyncio.to_thread(tokenize, address, prompt_of(CHAT, chat("a")), 5.0))[1]
        finally:
            await engine.kill()

    if status == b"200 OK":
        assert asyncio.run(asked()) == Tokens([7, 8], [1, 2])
    else:
        with pytest.raises(TokenizeError, match="404"):
            asyncio.run(asked())


def test_an_engine_that_is_gone_has_failed() -> None:
    with pytest.raises(TokenizeError) as caught:
        tokenize(Address("127.0.0.1", 1), prompt_of(CHAT, chat("a")), 1.0)

    assert caught.value.cause == "failed"


def test_bytes_are_placed_among_tokens_by_the_text_before_them() -> None:
    tokens = Tokens(list(range(20)), [1] * 10 + [10] * 10)  # the first ten are short

    names = names_of(tokens, 5, 110, 1)  # 64 of 110 bytes: ten short tokens and five long ones

    assert names == [list(chain(range(15), 5))[2]]


def test_tokens_behind_the_blocks_that_are_asked_for_are_not_named() -> None:
    """A prompt may be many times as long as what is hashed of it; here what lies behind is no token."""
    ids = [*range(20), *(["not read"] * 80)]

    names = names_of(Tokens(ids, [4] * 100), 5, 400, 1)  # type: ignore[arg-type]

    assert names == [list(chain(range(15), 5))[2]]


@given(
    st.lists(st.integers(0, 20), max_size=200), st.integers(1, 9), st.integers(0, 2000), st.integers(0, 12)
)
def test_deeper_bytes_are_never_fewer_tokens(
    lengths: list[int], block_size: int, num_bytes: int, num_blocks: int
) -> None:
    ids = list(range(len(lengths)))
    names = list(chain(ids, block_size))

    found = names_of(Tokens(ids, lengths), block_size, num_bytes, num_blocks)

    depths = [0 if name is None else names.index(name) + 1 for name in found]
    assert len(found) == min(num_blocks, len(BLOCK_ENDS))
    assert depths == sorted(depths)


def test_a_salt_that_was_found_names_other_blocks_and_any_other_is_unsupported() -> None:
    plain, salted = prompt_of(CHAT, chat("hi")), prompt_of(CHAT, chat("hi", cache_salt="s"))

    assert question(plain).salt is None
    assert question(salted._replace(seed=b"s")).salt == "s"
    assert "cache_salt" not in json.loads(question(salted._replace(seed=b"s")).body)
    for prompt in (salted, salted._replace(seed=b"t")):
        with pytest.raises(TokenizeError, match="cache_salt"):
            question(prompt)


def test_blocks_of_a_salted_prompt_are_those_that_engines_tell_of_it() -> None:
    tokens = Tokens(list(range(64)), [4] * 64)
    told = list(chain(tokens.ids, 16, extra_keys=[["s"], None, None, None]))

    plain, salted, other = (
        [name for name in names_of(tokens, 16, 256, 4, salt=salt) if name is not None]
        for salt in (None, "s", "t")
    )

    assert salted == told[: len(salted)] != []
    assert not set(salted) & {*plain, *other}


def test_blocks_of_an_adapter_are_those_that_engines_tell_of_it() -> None:
    tokens = Tokens(list(range(64)), [4] * 64)
    told = list(chain(tokens.ids, 16, extra_keys=[["lora", "s"], ["lora"], ["lora"], ["lora"]]))

    names = names_of(tokens, 16, 256, 4, salt="s", adapter="lora")

    assert [name for name in names if name is not None] == told[:3]


def test_bytes_behind_tools_are_placed_behind_them() -> None:
    head, tools, tail = list(range(8)), list(range(100, 132)), list(range(8, 72))
    bare = Tokens(head + tail, [2] * 72)
    whole = Tokens(head + tools + tail, [2] * 104)

    more = inserted(whole, bare)
    names = names_of(whole, 8, 144, 2, more=more)

    blocks = list(chain(whole.ids, 8))
    assert more == (16, 64)
    # Of 144 bytes, 64 end with the 32nd token: 8 before the tools, 24 behind them. A token cut short is none.
    assert names == [blocks[(8 + 32 + 23) // 8 - 1], blocks[(8 + 32 + 55) // 8 - 1]]


@pytest.mark.parametrize(
    ("entry", "is_one"),
    [
        pytest.param({"id": "a", "parent": "base"}, True, id="adapter"),
        pytest.param({"id": "a", "parent": None}, False, id="model"),
        pytest.param({"id": "b", "parent": "base"}, False, id="another"),
    ],
)
def test_an_engine_says_which_of_its_models_are_adapters(entry: dict[str, Any], is_one: bool) -> None:
    async def answer(received: Received, writer: asyncio.StreamWriter) -> None:
        assert received.line == b"GET /v1/models HTTP/1.1"
        writer.write(json_answer(json.dumps({"data": [entry]}).encode()))

    async def asked() -> bool:
        engine = FakeEngine(answer=answer)
        await engine.start()
        try:
            address = Address("127.0.0.1", int(engine.url.rpartition(":")[2]))
            return await asyncio.to_thread(is_adapter, address, "a", 5.0)
        finally:
            await engine.kill()

    assert asyncio.run(asked()) is is_one


def test_links_that_become_others_say_so() -> None:
    links = Links(1 << 20)

    assert not links.learn((1, 2), [10, 20])
    assert not links.learn((1, 2, 3), [10, 20, 30])
    assert links.learn((1, 2), [10, 21])


def test_links_know_a_prompt_as_far_as_it_begins_alike() -> None:
    links = Links(1 << 20)
    links.learn((1, 2, 3, 4), [None, 20, 20, 40])

    linked = links.find((1, 2, 3, 9))
    names = [linked.names[block] for block in (2, 3)]

    assert (names, linked.first, linked.is_confirmed, linked.num_known) == (
        [20, 20],
        1,
        False,
        3,
    )
    assert links.knows((1, 2))
    assert not links.knows((1, 2, 3, 9))


def test_what_an_engine_held_once_stays_confirmed_until_it_is_another() -> None:
    links = Links(1 << 20)
    links.learn((1, 2), [10, 20])
    links.confirm(1)
    links.learn((1, 2), [10, 21])
    kept = links.find((1, 2)).is_confirmed

    links.learn((1, 2), [11, 21])

    assert kept
    assert not links.find((1, 2)).is_confirmed


LINKED = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=60)


@given(LINKED, st.integers(2, 40))
def test_links_take_no_more_than_their_memory_and_tell_nothing_that_was_not_learned(
    paths: list[list[int]], num_links: int
) -> None:
    links = Links(num_links * LINK_BYTES)
    learned: dict[int, int | None] = {}

    for path in paths:
        blocks = [hash(tuple(path[: i + 1])) for i in range(len(path))]
        names = [None if i < 2 else abs(block) for i, block in enumerate(blocks)]
        links.learn(blocks, names)
        learned |= zip(blocks, names, strict=True)
        linked = links.find(blocks)

        assert links.num_bytes <= num_links * LINK_BYTES
        for block in blocks[linked.first : linked.num_known]:
            assert linked.names.get(block, 0) in (learned[block], 0)


def test_what_is_used_is_kept_and_what_is_not_is_forgotten() -> None:
    links = Links(40 * LINK_BYTES)
    links.learn((1, 2, 3), [10, 20, 30])
    links.learn((4, 5, 6), [40, 50, 60])

    for number in range(100, 200):
        links.learn((number,), [number])
        links.find((1, 2, 3))

    assert links.find((1, 2, 3)).num_known == 3
    assert links.find((4, 5, 6)).num_known == 0
