from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fakes_simulated import simulated_engine

from hypertier.errors import LabError
from hypertier.lab.client import ask, post
from hypertier.lab.metrics import read_counts

LONG = "What is a block? " * 40


@pytest.fixture
def url() -> Iterator[str]:
    with simulated_engine() as address:
        yield address


def call(url: str, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request(method, path, body)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, json.loads(content) if content else None


def test_a_streamed_answer_is_whole_and_counted(url: str) -> None:
    before = read_counts(url)

    answer = ask(url, "m", LONG, max_tokens=5)

    counts = read_counts(url).since(before)
    assert answer.text.startswith("(simulated) ")
    assert len(answer.text.split()) == 5
    assert (answer.cached_tokens, counts.hit_source, counts.num_answers) == (0, "none", 1)


def test_a_repeated_prompt_is_counted_by_where_it_came_from(url: str) -> None:
    first = ask(url, "m", LONG)
    before = read_counts(url)
    second = ask(url, "m", LONG)
    on_the_gpu = read_counts(url).since(before)
    post(f"{url}/reset_prefix_cache")
    before = read_counts(url)

    third = ask(url, "m", LONG)

    in_l1 = read_counts(url).since(before)
    assert first.text == second.text == third.text
    assert (on_the_gpu.hit_source, in_l1.hit_source) == ("GPU", "L1")
    assert on_the_gpu.num_cached_tokens == in_l1.num_cached_tokens == second.cached_tokens > 0


def test_resetting_l1_too_forgets_everything(url: str) -> None:
    ask(url, "m", LONG)
    post(f"{url}/reset_prefix_cache?reset_external=true")

    assert ask(url, "m", LONG).cached_tokens == 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_an_answer_in_one_piece_has_the_words_of_a_streamed_one(url: str, path: str) -> None:
    body = {"messages": [{"role": "user", "content": LONG}], "prompt": LONG, "max_tokens": 7}

    status, answer = call(url, "POST", path, json.dumps(body).encode())

    choice = answer["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    assert (status, len(text.split()), answer["usage"]["completion_tokens"]) == (200, 7, 7)
    assert answer["system_fingerprint"] == "simulated"


def test_the_model_has_the_served_name(url: str) -> None:
    status, answer = call(url, "GET", "/v1/models")

    assert (status, [model["id"] for model in answer["data"]]) == (200, ["m"])


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        pytest.param("/v1/chat/completions", b"{", 400, "the body is '{'; expected a JSON object", id="json"),
        pytest.param("/v1/chat/completions", b"{}", 400, "messages is not set; expected", id="no messages"),
        pytest.param("/v1/chat/completions", b'{"messages": [1]}', 400, "messages is [1]", id="messages"),
        pytest.param(
            "/v1/completions", b'{"prompt": [-1]}', 400, "prompt is [-1]; expected text", id="prompt"
        ),
        pytest.param(
            "/v1/completions", b'{"prompt": "a", "max_tokens": -1}', 400, "max_tokens is -1", id="max"
        ),
        pytest.param(
            "/v1/completions", b'{"prompt": "a", "max_tokens": 9000}', 400, "9000 tokens", id="long"
        ),
        pytest.param("/v1/embeddings", b"{}", 404, "there is no /v1/embeddings", id="path"),
    ],
)
def test_what_cannot_be_answered_is_named(
    url: str, path: str, body: bytes, status: int, message: str
) -> None:
    got, answer = call(url, "POST", path, body)

    assert got == status
    assert message in answer["error"]["message"]


def test_the_client_says_what_an_engine_refused(url: str) -> None:
    with pytest.raises(LabError, match=r"answered 400: .*8192 tokens or fewer"):
        ask(url, "m", "x" * 9000)
