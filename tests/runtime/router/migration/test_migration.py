"""A stream that breaks off is gone on with elsewhere, and its client sees one answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fakes_access import ACME, AccessFolder, bearer, salt_of
from fakes_engine import (
    SSE_HEAD,
    Answer,
    FakeEngine,
    RawClient,
    Received,
    chunk,
    eventually,
    get,
    json_answer,
    post,
    run_loop,
)
from fakes_router import routed
from fakes_streams import ANSWER, END, PROMPT, Reciter

from hypertier.router.app import Router
from hypertier.router.http.event_stream import MAX_EVENT_BYTES
from hypertier.router.http.wire import BodyBudget
from hypertier.router.migration.continuation import Transcript, plan
from hypertier.router.migration.token_ids import without_ids
from hypertier.router.replicas.replicas import State

CHAT, COMPLETIONS = b"/v1/chat/completions", b"/v1/completions"
NUM_TOKENS = len(ANSWER.encode()) + 1
USAGE = {"stream_options": {"include_usage": True}}


def asking(path: bytes, **fields: Any) -> bytes:
    """A streamed request for a whole answer."""
    return post(path, body_of(path, **fields))


def body_of(path: bytes, **fields: Any) -> bytes:
    """Of such a request."""
    prompt = {"messages": [{"role": "user", "content": "hi"}]} if path == CHAT else {"prompt": "hi"}
    body = {"model": "m", "stream": True, "max_tokens": 1000, "temperature": 0, **prompt, **fields}
    return json.dumps(body).encode()


def events_of(answer: Answer) -> list[Any]:
    """Parsed; `[DONE]` is the last one of a whole answer."""
    texts = [text.removeprefix("data: ") for text in answer.body.decode().split("\n\n")]
    return [json.loads(text) if text != "[DONE]" else text for text in texts if text]


def choices_of(events: list[Any]) -> list[dict[str, Any]]:
    """One for each piece."""
    return [choice for event in events if event != "[DONE]" for choice in event["choices"]]


def text_of(events: list[Any]) -> str:
    """What the client shows."""
    choices = choices_of(events)
    return "".join(c["delta"].get("content") or "" if "delta" in c else c["text"] for c in choices)


async def ask(router: Router, data: bytes) -> Answer:
    """What a client of its own gets."""
    client = await RawClient.connect(router.port)
    client.send(data)
    answer = await client.answer()
    client.close()
    return answer


def served(
    first: Reciter, then: Reciter, data: bytes, **settings: Any
) -> tuple[Answer, dict[str, int], dict[str, Any], Router]:
    """The answer, what became of migrations, and the decision: `first` is asked before `then`."""

    async def act() -> tuple[Answer, dict[str, int], dict[str, Any], Router]:
        engines = FakeEngine(first), FakeEngine(then)
        async with routed(*engines, **{"migration_limit": 1, **settings}) as router:
            answer = await ask(router, data)
            await eventually(lambda: not any(r.in_flight for r in router.replicas.by_url.values()))
            migration = router.front.migration
            ended = dict(migration.ended | migration.ineligible) if migration is not None else {}
            decided = router.front._proxy.decisions.told(None, 1)[0]
            held = migration.budget.held_bytes if migration is not None else 0
            assert held == 0
            return answer, ended, decided, router

    return run_loop(act())


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
@pytest.mark.parametrize("piece_tokens", [1, 2, 3, 7], ids="{}-tokens".format)
@pytest.mark.parametrize("ends", ["closed", "error"])
def test_answer_that_breaks_off_anywhere_is_one_answer(path: bytes, piece_tokens: int, ends: str) -> None:
    whole, *_ = served(Reciter(), Reciter(), asking(path, **USAGE), migration_limit=0)
    for num_pieces in range(1, math.ceil(NUM_TOKENS / piece_tokens)):
        first = Reciter(num_pieces, ends, piece_tokens)
        answer, ended, decided, _ = served(first, Reciter(piece_tokens=piece_tokens), asking(path, **USAGE))
        events = events_of(answer)

        assert answer.is_whole
        assert events[-1] == "[DONE]"
        assert text_of(events) == text_of(events_of(whole)) == ANSWER
        assert len({(event["id"], event["created"], event["object"]) for event in events[:-1]}) == 1
        assert [c["finish_reason"] for c in choices_of(events) if c["finish_reason"]] == ["stop"]
        assert [event["usage"] for event in events[:-1] if event.get("usage")] == [
            {
                "prompt_tokens": len(PROMPT),
                "completion_tokens": NUM_TOKENS,
                "total_tokens": len(PROMPT) + NUM_TOKENS,
                "prompt_tokens_details": {"cached_tokens": len(PROMPT)},
            }
        ]
        assert ended == {"continued": 1}
        assert (decided["status"], decided["reason"]) == ("2xx", "migration")
        assert len(decided["tried_before"]) == 1
        (left,) = decided["broke_off"]
        assert [left["replica"]] == decided["tried_before"] != [decided["replica"]]
        assert (left["cause"], left["reason"]) == (ends, "turn")
        assert decided["ttft_seconds"] <= left["seconds"] <= decided["seconds"]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
def test_pieces_of_the_rest_have_the_members_of_an_unbroken_answers(path: bytes) -> None:
    whole, *_ = served(Reciter(), Reciter(), asking(path), migration_limit=0)
    answer, *_ = served(Reciter(3), Reciter(), asking(path))

    shapes = [
        [sorted(choice) for choice in choices_of(events_of(each)) if choice["finish_reason"] is None]
        for each in (whole, answer)
    ]
    assert {*map(tuple, shapes[0])} == {*map(tuple, shapes[1])}
    assert sorted(choices_of(events_of(whole))[-1]) == sorted(choices_of(events_of(answer))[-1])


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
def test_usage_of_its_pieces_never_goes_back(path: bytes) -> None:
    often = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    for num_pieces in range(1, NUM_TOKENS):
        answer, *_ = served(Reciter(num_pieces), Reciter(), asking(path, **often))

        told = [event["usage"] for event in events_of(answer)[:-1] if event.get("usage")]
        written = [usage["completion_tokens"] for usage in told]
        assert written == sorted(written)
        assert written[-1] == NUM_TOKENS
        assert all(usage["total_tokens"] == len(PROMPT) + usage["completion_tokens"] for usage in told)


def test_a_completion_has_but_one_limit() -> None:
    made = plan(COMPLETIONS, b'{"prompt": "hi", "max_tokens": 9, "max_completion_tokens": 5}')

    assert not isinstance(made, str)
    assert made.max_tokens == 9


def test_rest_is_asked_for_by_tokens_and_with_what_is_left_of_the_limits() -> None:
    first, then = Reciter(3), Reciter()

    served(first, then, asking(COMPLETIONS, max_tokens=20, min_tokens=5, seed=3, cache_salt="t"))

    assert then.paths == ["/v1/completions"]
    (asked,) = then.asked
    said = list(ANSWER.encode()[:1])
    assert asked["prompt"][: len(PROMPT) + 1] == [*PROMPT, *said]
    written = len(asked["prompt"]) - len(PROMPT)
    assert (asked["max_tokens"], asked["min_tokens"]) == (20 - written, 5 - written)
    assert (asked["seed"], asked["cache_salt"], asked["stream"]) == (3, "t", True)


def test_as_many_tokens_are_written_as_asked_for() -> None:
    answer, ended, *_ = served(Reciter(4), Reciter(), asking(CHAT, max_tokens=9, **USAGE))

    events = events_of(answer)
    assert text_of(events) == ANSWER.encode()[:9].decode()
    assert events[-2]["usage"]["completion_tokens"] == 9
    assert choices_of(events)[-1]["finish_reason"] == "length"
    assert ended == {"continued": 1}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
def test_client_sees_nothing_of_tokens_that_it_did_not_ask_for(path: bytes) -> None:
    engine = Reciter()
    off, *_ = served(engine, engine, asking(path, **USAGE), migration_limit=0)
    on, *_ = served(engine, engine, asking(path, **USAGE))

    assert on.body == off.body
    assert on.is_whole


class Closing(Reciter):
    """Its streams have no chunks: the closed connection ends them."""

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        body = json.loads(request.body)
        self.asked.append(body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for event in self._events(request.line.decode().split(" ")[1], body)[: self.num_pieces]:
            writer.write(b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n")
            await writer.drain()
        writer.write(b"data: [DONE]")
        await writer.drain()
        writer.close()


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
def test_nor_where_the_connections_end_ends_the_stream(path: bytes) -> None:
    engine = Closing()
    off, *_ = served(engine, engine, asking(path), migration_limit=0)
    on, ended, *_ = served(engine, engine, asking(path))

    assert engine.asked[-1]["return_token_ids"]
    assert on.body == off.body
    assert ended == {}


@dataclass
class Formed(Reciter):
    """It writes its answer in a form of its own: `head` are lines of it, without those of the framing."""

    head: bytes = b"Content-Type: text/event-stream\r\n"
    is_gzipped: bool = False
    has_length: bool = False
    is_whole: bool = False

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        body = json.loads(request.body)
        self.asked.append(body)
        events = self._events(request.line.decode().split(" ")[1], body)
        texts = [b"data: %b\n\n" % json.dumps(event, separators=(",", ":")).encode() for event in events]
        text = b"".join(texts) + b"data: [DONE]\n\n"
        if self.is_whole:
            text = json.dumps(events, indent=1).encode()
        if self.is_gzipped:
            text = gzip.compress(text, mtime=0)
        framing = b"Content-Length: %d" % len(text) if self.has_length else b"Transfer-Encoding: chunked"
        writer.write(b"HTTP/1.1 200 OK\r\n%b%b\r\n\r\n" % (self.head, framing))
        at = min(700, len(text) // 2)
        for part in (text[:at], text[at:]):
            writer.write(part if self.has_length else chunk(part))
            await writer.drain()
            if self.num_pieces:
                writer.transport.close()
                return
        writer.write(b"" if self.has_length else b"0\r\n\r\n")


STREAM, JSON = b"Content-Type: text/event-stream\r\n", b"Content-Type: application/json\r\n"
GZIP = b"Content-Encoding: gzip\r\n"
FORMS = {
    "length": Formed(has_length=True),
    "gzip": Formed(head=STREAM + GZIP, is_gzipped=True),
    "gzip and length": Formed(head=GZIP + STREAM, is_gzipped=True, has_length=True),
    "gzip of no stream": Formed(head=JSON + GZIP, is_gzipped=True, is_whole=True),
    "other spelling": Formed(head=b"Content-Type:Text/Event-Stream\r\nContent-Encoding: identity\r\n"),
    "no stream": Formed(head=JSON, is_whole=True),
    "no stream, length": Formed(head=JSON, is_whole=True, has_length=True),
}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
@pytest.mark.parametrize("engine", FORMS.values(), ids=FORMS)
def test_nor_whatever_form_an_engine_gives_its_answer(path: bytes, engine: Formed) -> None:
    asked = asking(path, **USAGE)
    first = replace(engine, asked=[])
    off, *_ = served(first, first, asked, migration_limit=0)
    on, ended, *_ = served(first, first, asked)

    assert any(body.get("return_token_ids") for body in first.asked)
    assert on.is_whole
    coding = on.header(b"content-encoding")
    assert coding == off.header(b"content-encoding")
    assert (coding == b"gzip") is engine.is_gzipped
    if engine.is_whole and not engine.is_gzipped:  # the white space of a list that is none
        assert json.loads(on.body) == json.loads(off.body)
    else:
        assert on.body == off.body
    assert ended == ({"encoded": 1} if engine.is_gzipped else {})


def test_engine_that_compresses_unasked_is_asked_for_no_ids_again_and_as_its_client_asked() -> None:
    first = replace(FORMS["gzip"], asked=[])

    async def act() -> tuple[Counter[str], list[bool], list[bytes]]:
        engine = FakeEngine(first)
        async with routed(engine, migration_limit=1) as router:
            for _ in range(2):
                await ask(router, post(CHAT, body_of(CHAT), b"Accept-Encoding: gzip, br"))
            assert router.front.migration is not None
            asked = ["return_token_ids" in body for body in first.asked]
            codings = [request.header(b"accept-encoding") or b"" for request in engine.received]
            assert router.front._proxy.counts.retries == {"encoded": 1}
            assert engine.received[1].body == engine.received[2].body == body_of(CHAT)
            return router.front.migration.ineligible, asked, codings

    ineligible, asked, codings = run_loop(act())

    assert asked == [True, False, False]
    assert codings == [b"", b"gzip, br", b"gzip, br"]
    assert ineligible == {"encoded": 2}


def test_stream_with_a_length_is_gone_on_with() -> None:
    first = replace(FORMS["length"], asked=[], num_pieces=1)

    answer, ended, *_ = served(first, Reciter(), asking(CHAT, **USAGE))

    assert answer.is_whole
    assert text_of(events_of(answer)) == ANSWER
    assert ended == {"continued": 1}


def test_engines_are_not_asked_to_compress_what_has_to_be_read() -> None:
    async def act() -> list[bytes]:
        engine = FakeEngine(Reciter())
        asked = post(CHAT, body_of(CHAT), b"Accept-Encoding: gzip, br")
        for limit in (0, 1):
            async with routed(engine, migration_limit=limit) as router:
                await ask(router, asked)
        return [one.head.lower() for one in engine.received]

    off, on = run_loop(act())

    assert b"\r\naccept-encoding: gzip, br" in off
    assert b"accept-encoding" not in on


def test_answer_that_lost_its_end_alone_gets_it() -> None:
    whole = events_of(served(Reciter(), Reciter(), asking(CHAT, **USAGE), migration_limit=0)[0])
    first = Reciter(num_pieces=len(whole) - 2)
    then = Reciter()

    answer, ended, decided, _ = served(first, then, asking(CHAT, **USAGE))

    events = events_of(answer)
    assert [choice["finish_reason"] for choice in choices_of(events)].count("stop") == 1
    assert events[-2]["usage"]["completion_tokens"] == NUM_TOKENS
    assert events[-1] == "[DONE]"
    assert ended == {"finished": 1}
    assert then.asked == []
    assert decided["status"] == "2xx"


REFUSED = {
    "several": ({"n": 2}, "n"),
    "logprobs": ({"logprobs": True}, "logprobs"),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    "schema": ({"response_format": {"type": "json_object"}}, "response_format"),
    "guided": ({"structured_outputs": {"regex": "a+"}}, "structured_outputs"),
    "stop": ({"stop": ["\n"]}, "stop"),
    "penalty": ({"presence_penalty": 0.5}, "presence_penalty"),
    "beam": ({"use_beam_search": True}, "use_beam_search"),
    "tokens": ({"return_token_ids": True}, "return_token_ids"),
    "hidden reasoning": ({"include_reasoning": False}, "include_reasoning"),
    "unknown": ({"of_another_engine": 1}, "other_field"),
    "limit that engines read as 16": ({"max_tokens": 16.0}, "max_tokens"),
    "limit in quotes": ({"max_completion_tokens": "16"}, "max_completion_tokens"),
    "least in quotes": ({"min_tokens": "2"}, "min_tokens"),
    "image": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "prompt",
    ),
}


@pytest.mark.parametrize(("fields", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_no_other_engine_could_go_on_with_breaks_off_as_ever(fields: Any, reason: str) -> None:
    first, then = Reciter(3), Reciter()

    answer, ended, *_ = served(first, then, asking(CHAT, **fields))

    assert not answer.is_whole
    assert ended == {reason: 1}
    assert first.asked[0].keys() == json.loads(asking(CHAT, **fields).partition(b"\r\n\r\n")[2]).keys()
    assert then.asked == []


def test_off_by_default_and_then_requests_are_what_they_were() -> None:
    first, then = Reciter(3), Reciter()

    answer, ended, *_ = served(first, then, asking(CHAT), migration_limit=0)

    assert not answer.is_whole
    assert "return_token_ids" not in first.asked[0]
    assert (ended, then.asked) == ({}, [])


def test_whole_answers_and_other_paths_are_none_of_its_business() -> None:
    first = Reciter()

    served(first, first, asking(CHAT, stream=False))

    assert "return_token_ids" not in first.asked[0]


FAILED = {
    "engine that tells no tokens": (Reciter(3, knows_tokens=False), Reciter(), {}, {"no_token_ids": 1}),
    "engine that refuses the rest": (Reciter(3), Reciter(status=b"400 Bad Request"), {}, {"refused": 1}),
    "engine that breaks off again": (Reciter(3), Reciter(3), {}, {"continued": 1, "limit": 1}),
    "nobody who is left": (Reciter(3), Reciter(3), {"migration_limit": 5}, {"continued": 1, "no_replica": 1}),
    "engine that can't take the rest": (
        Reciter(3),
        Reciter(status=b"503 Service Unavailable"),
        {"retries": 0},
        {"refused": 1},
    ),
}


@pytest.mark.parametrize(("first", "then", "settings", "expected"), FAILED.values(), ids=FAILED)
def test_stream_that_nobody_goes_on_with_breaks_off(
    first: Reciter, then: Reciter, settings: Any, expected: dict[str, int]
) -> None:
    answer, ended, decided, _ = served(replace(first), replace(then), asking(CHAT), **settings)

    assert answer.status == 200
    assert not answer.is_whole
    assert ANSWER.startswith(text_of(events_of(Answer(200, b"", answer.body.rpartition(b"\n\n")[0]))))
    assert ended == expected
    assert decided["status"] == "broken"


def test_error_that_nobody_can_mend_reaches_the_client_as_the_engine_told_it() -> None:
    answer, ended, *_ = served(Reciter(3, "error", knows_tokens=False), Reciter(), asking(CHAT))

    events = events_of(answer)
    assert events[-2]["error"]["code"] == 500
    assert events[-1] == "[DONE]"
    assert answer.is_whole
    assert ended == {"no_token_ids": 1}


@pytest.mark.parametrize("before", [b"", b": ping\n\n"], ids=["alone", "behind-a-comment"])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
def test_error_told_before_all_else_is_a_failure_before_the_first_byte(path: bytes, before: bytes) -> None:
    answer, ended, decided, router = served(Reciter(0, "error", before=before), Reciter(), asking(path))

    assert answer.is_whole
    assert text_of(events_of(answer)) == ANSWER
    assert ended == {}
    assert router.metrics.counts.retries == {"error": 1}
    assert (decided["status"], decided["reason"]) == ("2xx", "only")
    assert len(decided["tried_before"]) == 1


@pytest.mark.parametrize("settings", [{"retries": 0}, {"retry_budget": 0.0}], ids=str)
def test_error_told_before_all_else_reaches_the_client_where_nobody_is_asked_again(settings: Any) -> None:
    then = Reciter(0, "error")

    answer, ended, decided, _ = served(Reciter(0, "error"), then, asking(CHAT), **settings)

    assert answer.is_whole
    assert [event.get("error", {}).get("code") for event in events_of(answer)[:-1]] == [500]
    assert ended == {"no_token_ids": 1}
    assert decided["status"] == "2xx"


def test_migrations_are_within_the_retry_budget() -> None:
    async def act() -> tuple[bool, dict[str, int]]:
        async with routed(FakeEngine(Reciter(3)), FakeEngine(Reciter()), migration_limit=1) as router:
            budget = router.front._proxy.retry_budget
            while budget.take():
                pass
            answer = await ask(router, asking(CHAT))
            assert router.front.migration is not None
            return answer.is_whole, dict(router.front.migration.ended)

    assert run_loop(act()) == (False, {"budget": 1})


def test_stream_that_finds_no_room_is_left_as_it_is() -> None:
    async def act() -> tuple[bool, dict[str, int], int]:
        async with routed(FakeEngine(Reciter(9)), FakeEngine(Reciter()), migration_limit=1) as router:
            migration = router.front.migration
            assert migration is not None
            migration.budget.capacity_bytes = 4 * (len(PROMPT) + 3)
            answer = await ask(router, asking(CHAT))
            return answer.is_whole, dict(migration.ended), migration.budget.held_bytes

    assert run_loop(act()) == (False, {"no_room": 1}, 0)


class LongWinded(Reciter):
    """Its first event tells the tokens of a prompt that is longer than any."""

    def _events(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        events = super()._events(path, body)
        (events[0] if path.encode() == CHAT else events[0]["choices"][0])["prompt_token_ids"] = [
            1_000_000
        ] * (MAX_EVENT_BYTES // 7)
        return events


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
def test_stream_with_an_event_longer_than_is_kept_is_shown_without_ids_and_left_as_it_is(path: bytes) -> None:
    whole, none, *_ = served(LongWinded(), Reciter(), asking(path, **USAGE))
    broken, ended, *_ = served(LongWinded(4), Reciter(), asking(path, **USAGE))

    shown = choices_of(events_of(whole))
    assert text_of(events_of(whole)) == ANSWER
    assert not any(choice.get("token_ids") or choice.get("prompt_token_ids") for choice in shown)
    assert len(whole.body) < MAX_EVENT_BYTES
    assert none == {}
    assert not broken.is_whole
    assert ended == {"long_event": 1}


def test_reasoning_is_never_gone_on_with_as_plain_text() -> None:
    class Thinker(Reciter):
        def _events(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
            events = super()._events(path, body)
            events[1]["choices"][0]["delta"] = {"reasoning": "hm"}
            return events

    answer, ended, *_ = served(Thinker(4), Reciter(), asking(CHAT))

    assert not answer.is_whole
    assert ended == {"parsed": 1}


def test_chat_without_a_limit_goes_on_to_the_end_of_its_models_context() -> None:
    async def act() -> tuple[list[dict[str, Any]], dict[str, int], list[bool]]:
        then = Reciter()
        async with routed(FakeEngine(Reciter(3)), FakeEngine(then), migration_limit=1) as router:
            migration = router.front.migration
            assert migration is not None
            told = [await ask(router, asking(CHAT, max_tokens=None))]
            for replica in router.replicas.by_url.values():
                router.front._models.learn(replica, [{"id": "m", "max_model_len": 50}])
            told += [await ask(router, asking(CHAT, max_tokens=None)) for _ in range(2)]
            return then.asked, dict(migration.ended), [answer.is_whole for answer in told]

    asked, ended, wholes = run_loop(act())

    assert (ended, wholes) == ({"context": 1, "continued": 1}, [False, True, True])
    (rest,) = [body for body in asked if "prompt" in body]
    assert rest["max_tokens"] == 50 - len(rest["prompt"])
    assert END not in rest["prompt"]


class Mumbler(Reciter):
    """Whoever asks it for a text gets none."""

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if not request.line.startswith(b"POST /detokenize "):
            await super().__call__(request, writer)
            return
        self.paths.append("/detokenize")
        await asyncio.Event().wait()


async def seeking(then: Mumbler, act: Callable[[Router, RawClient], Awaitable[Any]], *lines: bytes) -> Any:
    """Act while the end of a client's text is looked for; what `act` says, and the counts."""
    engines = FakeEngine(Reciter(4, piece_tokens=3)), FakeEngine(then)
    async with routed(*engines, migration_limit=1, metrics_port=0) as router:
        client, admin = await RawClient.connect(router.port), await RawClient.connect(router.metrics_port)
        client.send(post(CHAT, body_of(CHAT), *lines))
        await act(router, client)
        await eventually(lambda: not router.replicas.in_flight and bool(router.front.migration.ended))  # type: ignore[union-attr]
        admin.send(get(b"/metrics"))
        metrics = (await admin.answer()).body.decode()
        decided = router.front._proxy.decisions.told(None, 1)
        assert router.front.migration is not None
        answered = [
            line for line in metrics.splitlines() if line.startswith("hypertier_router_requests_total")
        ]
        return dict(router.front.migration.ended), answered, [each["status"] for each in decided]


