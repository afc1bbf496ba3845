"""Real vLLM with kvaware: what the engine publishes is what its own `/tokenize` makes of the same chat."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from exchanges import ASKED, bench_serve, streamed, whole
from fakes_access import ACME, ZETA, AccessFolder, router_process
from fakes_cut_wire import cut_wires
from fakes_engine import eventually
from fakes_kv_publisher import two_free_ports
from fakes_lab import TOOLS
from fakes_lora import ADAPTER, load_adapter, write_adapter, write_with_adapters

from hypertier.lab.client import ask
from hypertier.lab.engine_env import PYTHON_VARIABLE, find_engine_python
from hypertier.lab.lab import Lab
from hypertier.lab.metrics import samples
from hypertier.lab.prepare import prepare_lab, render_file
from hypertier.router.discovery.addresses import Address
from hypertier.router.kv.kv_events import Event, Stored
from hypertier.router.kv.kv_streams import KvStreams
from hypertier.router.replicas.replicas import Replica, ReplicaSet

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent
PROMPT = "A tier keeps blocks; a lookup is a hit or a miss. " * 30


def counts(url: str) -> dict[tuple[str, str], float]:
    """A router's series of kvaware, by name and cause; `url` is that of its metrics."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
        found: list[tuple[str, Any, float]] = list(samples(response.read().decode()))
    return {
        (name.removeprefix("hypertier_router_"), labels.get("cause", "")): value
        for name, labels, value in found
        if "kvaware" in name or name.endswith("matched_prompt_bytes_total")
    }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One real engine that publishes its events, and a router that hears them."""
    folder = tmp_path_factory.mktemp("kvaware")
    file = write_with_adapters(folder, *TOOLS, "--trust-request-chat-template")
    manifest = file.with_name("llama-70b.yaml")
    manifest.write_text(manifest.read_text("utf-8").replace("prefixaware", "kvaware"), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PYTHON_VARIABLE, str(find_engine_python(os.environ, ROOT)))
        patch.chdir(folder)
        name, objects = render_file(file)
        with prepare_lab(objects, name, "vllm", 1, print) as made:
            yield made


def ask_until_heard(
    metrics: str, asking: Callable[[str], object], prompt: str
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Ask until a choice needs no fallback, 20 times at most; the counts before and after the last time."""
    while not counts(metrics).get(("kvaware_verified", "")):
        pass
    asking(prompt)
    while sum(v for (n, _), v in counts(metrics).items() if n == "kvaware_tokenizations_total") < 1:
        pass
    asking("Another prompt, so that the size of blocks is known. " * 30)
    for _ in range(20):
        before = counts(metrics)
        asking(prompt)
        after = counts(metrics)
        if not fallbacks(before, after):
            break
    return before, after


def fallbacks(before: dict[tuple[str, str], float], after: dict[tuple[str, str], float]) -> float:
    return sum(after[key] - before.get(key, 0.0) for key in after if key[0] == "kvaware_fallbacks_total")


def test_a_chat_is_found_by_the_events_of_the_engine_that_computed_it(lab: Lab) -> None:
    url, model = lab.plan.router_url, lab.plan.model_name

    before, after = ask_until_heard(
        lab.plan.router_metrics_url, lambda prompt: ask(url, model, prompt, max_tokens=1), PROMPT
    )

    assert fallbacks(before, after) == 0
    assert after[("kvaware_tokenizations_total", "good")] >= 1
    assert after[("matched_prompt_bytes_total", "")] > before[("matched_prompt_bytes_total", "")]
    assert not any(value for (name, _), value in after.items() if name == "kvaware_dropped_blocks_total")


