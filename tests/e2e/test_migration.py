"""Real vLLM, ended in the midst of a stream: another engine goes on with it, and the text is the same."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fakes_access import ACME, CHAT, ZETA, AccessFolder, bearer
from fakes_engine import Answer, RawClient, post, run_loop
from fakes_lab import TOOLS
from fakes_lora import ADAPTER, load_adapter, write_adapter, write_with_adapters

from hypertier.lab.engine_env import PYTHON_VARIABLE, find_engine_python
from hypertier.lab.lab import Lab
from hypertier.lab.prepare import prepare_lab, render_file
from hypertier.router.app import Router
from hypertier.router.settings import RouterSettings

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent
NUM_TOKENS = 600
IDLE_SECONDS = 4
PROMPT = "A tier keeps blocks; a lookup is a hit or a miss: 漢字, 🦙. "


def asking(lab: Lab, path: bytes, *headers: bytes, **fields: Any) -> bytes:
    """A long greedy answer, streamed."""
    prompt: dict[str, Any] = {"prompt": PROMPT}
    if path.endswith(b"/chat/completions"):
        prompt = {"messages": [{"role": "user", "content": PROMPT}]}
    body = {"model": lab.plan.model_name, "stream": True, "max_tokens": NUM_TOKENS, "temperature": 0}
    options = {"stream_options": {"include_usage": True}, "ignore_eos": True}
    text = json.dumps({**body, **options, **prompt, **fields}).encode()
    return post(path, text, b"Content-Type: application/json", *headers)


@pytest.fixture(scope="module")
def lab_with_adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two real engines with an adapter."""
    folder = tmp_path_factory.mktemp("adapters")
    file = write_with_adapters(folder, *TOOLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PYTHON_VARIABLE, str(find_engine_python(os.environ, ROOT)))
        patch.chdir(folder)
        name, objects = render_file(file)
        with prepare_lab(objects, name, "vllm", 2, print) as made:
            adapter = write_adapter(tmp_path_factory.mktemp("adapter"))
            for url in made.plan.replica_urls:
                load_adapter(url, adapter)
            yield made


def events_of(answer: Answer) -> list[Any]:
    """Parsed."""
    texts = [text.removeprefix("data: ") for text in answer.body.decode().split("\n\n")]
    return [json.loads(text) if text != "[DONE]" else text for text in texts if text]


def gist(answer: Answer) -> dict[str, Any]:
    """What a client makes of it."""
    events = events_of(answer)
    choices = [choice for event in events[:-1] for choice in event["choices"]]
    usage = [event["usage"] for event in events[:-1] if event.get("usage")]
    return {
        "text": "".join(c["delta"].get("content") or "" if "delta" in c else c["text"] for c in choices),
        "finish": [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
        "usage": [(one["prompt_tokens"], one["completion_tokens"], one["total_tokens"]) for one in usage],
        "ids": len(
            {(event["id"], event["created"], event["object"], event["model"]) for event in events[:-1]}
        ),
        "end": events[-1],
    }


async def with_router(lab: Lab, act: Callable[[Router], Awaitable[Any]], **settings: Any) -> Any:
    """A router of this process before the lab's engines, that migrates streams."""
    listed = {"listen": "127.0.0.1:0", "replicas": lab.plan.replica_urls}
    router = Router(RouterSettings(**listed, migration_limit=1, explain=True, **settings))
    await router.start()
    try:
        return await act(router)
    finally:
        await router.stop()


async def stream(router: Router, data: bytes, *, until: int, act: Callable[[bytes], None]) -> Answer:
    """The answer; `act` is told the engine's address once the client has so many events."""
    client = await RawClient.connect(router.port)
    client.send(data)
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), await client.reader.read(1000)
    begun = b""
    while begun.count(b"data: ") < until:
        size = int(await client.reader.readuntil(b"\r\n"), 16)
        begun += (await client.reader.readexactly(size + 2))[:-2]
    answer = Answer(200, head, begun)
    act(answer.header(b"x-hypertier-replica") or b"")
    try:
        await client._read_chunks(answer)
    except (asyncio.IncompleteReadError, ConnectionError):
        answer.is_whole = False
    client.close()
    return answer


