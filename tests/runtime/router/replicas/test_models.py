"""Which replica gets a request for which model, on every path that names one."""

from __future__ import annotations

import json

import pytest
from fakes_engine import Answer, FakeEngine, RawClient, get, post, run_loop
from fakes_router import healthy_replicas, routed

from hypertier.errors import ConfigError
from hypertier.router.api.openai import InferenceRequest
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.heads import Request
from hypertier.router.http.plain import Head, head_of, read_request
from hypertier.router.picking import Picker
from hypertier.router.replicas.models import MAX_MODELS, Models, form_model
from hypertier.router.replicas.replicas import Replica, ReplicaSet
from hypertier.router.settings import RouterSettings
from hypertier.router.strategies.roundrobin import RoundRobin

CHAT = b"/v1/chat/completions"
FORM = b"content-type: multipart/form-data; boundary=b"


def _head(data: bytes) -> Head:
    plain = read_request(data, 8192, 128)
    assert plain is not None
    return head_of(data, plain)


FORM_HEAD = _head(post(b"/v1/audio/translations", b"", FORM))


def body_for(model: str) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "Hi"}]}).encode()


def form_for(model: str) -> bytes:
    return (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n\x00\xffRIFF\r\n"
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n' + model.encode() + b"\r\n--b--\r\n"
    )


JSON_PATHS = (
    b"/v1/chat/completions",
    b"/v1/completions",
    b"/v1/responses",
    b"/v1/messages",
    b"/v1/messages/count_tokens",
    b"/v1/embeddings",
    b"/v1/score",
    b"/score",
    b"/v1/rerank",
    b"/rerank",
    b"/v2/rerank",
    b"/pooling",
    b"/classify",
    b"/tokenize",
    b"/detokenize",
    b"/v1/audio/speech",
    b"/v1/images/generations",
    b"/v1/some/path/of/tomorrow",
)
FORM_PATHS = (b"/v1/audio/transcriptions", b"/v1/audio/translations", b"/v1/images/edits")


def test_who_serves_another_model_is_told_of_and_adapters_come_and_go() -> None:
    replicas, (replica,) = healthy_replicas(1)
    models = Models(replicas)
    changed: list[Replica] = []
    models.watch(changed.append)
    adapter = {"id": "adapter", "parent": "m"}

    assert models.base_of(replica) is None
    for entries in (
        [adapter, {"id": "m", "root": "a"}],
        [{"id": "m", "root": "a"}],
        [{"id": "m", "root": "b"}],
    ):
        models.learn(replica, entries)

    assert models.base_of(replica) == "m"
    assert changed == [replica]


def ask(
    data: bytes, *models: tuple[str, ...], times: int = 4, **settings: object
) -> tuple[list[Answer], list[FakeEngine]]:
    """Send it a few times through a router before an engine for each tuple of models."""

    async def act() -> tuple[list[Answer], list[FakeEngine]]:
        engines = [FakeEngine(models=names) for names in models]
        async with routed(*engines, **settings) as router:
            client = await RawClient.connect(router.port)
            answers = []
            for _ in range(times):
                client.send(data)
                answers.append(await client.answer())
            return answers, engines

    return run_loop(act())


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(json.loads('{"id": "\\ud800"}'), id="half-a-surrogate-pair"),
        pytest.param({"id": 1}, id="number"),
        pytest.param({}, id="none"),
        pytest.param("m", id="text"),
    ],
)
def test_what_has_no_name_that_clients_could_write_is_passed_over(entry: object) -> None:
    replicas, (replica,) = healthy_replicas(1)
    models = Models(replicas)

    models.learn(replica, [entry, {"id": "m"}])  # type: ignore[list-item]

    assert models.servers(b"m", [replica]) == [replica]
    assert models.refusal(b"other") is not None