@pytest.mark.parametrize(
    ("line", "end", "status"),
    [
        pytest.param(b"x-other: 1", "client_closed", "client_closed", id="client-goes-away"),
        pytest.param(b"x-request-timeout: 0.2", "deadline", "broken", id="its-time-is-over"),
    ],
)
def test_stream_that_ends_on_its_way_to_another_replica_is_counted(
    line: bytes, end: str, status: str
) -> None:
    then = Mumbler()

    async def act(router: Router, client: RawClient) -> None:
        await eventually(lambda: bool(then.paths))
        if end == "client_closed":
            client.close()

    ended, answered, decided = run_loop(seeking(then, act, line))

    assert ended == {end: 1}
    labels = f'replica="",status="{status}",strategy="roundrobin"'
    assert answered == [f"hypertier_router_requests_total{{{labels}}} 1.0"]
    assert decided == [status]


def test_end_of_a_text_is_looked_for_within_one_deadline_however_often_is_asked() -> None:
    class Half(Mumbler):
        """It tells half a character, and then nothing more."""

        async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
            if request.line.startswith(b"POST /detokenize ") and not self.paths:
                self.paths.append("/detokenize")
                writer.write(json_answer(b'{"prompt": "\\ufffd"}'))
                return
            await super().__call__(request, writer)

    async def act(router: Router, client: RawClient) -> None:
        assert router.front.migration is not None
        router.front.migration.seam_seconds = 0.05
        assert not (await client.answer()).is_whole

    ended, _, decided = run_loop(seeking(Half(), act))

    assert ended == {"seam": 1}
    assert decided == ["broken"]