def engine_of(lab: Lab, replica: bytes) -> str:
    """The name of the engine at an address."""
    port = replica.decode().rpartition(":")[2]
    urls = zip(lab.engine_names, lab.plan.replica_urls, strict=True)
    (name,) = [name for name, url in urls if url.endswith(port)]
    return name


def killing(lab: Lab, killed: list[str]) -> Callable[[bytes], None]:
    """What kills the engine of an address, and keeps its name."""

    def kill(replica: bytes) -> None:
        killed.append(engine_of(lab, replica))
        lab.kill(killed[-1])

    return kill


def signal_core(lab: Lab, name: str, what: signal.Signals) -> None:
    """Send it to the engine's process that computes; the one that answers HTTP goes on."""
    (group,) = [record.pid for record in lab.records if record.name == name]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_core = b"EngineCore" in (folder / "cmdline").read_bytes()
            pid = int(folder.name)
            if is_core and os.getpgid(pid) == group:
                os.kill(pid, what)
        except (FileNotFoundError, ProcessLookupError):
            continue


async def whole_and_broken(lab: Lab, router: Router, data: bytes) -> tuple[Answer, Answer]:
    """The same answer twice: unbroken, and with its engine killed inside."""
    killed: list[str] = []
    whole = await stream(router, data, until=1, act=lambda _: None)
    broken = await stream(router, data, until=40, act=killing(lab, killed))
    assert len(killed) == 1
    assert router.front.migration is not None
    assert router.front.migration.ended == {"continued": 1}
    return whole, broken


def assert_is_one(broken: Answer, whole: Answer) -> None:
    """Its client sees nothing of what happened."""
    assert broken.is_whole
    assert gist(broken) == gist(whole)
    assert (gist(broken)["finish"], gist(broken)["ids"]) == (["length"], 1)


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/completions"], ids=["chat", "completion"])
def test_stream_whose_engine_is_killed_has_the_text_of_an_unbroken_one(lab: Lab, path: bytes) -> None:
    whole, broken = run_loop(
        with_router(lab, lambda router: whole_and_broken(lab, router, asking(lab, path)))
    )

    assert_is_one(broken, whole)


def test_so_has_one_whose_engine_hangs_though_its_health_is_good(lab: Lab) -> None:
    frozen: list[str] = []
    healthy: list[int] = []

    def freeze(replica: bytes) -> None:
        frozen.append(engine_of(lab, replica))
        signal_core(lab, frozen[0], signal.SIGSTOP)  # as where a GPU hangs

    async def act(router: Router) -> tuple[Answer, Answer, dict[str, int], float]:
        whole = await stream(router, asking(lab, CHAT), until=1, act=lambda _: None)
        broken = await stream(router, asking(lab, CHAT), until=40, act=freeze)
        (left,) = router.front._proxy.decisions.told(None, 1)[0]["broke_off"]
        healthy.append(await asyncio.to_thread(health_of, left["replica"]))
        assert router.front.migration is not None
        return whole, broken, dict(router.front.migration.causes), left["seconds"]

    try:
        whole, broken, causes, seconds = run_loop(
            with_router(lab, act, stream_idle_timeout_seconds=IDLE_SECONDS)
        )
    finally:
        for name in frozen:
            lab.kill(name)
        lab.stop(frozen)  # waits until it is gone: the next test starts what is missing

    assert_is_one(broken, whole)
    assert causes == {"idle": 1}
    assert healthy == [200]
    assert IDLE_SECONDS < seconds < IDLE_SECONDS + 20


def health_of(url: str) -> int:
    """The status of an engine's health."""
    with urllib.request.urlopen(f"{url}/health", timeout=20) as answer:
        return int(answer.status)