class Fleet:
    """Replicas that were asked what they serve, each told what it said: None is nothing."""

    def __init__(self, *told: tuple[str, ...] | None) -> None:
        self.replicas = ReplicaSet()
        self.models = Models(self.replicas)
        self.picker = Picker(RoundRobin(), self.replicas, models=self.models)
        for names in told:
            self.say(self.come(), names)

    def come(self) -> Replica:
        """One more, which is being asked."""
        addresses = [replica.address for replica in self.replicas.by_url.values()]
        self.replicas.replace([*addresses, Address(f"10.0.0.{len(addresses) + 1}", 8000)])
        replica = list(self.replicas.by_url.values())[-1]
        self.replicas.admit(replica)
        self.models.expect(replica)
        return replica

    def say(self, replica: Replica, names: tuple[str, ...] | None) -> None:
        """What it serves."""
        if names is not None:
            self.models.learn(replica, [{"id": name} for name in names])
        self.models.asked(replica)

    def leave(self, replica: Replica) -> None:
        """It is no longer listed."""
        self.replicas.replace(one.address for one in self.replicas.by_url.values() if one is not replica)

    def servers(self, model: str) -> list[int]:
        """The numbers of the replicas that a request for this model may go to."""
        every = list(self.replicas.by_url.values())
        found = self.picker.candidates(InferenceRequest(model=model.encode()))
        return [every.index(replica) for replica in found]


def test_one_that_is_still_being_asked_for_its_models_gets_no_request_for_any() -> None:
    fleet = Fleet(("a",), ("a",))
    new = fleet.come()

    before = fleet.servers("a"), fleet.servers("b")
    fleet.say(new, ("b",))

    assert before == ([0, 1], [])
    assert (fleet.servers("a"), fleet.servers("b")) == ([0, 1], [2])


def test_one_that_does_not_say_what_it_serves_is_like_the_others_where_those_are_alike() -> None:
    alike, mixed = Fleet(("a",), None), Fleet(("a",), ("b",), None)

    assert (alike.servers("a"), alike.servers("c")) == ([0, 1], [1])
    assert (mixed.servers("a"), mixed.servers("b"), mixed.servers("c")) == ([0], [1], [2])


def test_the_first_of_an_endpoint_of_one_model_is_picked_before_it_said_anything() -> None:
    fleet = Fleet(("a",))
    fleet.leave(*fleet.replicas.healthy)
    fleet.come()

    assert fleet.servers("a") == [0]


def test_the_first_of_several_models_is_not() -> None:
    fleet = Fleet(("a",), ("b",))
    for replica in fleet.replicas.healthy:
        fleet.leave(replica)
    new = fleet.come()

    before = fleet.servers("b")
    fleet.say(new, ("a",))

    assert (before, fleet.servers("a"), fleet.servers("b")) == ([], [0], [])


def test_replicas_that_all_serve_the_same_stay_the_same_sequence() -> None:
    """By which strategies know that all of them may be picked."""
    fleet = Fleet(("a",), ("a",), None)

    assert fleet.picker.candidates(InferenceRequest(model=b"a")) is fleet.replicas.healthy


@pytest.mark.parametrize("path", JSON_PATHS, ids=bytes.decode)
def test_request_reaches_an_engine_that_serves_its_model_unchanged(path: bytes) -> None:
    data = json.dumps({"input": "x", "model": "b", "vendor_field": {"x": [1]}}).encode()

    answers, (one, other) = ask(post(path, data), ("a",), ("b",))

    assert {answer.status for answer in answers} == {200}
    assert one.received == []
    assert [(request.line, request.body) for request in other.received] == [
        (b"POST %s HTTP/1.1" % path, data)
    ] * 4


@pytest.mark.parametrize("path", FORM_PATHS, ids=bytes.decode)
def test_form_reaches_an_engine_that_serves_its_model_unchanged(path: bytes) -> None:
    answers, (one, other) = ask(post(path, form_for("b"), FORM), ("a",), ("b",))

    assert {answer.status for answer in answers} == {200}
    assert one.received == []
    assert {request.body for request in other.received} == {form_for("b")}