def test_client_that_goes_away_while_its_answer_moves_leaves_nothing_behind() -> None:
    async def act() -> tuple[int, int]:
        engines = FakeEngine(Reciter(3)), FakeEngine(frozen=False)
        async with routed(*engines, migration_limit=1) as router:
            engines[1].frozen = True
            client = await RawClient.connect(router.port)
            client.send(asking(CHAT))
            await client.reader.readuntil(b"\n\n")
            await eventually(lambda: bool(engines[1].received))
            client.close()
            await eventually(lambda: not any(r.in_flight for r in router.replicas.by_url.values()))
            migration = router.front.migration
            assert migration is not None
            return migration.budget.held_bytes, len(router.front.connections)

    assert run_loop(act())[0] == 0


IDLE_SECONDS = 1000
"""More than a test lasts: ticks are a test's own."""


async def idled(router: Router, ticks: int) -> None:
    """So many seconds pass without a byte."""
    await eventually(lambda: bool(router.replicas.in_flight))
    for _ in range(ticks):
        router.front.sweep()
        await asyncio.sleep(0)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "completion"])
def test_stream_leaves_an_engine_that_falls_silent_inside_it(path: bytes) -> None:
    async def act() -> tuple[Answer, list[str], int, Any, Counter[str]]:
        first = Reciter(4, "idle")
        silent = FakeEngine(first)
        async with routed(
            silent, FakeEngine(Reciter()), migration_limit=1, stream_idle_timeout_seconds=IDLE_SECONDS
        ) as router:
            migration = router.front.migration
            assert migration is not None
            client = await RawClient.connect(router.port)
            client.send(asking(path))
            await eventually(lambda: first.is_idle)
            await idled(router, IDLE_SECONDS - 10)
            before = [*migration.causes]
            await idled(router, 20)
            answer = await client.answer()
            await eventually(lambda: silent.num_disconnects == 1)
            told = router.front._proxy.decisions.told(None, 1)[0]
            return answer, before, silent.num_disconnects, told, migration.ended | migration.causes

    answer, before, _, decided, counts = run_loop(act())

    assert text_of(events_of(answer)) == ANSWER
    assert answer.is_whole
    assert before == []
    assert counts == {"continued": 1, "idle": 1}
    assert (decided["status"], decided["broke_off"][0]["cause"]) == ("2xx", "idle")