def test_a_tenants_chat_is_found_by_its_own_blocks_and_not_by_anothers(lab: Lab, tmp_path: Path) -> None:
    prompt = "Blocks of one tenant are no other tenant's blocks. " * 30
    replica = ["--replica", lab.plan.replica_urls[0], "--kv-events", f"127.0.0.1:{events_port(lab)}"]

    def matched(of: dict[tuple[str, str], float]) -> float:
        return of[("matched_prompt_bytes_total", "")]

    with router_process(AccessFolder(tmp_path), "--strategy", "kvaware", *replica) as (url, metrics):

        def asking(key: str) -> Callable[[str], object]:
            client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, timeout=300)
            return lambda text: client.chat.completions.create(
                model=lab.plan.model_name, max_tokens=1, messages=[{"role": "user", "content": text}]
            )

        before, after = ask_until_heard(metrics, asking(ACME), prompt)
        asking(ZETA)(prompt)
        others = counts(metrics)

    assert fallbacks(before, after) == 0
    assert matched(after) > matched(before)
    assert matched(others) == matched(after)
    assert fallbacks(after, others) == 1


@pytest.fixture(scope="module")
def tenants_router(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A router before the engine that asks for keys, once it goes by the engine's events."""
    folder = AccessFolder(tmp_path_factory.mktemp("access"))
    replica = ["--replica", lab.plan.replica_urls[0], "--kv-events", f"127.0.0.1:{events_port(lab)}"]
    with router_process(folder, "--strategy", "kvaware", *replica) as (url, metrics):
        while not counts(metrics).get(("kvaware_verified", "")):
            pass
        yield url


@pytest.mark.parametrize("hear", [whole, streamed])
@pytest.mark.parametrize("more", ASKED.values(), ids=ASKED)
def test_a_tenants_chat_is_answered_as_by_the_engine_itself(
    lab: Lab,
    tenants_router: str,
    more: dict[str, Any],
    hear: Callable[..., tuple[list[Any], int]],
) -> None:
    by_router = openai.OpenAI(base_url=f"{tenants_router}/v1", api_key=ACME, timeout=300, max_retries=0)
    directly = openai.OpenAI(base_url=f"{lab.plan.replica_urls[0]}/v1", api_key="none", timeout=300)

    with by_router, directly:
        routed, own = (hear(each, lab.plan.model_name, more) for each in (by_router, directly))

    assert routed == own


def test_vllms_own_benchmark_completes_every_request_of_a_tenant(
    lab: Lab, tenants_router: str, tmp_path: Path
) -> None:
    assert bench_serve(lab, tenants_router, tmp_path, ACME) == (24, 0)


TOOL = {
    "type": "function",
    "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}},
}
SHOUTING = "{% for message in messages %}[{{ message['role'] | upper }}] {{ message['content'] }}{% endfor %}"


@pytest.fixture(scope="module")
def plain_router(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A router of its own before the engine, which has an adapter of random weights by now."""
    load_adapter(lab.plan.replica_urls[0], write_adapter(tmp_path_factory.mktemp("adapter")))
    replica = ["--replica", lab.plan.replica_urls[0], "--kv-events", f"127.0.0.1:{events_port(lab)}"]
    with router_process(None, "--strategy", "kvaware", "--explain", *replica) as urls:
        yield urls


@pytest.mark.parametrize(
    ("path", "more"),
    [
        pytest.param("completions", {}, id="completion"),
        pytest.param("chat/completions", {"tools": [TOOL]}, id="tools"),
        pytest.param("chat/completions", {"tools": [TOOL], "tool_choice": "none"}, id="tools-not-called"),
        pytest.param(
            "chat/completions", {"documents": [{"text": "A tier keeps blocks. " * 40}]}, id="documents"
        ),
        pytest.param("chat/completions", {"chat_template": SHOUTING}, id="template"),
        pytest.param("chat/completions", {"chat_template_kwargs": {"enable_thinking": False}}, id="kwargs"),
        pytest.param("chat/completions", {"reasoning_effort": "low"}, id="effort"),
        pytest.param("chat/completions", {"cache_salt": "a client's own"}, id="salt"),
        pytest.param("chat/completions", {"model": ADAPTER}, id="adapter"),
    ],
)
def test_what_is_believed_cached_is_what_the_engine_finds(
    lab: Lab, plain_router: tuple[str, str], path: str, more: dict[str, Any]
) -> None:
    url, metrics = plain_router
    while not counts(metrics).get(("kvaware_verified", "")):
        pass
    text = f"{time.monotonic_ns()} is where this begins. " + PROMPT * 2
    body = {"model": lab.plan.model_name, "max_tokens": 1, **more}
    body |= {"prompt": text} if path == "completions" else {"messages": [{"role": "user", "content": text}]}

    def send() -> tuple[int, int]:
        """The bytes believed cached, and the tokens that were."""
        with sent(f"{url}/v1/{path}", body) as answer:
            details = json.loads(answer.read())["usage"]["prompt_tokens_details"] or {}
            return int(answer.headers["x-hypertier-matched-bytes"]), details.get("cached_tokens") or 0

    before = counts(metrics)
    first = send()
    asked = ("kvaware_tokenizations_total", "good")
    while counts(metrics).get(asked, 0.0) == before.get(asked, 0.0):
        assert not counts(metrics).get(("kvaware_tokenizations_total", "unsupported"))
    for _ in range(20):  # the engine's events may be on their way yet
        before = counts(metrics)
        believed, cached = send()
        fallen_back = fallbacks(before, counts(metrics))
        if not fallen_back:
            break

    assert first[0] == 0
    assert first[1] < len(text) / 2 < cached
    assert fallen_back == 0
    # a token is a byte; what a template adds, and the grain of the router's blocks, lie between the two
    added = len(json.dumps([*more.get("tools", ()), *more.get("documents", ())])) + GRAIN
    assert cached - added <= believed <= cached + GRAIN


GRAIN = 640  # a block of bytes, and a block of tokens


def sent(url: str, body: dict[str, Any]) -> http.client.HTTPResponse:
    """The good answer to a body."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=300)
    return answer


def events_port(lab: Lab) -> int:
    """Where the engine publishes, as the lab told its own router."""
    argv = lab.plan.router.argv
    return int(argv[argv.index("--kv-events") + 1].rpartition(":")[2])


class Told:
    """Tokens that fill prompts which an engine says that it holds, heard as a router hears it."""

    def __init__(self, port: int) -> None:
        self.tokens: set[int] = set()
        replicas = ReplicaSet()
        self.streams = KvStreams(
            replicas,
            events_of=lambda replica: Address("127.0.0.1", port),
            apply=self._apply,
            hear=lambda replica: None,
            forget=lambda replica: self.tokens.clear(),
            quiet_seconds=3600.0,
        )
        replicas.replace([Address("127.0.0.1", 1)])
        for replica in list(replicas.by_url.values()):
            replicas.admit(replica)

    def _apply(self, replica: Replica, event: Event) -> None:
        if isinstance(event, Stored) and len(set(event.token_ids)) == 1:
            self.tokens.add(event.token_ids[0])


def test_an_engine_that_restarted_and_told_as_much_is_not_taken_for_the_one_before(lab: Lab) -> None:
    """On the same port, unheard for as long as it took: its batches have the numbers that are waited for."""
    url, model, port = lab.plan.replica_urls[0], lab.plan.model_name, events_port(lab)

    async def compute(token: int, *listeners: Told) -> None:
        body = {"model": model, "prompt": [token] * 300, "max_tokens": 1}
        await asyncio.to_thread(lambda: sent(f"{url}/v1/completions", body).read())
        for listener in listeners:
            await eventually(lambda one=listener: token in one.tokens)

    async def restart() -> tuple[set[int], set[int], dict[str, int]]:
        first = two_free_ports()
        async with cut_wires(first, port, port + 1) as wires:
            heard = Told(first)
            for token in range(20, 26):
                await compute(token, heard)

            for wire in wires:
                wire.blocked = True
                wire.cut()
            await asyncio.to_thread(lab.stop, ["engine-0"])
            await asyncio.to_thread(lab.start, ["engine-0"])
            witness = Told(port)
            token = 40
            while witness.streams.num_batches <= heard.streams.num_batches:
                await compute(token, witness)
                token += 1
            for wire in wires:
                wire.blocked = False
            await eventually(lambda: wires[0].num_connections > 1)
            await compute(token, witness, heard)

            found = set(heard.tokens), set(witness.tokens), dict(heard.streams.resyncs)
            for listener in (heard, witness):
                await listener.streams.stop()
        return found

    told, computed, resyncs = asyncio.run(restart())

    assert told == computed
    assert resyncs == {"restart": 1}