@pytest.mark.parametrize(
    "data",
    [post(CHAT, body_for("c")), post(b"/v1/audio/translations", form_for("c"), FORM), get(b"/v1/models/c")],
    ids=["json", "form", "path"],
)
def test_model_that_nobody_serves_is_not_found_in_openais_shape(data: bytes) -> None:
    answers, engines = ask(data, ("a",), ("b",))

    assert {answer.status for answer in answers} == {404}
    error = json.loads(answers[0].body)["error"]
    assert error == {
        "message": "The model `c` does not exist",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    assert [engine.received for engine in engines] == [[], []]


def test_one_model_alone_is_not_found_either() -> None:
    answers, _ = ask(post(CHAT, body_for("c")), ("a",), ("a",))

    assert {answer.status for answer in answers} == {404}


def test_replica_that_does_not_say_is_asked_itself() -> None:
    answers, (one, silent) = ask(post(CHAT, body_for("c")), ("a",), ())

    assert {answer.status for answer in answers} == {200}
    assert len(one.received) + len(silent.received) == 4


def test_a_model_is_found_among_ten_thousand() -> None:
    names = tuple(f"m{number}" for number in range(10_000))

    answers, (_, engine) = ask(post(CHAT, body_for("m9999")), ("other",), names)
    unknown, _ = ask(post(CHAT, body_for("m10000")), ("other",), names, times=1)

    assert {answer.status for answer in answers} == {200}
    assert len(engine.received) == 4
    assert unknown[0].status == 404


def test_a_model_beyond_what_is_kept_of_a_list_is_asked_for_there() -> None:
    replicas, (long, short) = healthy_replicas(2)
    models = Models(replicas)

    models.learn(long, [{"id": f"m{number}"} for number in range(MAX_MODELS + 1)])
    models.learn(short, [{"id": "a"}])

    assert models.refusal(b"m%d" % MAX_MODELS) is None
    assert models.servers(b"m%d" % MAX_MODELS, [long, short]) == [long]
    assert models.servers(b"a", [long, short]) == [short]
    models.learn(long, [{"id": "m0"}])
    assert models.refusal(b"m%d" % MAX_MODELS) is not None


@pytest.mark.parametrize(
    "body",
    [
        b"name=model\r\n" * 6000,
        b'name="model"\r\na\r\n' * 4000,
        (b"name=model" * 600 + b"\r\n") * 11,
        b"name=model" + b"x" * 65_000,
    ],
    ids=["lines", "headers", "long-lines", "one-line"],
)
def test_form_that_names_its_model_again_and_again_is_read_in_no_time(body: bytes) -> None:
    """By a pattern that tries all of it anew from each name: 20 s for 70 KB, while nobody else is served."""
    assert form_model(Request(b"POST", b"/v1/audio/translations", body, head=FORM_HEAD)) is None


@pytest.mark.parametrize("further", [b"", b"Content-Type: text/plain\r\n", b"a: b\r\nc: d\r\n"])
def test_form_may_say_more_of_its_model(further: bytes) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="model"\r\n' + further + b"\r\nm\r\n--b--\r\n"

    span = form_model(Request(b"POST", b"/v1/audio/translations", body, head=FORM_HEAD))

    assert span is not None
    assert body[slice(*span)] == b"m"


def test_list_is_written_once_for_as_long_as_nothing_changes() -> None:
    replicas, (replica,) = healthy_replicas(1)
    models = Models(replicas, {"x": "a"})
    models.learn(replica, [{"id": "a"}])

    first = models.answer()

    assert models.answer() is first
    models.split = {b"s": (b"a",)}
    assert b'"s"' in models.answer()
    models.learn(replica, [{"id": "a"}, {"id": "b"}])
    assert b'"b"' in models.answer()


@pytest.mark.parametrize("path", [b"/v1/models/org/m", b"/v1/models/org%2Fm", b"/v1/models/org%2fm?x=1"])
@pytest.mark.parametrize("num", [1, 3])
def test_model_is_told_by_its_path_however_its_slash_is_spelled(path: bytes, num: int) -> None:
    """OpenAI's `GET /v1/models/{model}`, for which vLLM has no path."""
    answers, engines = ask(get(path), *[("org/m",)] * num, ("b",), times=1)

    assert answers[0].status == 200
    assert (json.loads(answers[0].body)["id"], json.loads(answers[0].body)["object"]) == ("org/m", "model")
    assert not any(engine.received for engine in engines)


@pytest.mark.parametrize("path", [b"/v1/models", b"/v1/models/a", b"/health"])
def test_answers_of_the_routers_own_carry_the_id_of_their_request(path: bytes) -> None:
    (mine, *_), _ = ask(get(path, b"x-request-id: mine"), ("a",), ("b",))
    made, engines = ask(get(path), ("a",), ("b",))

    ids = [answer.header(b"x-request-id") for answer in made]
    assert mine.header(b"x-request-id") == b"mine"
    assert None not in ids
    assert len(set(ids)) == len(ids) > 1
    assert not any(engine.received for engine in engines)


@pytest.mark.parametrize("method", [b"DELETE", b"PUT", b"PATCH", b"POST"])
def test_model_is_read_and_nothing_else(method: bytes) -> None:
    answers, (engine,) = ask(method + b" /v1/models/a HTTP/1.1\r\nHost: t\r\n\r\n", ("a",), times=2)

    assert [answer.status for answer in answers] == [405, 405]
    assert answers[0].header(b"allow") == b"GET, HEAD"
    assert engine.received == []


def test_adapter_goes_where_it_is_loaded_and_its_base_anywhere() -> None:
    _, adapted = ask(post(CHAT, body_for("lora")), ("base",), ("base", "lora"))
    _, based = ask(post(CHAT, body_for("base")), ("base",), ("base", "lora"))

    assert [len(engine.received) for engine in adapted] == [0, 4]
    assert [len(engine.received) for engine in based] == [2, 2]


def test_list_of_models_is_that_of_all_replicas() -> None:
    answers, engines = ask(get(b"/v1/models"), ("a", "x"), ("b", "x"))

    assert [model["id"] for model in json.loads(answers[0].body)["data"]] == ["a", "x", "b"]
    assert [engine.received for engine in engines] == [[], []]


def test_list_of_equal_replicas_is_an_engines_own() -> None:
    answers, engines = ask(get(b"/v1/models"), ("a",), ("a",))

    assert {answer.status for answer in answers} == {200}
    assert sum(len(engine.received) for engine in engines) == 4


def test_model_whose_only_replica_is_down_is_unavailable_and_not_unknown() -> None:
    async def act() -> int:
        one, other = FakeEngine(models=("a",)), FakeEngine(models=("b",))
        async with routed(one, other) as router:
            await other.kill()
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, body_for("b")))
            return (await client.answer()).status

    assert run_loop(act()) in (502, 503)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (post(CHAT, body_for("gpt-4o")), body_for("a")),
        (post(b"/v1/audio/translations", form_for("gpt-4o"), FORM), form_for("a")),
        (post(CHAT, body_for("a")), body_for("a")),
    ],
    ids=["json", "form", "no-alias"],
)
def test_alias_is_written_as_the_models_name_and_nothing_else_changes(data: bytes, expected: bytes) -> None:
    answers, (_, engine) = ask(data, ("b",), ("a",), model_alias=("gpt-4o=a",))

    assert {answer.status for answer in answers} == {200}
    assert {request.body for request in engine.received} == {expected}
    lengths = {request.header(b"content-length") for request in engine.received}
    assert lengths == {b"%d" % len(expected)}