def test_prompt_that_waits_where_an_engines_core_dies_is_answered_by_another(lab: Lab) -> None:
    name = lab.engine_names[0]

    async def act(router: Router) -> tuple[list[Answer], dict[str, int]]:
        signal_core(lab, name, signal.SIGSTOP)
        clients = [await RawClient.connect(router.port) for _ in lab.engine_names]
        for client in clients:
            client.send(asking(lab, CHAT, max_tokens=8))
        (first, *_), waiting = await asyncio.wait(
            [asyncio.create_task(client.answer()) for client in clients], return_when=asyncio.FIRST_COMPLETED
        )
        assert waiting  # one at each engine, and one core has stopped
        signal_core(lab, name, signal.SIGKILL)
        return [await first, *[await each for each in waiting]], dict(router.metrics.counts.retries)

    try:
        answers, retries = run_loop(with_router(lab, act, strategy="roundrobin"))
    finally:
        lab.kill(name)
        lab.stop([name])

    assert all(answer.is_whole for answer in answers), answers
    assert [gist(answer)["finish"] for answer in answers] == [["length"], ["length"]]
    assert retries == {"error": 1}


def test_so_has_a_tenants_whose_rest_is_cached_for_that_tenant_alone(lab: Lab, tmp_path: Path) -> None:
    long = {"messages": [{"role": "user", "content": f"Nobody else asks so. {PROMPT * 10}"}]}

    async def cached(router: Router, key: str) -> int:
        """Tokens of the prompt that the engine which is left has for whoever asks."""
        client = await RawClient.connect(router.port)
        client.send(asking(lab, CHAT, bearer(key), **long, max_tokens=1, stream=False, stream_options=None))
        usage = json.loads((await client.answer()).body)["usage"]
        return int((usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0)

    async def act(router: Router) -> tuple[Answer, Answer, int, int]:
        whole, broken = await whole_and_broken(lab, router, asking(lab, CHAT, bearer(ACME), **long))
        return whole, broken, await cached(router, ZETA), await cached(router, ACME)

    whole, broken, others, own = run_loop(with_router(lab, act, **AccessFolder(tmp_path).settings))

    assert_is_one(broken, whole)
    assert (others, own > 0) == (0, True)


def test_stream_of_an_adapter_has_the_text_of_an_unbroken_one(lab_with_adapter: Lab) -> None:
    lab = lab_with_adapter

    async def act(router: Router) -> tuple[Answer, Answer, Answer]:
        base = await stream(router, asking(lab, CHAT), until=1, act=lambda _: None)
        return base, *await whole_and_broken(lab, router, asking(lab, CHAT, model=ADAPTER))

    base, whole, broken = run_loop(with_router(lab, act))

    assert_is_one(broken, whole)
    assert gist(whole)["text"] != gist(base)["text"]


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/completions"], ids=["chat", "completion"])
def test_seam_is_invisible_wherever_an_answer_breaks_off(lab: Lab, path: bytes) -> None:
    data = asking(lab, path, max_tokens=120)

    async def act(router: Router, until: int) -> tuple[dict[str, Any], dict[str, int]]:
        def cut(_: bytes) -> None:
            (connection,) = router.front.connections
            cast(Any, connection.exchange)._upstream._transport.abort()

        answer = await stream(router, data, until=max(1, until), act=cut if until else lambda _: None)
        assert router.front.migration is not None
        return gist(answer), dict(router.front.migration.ended)

    # A router for each: what breaks off five times in a row on one replica has that replica taken out.
    whole, _ = run_loop(with_router(lab, lambda router: act(router, 0)))
    cuts = [
        run_loop(with_router(lab, lambda router, until=until: act(router, until)))  # type: ignore[misc]
        for until in range(2, 90, 16)
    ]

    assert cuts == [(whole, {"continued": 1})] * len(cuts)
