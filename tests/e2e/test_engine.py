"""Real vLLM, real Valkey and the router, started from what the charts render."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from click.testing import CliRunner

from hypertier.cli.cache import command as cache
from hypertier.lab.client import ask, post, request_body
from hypertier.lab.lab import Lab
from hypertier.lab.measuring import Measurement, measure, wait_until_stored
from hypertier.lab.metrics import read_counts, samples
from hypertier.lab.model import ModelShape

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

DEADLINE_SECONDS = 600.0
NUM_STREAMS = 50
BLOCK_TOKENS = 128
_numbers = itertools.count()


def new_prompt(num_characters: int) -> str:
    """A prompt that no earlier one begins like."""
    return f"{next(_numbers)}. {'A tier keeps blocks; a lookup is a hit or a miss. ' * 200}"[:num_characters]


def send(lab: Lab, prompt: str) -> Measurement:
    """Through the router."""
    return measure(lab.plan.router_url, lab.plan.replica_urls, lab.plan.model_name, prompt)


def store(lab: Lab, prompt: str) -> Measurement:
    """Have a prompt computed, and wait until L2 holds all of its full blocks."""
    urls = lab.plan.replica_urls
    before = [read_counts(url) for url in urls]
    measured = send(lab, prompt)
    num_tokens = (measured.answer.prompt_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    wait_until_stored(urls, before, num_tokens * ModelShape().kv_bytes_per_token)
    return measured


def empty_caches(lab: Lab, *, l1: bool) -> None:
    """Empty every engine's own cache, and L1 with it."""
    for url in lab.plan.replica_urls:
        assert post(f"{url}/reset_prefix_cache{'?reset_external=true' if l1 else ''}") == 200


def router_count(lab: Lab, name: str) -> float:
    """The sum of one of the router's counters."""
    port = lab.plan.router.argv[lab.plan.router.argv.index("--metrics-port") + 1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        return sum(value for key, _, value in samples(response.read().decode()) if key == name)


@dataclass
class Stream:
    """A streaming request in a thread of its own. It has begun when the first event of its answer is here."""

    url: str
    body: bytes
    begun: threading.Event = field(default_factory=threading.Event)
    over: bool = False
    error: str = ""
    thread: threading.Thread | None = None

    def start(self) -> Stream:
        """Send the request."""
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        return self

    def join(self) -> Stream:
        """Wait for the end."""
        assert self.thread is not None
        self.thread.join(DEADLINE_SECONDS)
        assert not self.thread.is_alive()
        return self

    def _run(self) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=DEADLINE_SECONDS)
        try:
            headers = {"content-type": "application/json"}
            connection.request("POST", "/v1/chat/completions", self.body, headers)
            response = connection.getresponse()
            if response.status != 200:
                self.error = f"{response.status}: {response.read(200).decode(errors='replace')}"
                return
            if response.readline():
                self.begun.set()
            self.over = b"data: [DONE]" in response.read()
        except (OSError, http.client.HTTPException) as error:
            self.error = repr(error)
        finally:
            connection.close()


def load(lab: Lab, count: int, max_tokens: int = 32) -> list[Stream]:
    """Start streams with prompts of their own."""
    bodies = [request_body(lab.plan.model_name, new_prompt(300), max_tokens) for _ in range(count)]
    return [Stream(lab.plan.router_url, body).start() for body in bodies]


def test_a_hit_in_any_tier_gives_the_tokens_that_a_miss_gave(lab: Lab) -> None:
    prompt = new_prompt(3000)

    computed = store(lab, prompt)
    from_gpu = send(lab, prompt)
    empty_caches(lab, l1=False)
    from_l1 = send(lab, prompt)
    empty_caches(lab, l1=True)
    from_l2 = send(lab, prompt)

    measured = [computed, from_gpu, from_l1, from_l2]
    assert [each.hit_source for each in measured] == ["none", "GPU", "L1", "L2"]
    assert [each.cached_tokens for each in measured] == [each.answer.cached_tokens for each in measured]
    assert len({each.answer.text for each in measured}) == 1
    assert computed.answer.text


def test_an_engine_uses_what_another_computed(lab: Lab) -> None:
    prompt = new_prompt(1000)
    computed = store(lab, prompt)
    other = next(url for url in lab.plan.replica_urls if not url.endswith(computed.answer.served_by))
    before = read_counts(other)

    answer = ask(other, lab.plan.model_name, prompt)

    counts = read_counts(other).since(before)
    assert (counts.hit_source, answer.text) == ("L2", computed.answer.text)