@pytest.mark.parametrize(("is_out", "is_set"), [(True, True), (False, True), (True, False)])
def test_a_stream_leaves_a_silent_engine_sooner_that_is_out_of_the_choice(is_out: bool, is_set: bool) -> None:
    """Out alone is not enough, nor is silence; nor both where streams are never left for it."""

    async def act() -> list[Counter[str]]:
        first = Reciter(4, "idle")
        silent = FakeEngine(first)
        limits: dict[str, Any] = {"health_interval_seconds": 0.02, "health_timeout_seconds": 5.0}
        limits |= {"migration_limit": 1, "stream_idle_timeout_seconds": IDLE_SECONDS if is_set else 0}
        async with routed(silent, FakeEngine(Reciter()), **limits) as router:
            client = await RawClient.connect(router.port)
            client.send(asking(CHAT))
            await eventually(lambda: first.is_idle)
            replica = router.replicas.by_url[silent.url]
            if is_out:
                silent.healthy = False
                await eventually(lambda: replica.state is State.EJECTED)
            assert router.front.migration is not None
            left = []
            for ticks in (4, 10):
                await idled(router, ticks)
                left.append(Counter(router.front.migration.causes))
            if not left[-1]:
                first.go.set()
            assert (await client.answer()).is_whole
            return left

    assert run_loop(act()) == [Counter(), Counter(idle=1) if is_out and is_set else Counter()]


