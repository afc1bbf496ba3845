"""Responses are found again by their id, whichever replica answered first."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

import pytest
from fakes_engine import (
    SSE_HEAD,
    Answer,
    FakeEngine,
    RawClient,
    Received,
    chunk,
    get,
    json_answer,
    post,
    run_loop,
)
from fakes_router import healthy_replicas, routed

from hypertier.router.api.responses import MAX_ASKED, MAX_KNOWN, ResponseHolders, response_named
from hypertier.router.http.heads import Request

RESPONSES = b"/v1/responses"


class Keeper:
    """Answers as vLLM with its store does: what it wrote it gives again, of others it knows nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kept: dict[str, Any] = {}

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        target = request.line.decode().split(" ")[1]
        _, _, _, *rest = target.partition("?")[0].split("/")
        if rest:
            self._give(writer, unquote(rest[0]))
        else:
            self._create(writer, json.loads(request.body))

    def _create(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        previous = body.get("previous_response_id")
        if previous is not None and previous not in self.kept:
            self._miss(writer, previous)
            return
        name = f"resp_{self.name}{len(self.kept)}"
        self.kept[name] = {"id": name, "by": self.name, "previous": previous}
        if body.get("stream"):
            event = {"response": {"id": name}, "type": "response.created"}
            writer.write(SSE_HEAD + chunk(b"event: response.created\ndata: " + json.dumps(event).encode()))
            writer.write(b"0\r\n\r\n")
        else:
            writer.write(json_answer(json.dumps(self.kept[name]).encode()))

    def _give(self, writer: asyncio.StreamWriter, name: str) -> None:
        if name in self.kept:
            writer.write(json_answer(json.dumps(self.kept[name]).encode()))
        else:
            self._miss(writer, name)

    def _miss(self, writer: asyncio.StreamWriter, name: str) -> None:
        error = {"message": f"Response with id '{name}' not found.", "code": 404, "param": "response_id"}
        writer.write(json_answer(json.dumps({"error": error}).encode(), b"404 Not Found"))


def create(previous: str | None = None, **fields: Any) -> bytes:
    named = {"previous_response_id": previous} if previous is not None else {}
    return post(RESPONSES, json.dumps({"model": "m", "input": "hi", **named, **fields}).encode())


def keepers(count: int) -> list[FakeEngine]:
    return [FakeEngine(Keeper(f"e{number}x")) for number in range(count)]


async def ask(port: int, data: bytes) -> Answer:
    client = await RawClient.connect(port)
    client.send(data)
    answer = await client.answer()
    client.close()
    return answer


def asked(engines: list[FakeEngine]) -> int:
    return sum(len(engine.received) for engine in engines)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("strategy", ["roundrobin", "prefixaware", "session"])
def test_response_is_found_at_once_by_the_router_that_heard_it(strategy: str, stream: bool) -> None:
    async def act() -> tuple[list[Any], int]:
        engines = keepers(4)
        async with routed(*engines, strategy=strategy) as router:
            for _ in range(4):
                await ask(router.port, create(stream=stream))
            names = [name for engine in engines for name in engine.answer.kept]  # type: ignore[union-attr]
            found = [await ask(router.port, get(RESPONSES + b"/" + name.encode())) for name in names]
            return [(answer.status, json.loads(answer.body)["id"]) for answer in found], asked(engines)

    found, num_asked = run_loop(act())

    assert [status for status, _ in found] == [200] * 4
    assert len({name for _, name in found}) == 4
    assert num_asked == 8


PATHS = {
    "get": lambda name: get(RESPONSES + b"/" + name),
    "get-with-query": lambda name: get(RESPONSES + b"/" + name + b"?starting_after=1"),
    "escaped": lambda name: get(RESPONSES + b"/" + name.replace(b"_", b"%5F")),
    "cancel": lambda name: post(RESPONSES + b"/" + name + b"/cancel", b""),
    "delete": lambda name: get(RESPONSES + b"/" + name).replace(b"GET", b"DELETE", 1),
    "items": lambda name: get(RESPONSES + b"/" + name + b"/input_items"),
    "previous": lambda name: create(name.decode()),
    "previous-streamed": lambda name: create(name.decode(), stream=True),
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_response_that_another_router_heard_is_found_and_then_known(path: Any) -> None:
    faults: list[str] = []

    async def act() -> tuple[list[int], list[int]]:
        engines = keepers(5)
        async with routed(*engines) as other:
            while not engines[3].answer.kept:  # type: ignore[union-attr]
                await ask(other.port, create())
        async with routed(*engines) as router:
            router.front._proxy.decisions.tell(lambda decision: faults.append(decision.fault))
            before = asked(engines)
            first = await ask(router.port, path(b"resp_e3x0"))
            between = asked(engines)
            again = await ask(router.port, path(b"resp_e3x0"))
            return [first.status, again.status], [between - before, asked(engines) - between]

    statuses, nums_asked = run_loop(act())

    assert statuses == [200, 200]
    assert nums_asked[0] <= 5
    assert nums_asked[1] == 1
    assert faults == ["2xx", "2xx"]  # who has it not did not fail


def test_response_that_nobody_has_is_the_engines_own_404_and_harms_none() -> None:
    async def act() -> tuple[Answer, int, int, dict[str, int]]:
        engines = keepers(3)
        async with routed(*engines, retries=0) as router:
            for _ in range(20):
                answer = await ask(router.port, get(RESPONSES + b"/resp_none"))
            return answer, asked(engines), len(router.replicas.healthy), dict(router.metrics.counts.retries)

    answer, num_asked, num_healthy, retries = run_loop(act())

    assert answer.status == 404
    assert json.loads(answer.body)["error"]["param"] == "response_id"
    assert (num_asked, num_healthy) == (60, 3)
    assert retries == {"404": 40}


def test_who_could_not_answer_and_who_has_not_the_response_are_told_apart() -> None:
    async def act() -> tuple[int, str]:
        one, other = keepers(2)
        async with routed(one, other, strategy="roundrobin") as router:
            await other.kill()
            client = await RawClient.connect(router.port)
            answers = []
            for _ in range(2):  # in turns: one of them has the living replica asked first
                client.send(get(RESPONSES + b"/resp_x"))
                answers.append(await client.answer())
            answer = next(a for a in answers if a.status == 502)
            return answer.status, json.loads(answer.body)["error"]["message"]

    status, message = run_loop(act())

    assert status == 502
    assert "1 answered 404" in message
    assert "1 could not be connected to" in message


def test_404_of_what_names_no_response_is_asked_of_one_alone() -> None:
    async def act() -> tuple[list[int], int]:
        engines = keepers(3)
        async with routed(*engines) as router:
            statuses = [
                (await ask(router.port, get(b"/v1/files/a"))).status,
                (await ask(router.port, get(b"/v1/responsesX/a"))).status,
            ]
            return statuses, asked(engines)

    assert run_loop(act()) == ([404, 404], 2)


def test_what_is_made_up_has_not_all_of_a_large_fleet_asked() -> None:
    async def act() -> tuple[int, int]:
        engines = keepers(MAX_ASKED + 6)
        async with routed(*engines) as router:
            return (await ask(router.port, get(RESPONSES + b"/resp_none"))).status, asked(engines)

    assert run_loop(act()) == (404, MAX_ASKED)


def test_holder_that_is_gone_is_a_404_of_the_others() -> None:
    async def act() -> int:
        engines = keepers(2)
        async with routed(*engines) as router:
            name = json.loads((await ask(router.port, create())).body)["id"]
            holder = next(engine for engine in engines if engine.received)
            await holder.kill()
            return (await ask(router.port, get(RESPONSES + b"/" + name.encode()))).status

    assert run_loop(act()) == 404


def test_only_so_many_are_known_and_the_latest_stay() -> None:
    holders, (_, (replica,)) = ResponseHolders(), healthy_replicas(1)

    for number in range(MAX_KNOWN + 10):
        holders.learn(b"%d" % number, replica)

    assert holders.holder(b"9") is None
    assert holders.holder(b"%d" % (MAX_KNOWN + 9)) is replica


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"previous_response_id": "resp_a"}', b"resp_a"),
        (b'{"input": "x", "tools": [' + b"1," * 9000 + b'1], "previous_response_id":"resp_a"}', b"resp_a"),
        (b'{"previous_response_id": "resp_a", "tools": [' + b"1," * 9000 + b"1]}", b"resp_a"),
        (b'{"previous_response_id": "resp_\\u0061"}', b"resp_a"),
        (b'{"input": "\\"previous_response_id\\": \\"resp_a\\""}', None),
        (b'{"metadata": {"previous_response_id": "resp_a"}}', None),
        (b'{"previous_response_id": null}', None),
        (b'{"previous_response_id": 7}', None),
        (b'{"previous_response_id": "resp_a"', None),
        (b"{}", None),
    ],
    ids=["first", "last", "midst", "escaped", "quoted", "nested", "null", "number", "cut", "none"],
)
def test_response_gone_on_from_is_the_bodys_own_field(body: bytes, expected: bytes | None) -> None:
    assert response_named(Request(b"POST", RESPONSES, body, has_body=True)) == expected


def test_a_path_to_post_to_is_no_id() -> None:
    assert response_named(Request(b"POST", RESPONSES + b"/render", b"{}", has_body=True)) is None
    assert response_named(Request(b"GET", RESPONSES)) is None