@pytest.mark.parametrize("salt", ["", "a5a5a5a5a5a5a5a5.known-to-routers"], ids=["unsalted", "salted"])
def test_explain_foretells_how_many_tokens_an_engine_finds_in_l2(lab: Lab, tmp_path: Path, salt: str) -> None:
    system, user = new_prompt(700), "What ends in a hit?"
    chat = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    body = tmp_path / "request.json"
    body.write_text(json.dumps({"model": lab.plan.model_name, "messages": chat, "cache_salt": salt or None}))
    one, other = lab.plan.replica_urls
    before = explain(lab, body)
    answered = complete(lab, one, chat, salt)

    wait_until_explained(lab, body, answered["prompt_tokens"] // BLOCK_TOKENS * BLOCK_TOKENS)
    foretold = explain(lab, body)
    other_salt = explain(lab, body, "--salt", "another") if not salt else {"held_tokens": 0}
    found = complete(lab, other, chat, salt)

    assert (before["held_tokens"], other_salt["held_tokens"]) == (0, 0)
    assert found["prompt_tokens_details"]["cached_tokens"] == foretold["held_tokens"] > 0


def explain(lab: Lab, body: Path, *options: str) -> dict[str, Any]:
    """What `hypertier cache explain` says of a request, about the one namespace, if there is any."""
    arguments = [
        "explain",
        "--url",
        f"redis://127.0.0.1:{lab.plan.l2_port}",
        "--prompt",
        str(body),
        "--format",
        "json",
    ]
    done = CliRunner(env=lab.plan.engines[0].env).invoke(
        cache, [*arguments, "--endpoint", lab.plan.replica_urls[0], *options]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)["namespaces"]
    return dict(told[0]) if told else {"held_tokens": 0}


def wait_until_explained(lab: Lab, body: Path, num_tokens: int) -> None:
    """Stores follow the answer."""
    deadline = time.monotonic() + 60
    while explain(lab, body)["held_tokens"] < num_tokens:
        assert time.monotonic() < deadline, explain(lab, body)


def complete(lab: Lab, url: str, chat: list[dict[str, str]], salt: str) -> dict[str, Any]:
    """The usage of one answer of an engine."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=DEADLINE_SECONDS) as client:
        answer = client.chat.completions.create(
            model=lab.plan.model_name,
            messages=chat,  # type: ignore[arg-type]
            max_tokens=4,
            extra_body={"cache_salt": salt} if salt else {},
        )
    assert answer.usage is not None
    return answer.usage.model_dump()


def test_openais_own_client_is_served(lab: Lab) -> None:
    client = openai.OpenAI(base_url=f"{lab.plan.router_url}/v1", api_key="none", timeout=DEADLINE_SECONDS)
    model = lab.plan.model_name

    served = [each.id for each in client.models.list()]
    whole = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Hello"}], max_tokens=8, temperature=0
    )
    events = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Hello"}],
        max_tokens=8,
        temperature=0,
        stream=True,
    )
    pieces = [choice.delta.content or "" for event in events for choice in event.choices]
    client.close()

    assert served == [model]
    assert "".join(pieces) == whole.choices[0].message.content
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8


def test_valkey_stopped_under_load_fails_no_request(lab: Lab) -> None:
    prompt = new_prompt(1000)
    computed = store(lab, prompt)
    empty_caches(lab, l1=True)
    streams = load(lab, NUM_STREAMS // 2)
    assert streams[0].begun.wait(DEADLINE_SECONDS)

    lab.kill("valkey")
    again = send(lab, prompt)
    streams += load(lab, NUM_STREAMS // 2)
    for stream in streams:
        stream.join()

    assert [stream.error for stream in streams if not stream.over] == []
    assert again.answer.text == computed.answer.text
    assert lab.missing == ("valkey",)


def test_a_killed_replica_fails_no_request_that_had_not_begun_and_hits_l2_when_it_is_back(lab: Lab) -> None:
    prompt = new_prompt(1000)
    computed = store(lab, prompt)
    num_retries = router_count(lab, "hypertier_router_retries_total")
    streams = load(lab, NUM_STREAMS)
    assert streams[0].begun.wait(DEADLINE_SECONDS)

    lab.kill("engine-0")
    for stream in streams:
        stream.join()
    num_retries = router_count(lab, "hypertier_router_retries_total") - num_retries
    missing = lab.missing
    lab.start(missing)
    answer = ask(lab.plan.replica_urls[0], lab.plan.model_name, prompt)

    failed = [stream for stream in streams if not stream.over]
    assert [stream.error or "no answer" for stream in failed if not stream.begun.is_set()] == []
    assert missing == ("engine-0",)
    assert num_retries > 0
    assert read_counts(lab.plan.replica_urls[0]).hit_source == "L2"
    assert answer.text == computed.answer.text