def test_a_stream_that_lacks_its_end_alone_gets_it_where_the_engine_falls_silent() -> None:
    async def act() -> tuple[Answer, Counter[str]]:
        silent = FakeEngine(Reciter(NUM_TOKENS + 1, "idle"))
        async with routed(silent, migration_limit=1, stream_idle_timeout_seconds=IDLE_SECONDS) as router:
            client = await RawClient.connect(router.port)
            client.send(asking(CHAT, **USAGE))
            head = await client.reader.readuntil(b"\r\n\r\n")
            await client.reader.readuntil(b'"stop"')
            await idled(router, IDLE_SECONDS + 10)
            rest = await client.reader.readuntil(b"[DONE]")
            assert router.front.migration is not None
            return Answer(200, head, rest), router.front.migration.ended

    answer, ended = run_loop(act())

    assert b'"completion_tokens":%d' % NUM_TOKENS in answer.body
    assert ended == {"finished": 1}


async def silent_before_the_first_token(request: Received, writer: asyncio.StreamWriter) -> None:
    """As where a prompt is long: the engine says who speaks, and that it is alive."""
    role = {"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    told = json.dumps({**role, "prompt_token_ids": PROMPT}).encode()
    writer.write(SSE_HEAD + chunk(b"data: " + told + b"\n\n") + chunk(b": ping\n\n"))
    await asyncio.Event().wait()


WAITED_FOR: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    "before its first token": ([silent_before_the_first_token, Reciter()], {}, {}),
    "nobody who could go on": ([Reciter(4, "idle")], {}, {}),
    "a stream that can't be gone on with": ([Reciter(4, "idle"), Reciter()], {}, {"n": 2}),
    "as often as may be": ([Reciter(4), Reciter(4, "idle"), Reciter()], {}, {}),
    "never, as set": ([Reciter(4, "idle"), Reciter()], {"stream_idle_timeout_seconds": 0}, {}),
}