def test_alias_is_listed_and_found_by_its_path() -> None:
    listed, _ = ask(get(b"/v1/models"), ("a",), model_alias=("gpt-4o=a",))
    told, (engine,) = ask(get(b"/v1/models/gpt-4o"), ("a",), model_alias=("gpt-4o=a",))

    assert [model["id"] for model in json.loads(listed[0].body)["data"]] == ["a", "gpt-4o"]
    assert json.loads(told[0].body) == json.loads(listed[0].body)["data"][1]
    assert engine.received == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/v1/models/gpt-4o?x", b"/v1/models/org/a:b+c?x"),
        (b"/v1/models/gpt-4o?x=1&y=?", b"/v1/models/org/a:b+c?x=1&y=?"),
        (b"/v1/models/gpt%2D4o?", b"/v1/models/org/a:b+c?"),
    ],
)
def test_alias_in_a_path_leaves_the_query_as_it_is(target: bytes, expected: bytes) -> None:
    _, (engine,) = ask(get(target), (), model_alias=("gpt-4o=org/a:b+c",), times=1)

    assert engine.received[0].line == b"GET %b HTTP/1.1" % expected


def test_nothing_is_held_of_bodies_whose_alias_was_written() -> None:
    async def act() -> int:
        async with routed(FakeEngine(models=("a",)), model_alias=("a-much-longer-name=a", "b=a")) as router:
            client = await RawClient.connect(router.port)
            for name in ("a-much-longer-name", "b", "a"):
                client.send(post(CHAT, body_for(name)))
                await client.answer()
            return router.budget.held_bytes

    assert run_loop(act()) == 0


@pytest.mark.parametrize("text", ["a", "=a", "a=", "a=a", "a=b c"])
def test_alias_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RouterSettings(replicas=("http://a:1",), model_alias=(text,))

    assert caught.value.setting == "--model-alias"