@pytest.mark.parametrize(("answers", "settings", "fields"), WAITED_FOR.values(), ids=WAITED_FOR)
def test_silence_is_waited_out(answers: list[Any], settings: Any, fields: Any) -> None:
    async def act() -> tuple[int, bool]:
        fresh = [replace(each, go=asyncio.Event()) if isinstance(each, Reciter) else each for each in answers]
        engines = [FakeEngine(each) for each in fresh]
        limits: dict[str, Any] = {"migration_limit": 1, "stream_idle_timeout_seconds": 50} | settings
        silent = [each for each in fresh if isinstance(each, Reciter) and each.ends == "idle"]
        async with routed(*engines, **limits) as router:
            client = await RawClient.connect(router.port)
            client.send(asking(CHAT, **fields))
            await client.reader.readuntil(b"\n\n")
            await eventually(lambda: all(each.is_idle for each in silent))
            await idled(router, 500)
            assert router.front.migration is not None
            left = router.front.migration.causes["idle"]
            for each in silent:
                each.go.set()
                await client.reader.readuntil(b"[DONE]")
            return left, router.replicas.in_flight <= 1

    assert run_loop(act()) == (0, True)


def test_streams_wait_at_a_silent_engine_while_too_many_were_sent_anew_and_none_counts_as_refused() -> None:
    async def act() -> tuple[Counter[str], int, bool]:
        first = Reciter(4, "idle")
        async with routed(
            FakeEngine(first), FakeEngine(Reciter()), migration_limit=1, retry_budget=0.0
        ) as router:
            budget = router.front._proxy.retry_budget
            budget._retries = 1e30  # spent for longer than the test's seconds
            before = budget.num_refused
            client = await RawClient.connect(router.port)
            client.send(asking(CHAT))
            await eventually(lambda: first.is_idle)
            await idled(router, 200)
            assert router.front.migration is not None
            left = Counter(router.front.migration.causes)
            budget._retries = 0.0
            await idled(router, 1)
            return left, budget.num_refused - before, (await client.answer()).is_whole

    assert run_loop(act()) == (Counter(), 0, True)


def test_client_that_reads_slowly_leaves_no_engine() -> None:
    class Flood(Reciter):
        async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
            text = "a" * 2**20
            writer.write(SSE_HEAD)
            for number in range(20):
                told = {"id": "1", "choices": [{"text": text, "token_ids": [1], "prompt_token_ids": PROMPT}]}
                told["choices"][0]["finish_reason"] = "stop" if number == 19 else None  # type: ignore[index]
                writer.write(chunk(b"data: " + json.dumps(told).encode() + b"\n\n"))
                await writer.drain()
            writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async def act() -> tuple[Counter[str], bool]:
        async with routed(FakeEngine(Flood()), FakeEngine(Reciter()), migration_limit=1) as router:
            client = await RawClient.connect(router.port)
            client.send(asking(COMPLETIONS))
            await eventually(lambda: bool(router.connections))
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            (connection,) = router.connections
            await eventually(lambda: connection._writing_paused)
            assert connection.exchange is not None
            connection.exchange.last_tick = router.front.tick  # as if it had been silent just before
            await idled(router, 500)
            connection.resume_writing()  # as soon as it reads again, and before the engine's next byte
            router.front.sweep()
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            answer = await client.answer()
            assert router.front.migration is not None
            return router.front.migration.causes, answer.is_whole

    assert run_loop(act()) == (Counter(), True)


def transcript() -> Transcript:
    """Of a completion that may write 16 tokens."""
    made = plan(COMPLETIONS, b'{"prompt": "hi", "max_tokens": 16}')
    assert not isinstance(made, str)
    return Transcript(made, BodyBudget(1000))


PIECE = b'{"id":"1","choices":[{"text":"a","token_ids":[97],"prompt_token_ids":[1,2]}]}'


@pytest.mark.parametrize("begin", [b"data: ", b"data:"], ids=repr)
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"], ids=repr)
def test_tokens_are_kept_however_an_event_is_written(begin: bytes, end: bytes) -> None:
    kept = transcript()

    shown = kept.read(begin + PIECE + end)
    kept.read(begin + b"[DONE]" + end)
    rest = kept.rest(None)

    assert b"[97]" not in shown
    assert kept.is_ended
    assert isinstance(rest, bytes)
    assert json.loads(rest)["prompt"] == [1, 2, 97]


@pytest.mark.parametrize(
    "event", [b"id: 7\ndata: " + PIECE, b"event: message\ndata: " + PIECE, b"data: 1", b"data: {"], ids=repr
)
def test_stream_of_which_an_event_was_not_understood_is_not_gone_on_with(event: bytes) -> None:
    """A token that was passed over would be written twice."""
    kept = transcript()
    kept.read(b"data: " + PIECE + b"\n\n")

    shown = kept.read(event + b"\n\n")

    assert shown == without_ids(event + b"\n\n")
    assert kept.lost == "malformed"


ODD = [5, -1, 2**32, 10**30, 1.5, "x", {"a": 1}, True, [1.5], [-1], [2**32], ["a"], [None], [[1]]]
TOLD = {
    "choices": "malformed",
    "token_ids": "malformed",
    "prompt_token_ids": "malformed",
    "delta": "malformed",
}


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("name", TOLD)
def test_what_no_engine_should_tell_reaches_the_client_and_is_not_gone_on_with(name: str, odd: Any) -> None:
    """It has the client's stream end nowhere, and breaks nothing."""
    choice: dict[str, Any] = {"text": "a", "token_ids": [97], "prompt_token_ids": [1, 2]}
    told: dict[str, Any] = {"id": "1", "choices": [choice]}
    (told if name == "choices" else choice)[name] = odd
    event = b"data: " + json.dumps(told).encode() + b"\n\n"
    kept = transcript()

    shown = kept.read(event)

    assert shown == without_ids(event)
    assert kept.lost in (TOLD[name], "parsed")


@pytest.mark.parametrize("odd", [5, "x", None, [], {"completion_tokens": "x"}, {"completion_tokens": [1]}])
def test_usage_that_no_engine_should_tell_breaks_nothing(odd: Any) -> None:
    kept = transcript()
    kept.read(b"data: " + PIECE + b"\n\n")
    kept.rest(None)

    shown = kept.read(b"data: " + json.dumps({"choices": [], "usage": odd}).encode() + b"\n\n")

    assert json.loads(shown.removeprefix(b"data: "))["choices"] == []


def test_nobody_is_asked_for_the_rest_of_an_empty_prompt() -> None:
    """As where an engine dies inside its first piece."""
    kept = transcript()
    kept.read(b": ping\n\n")

    assert kept.rest(1000) == "no_token_ids"


def test_rest_of_a_tenants_answer_has_its_salt_and_its_tokens_count_once(tmp_path: Path) -> None:
    folder = AccessFolder(tmp_path, "access: {default: {tokensPerMinute: 100000}}\n")
    first, then = Reciter(4, piece_tokens=3), Reciter()
    engines = FakeEngine(first), FakeEngine(then)

    async def act() -> tuple[Answer, str]:
        async with routed(*engines, migration_limit=1, **folder.settings) as router:
            answer = await ask(router, post(CHAT, body_of(CHAT, **USAGE), bearer(ACME)))
            client = await RawClient.connect(router.metrics_port)
            client.send(get(b"/metrics"))
            return answer, (await client.answer()).body.decode()

    answer, metrics = run_loop(act())

    assert answer.is_whole
    assert then.paths[-1] == "/v1/completions"
    assert [body["cache_salt"] for body in (*first.asked, then.asked[-1])] == [salt_of("acme")] * 2
    assert ACME.encode() not in b"".join(one.head for engine in engines for one in engine.received)
    assert f'hypertier_router_tenant_tokens_total{{tenant="acme"}} {len(PROMPT) + NUM_TOKENS}.0' in metrics
