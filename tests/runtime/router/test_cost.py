"""What a request costs, counted and not timed: calls of the router's own code, and waits of the clients."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from fakes_engine import FakeEngine, RawClient, post, run_loop
from fakes_router import routed

from hypertier import router as package
from hypertier.simulation.catalog import policy
from hypertier.simulation.cluster import ClusterSpec, simulate
from hypertier.simulation.engine import EngineProfile
from hypertier.simulation.report import Summary, summarize
from hypertier.simulation.trace import with_load
from hypertier.simulation.workloads import BUSY_LOAD, WORKLOADS

CHAT = b"/v1/chat/completions"
OURS = str(Path(package.__file__).parent)
MAX_CALLS = 150
NUM_REQUESTS = 20
PROFILE = EngineProfile()


class Calls:
    """Calls of functions in the router's own files while it counts."""

    def __init__(self) -> None:
        self.number = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        self.number += event == "call" and frame.f_code.co_filename.startswith(OURS)


def chat(num_bytes: int, number: int) -> bytes:
    text = f"{number} " + "word " * (num_bytes // 5)
    return b'{"model": "m", "messages": [{"role": "user", "content": "%s"}]}' % text.encode()


def calls_of_a_request(num_bytes: int) -> float:
    """On the mean of some, on one connection."""
    calls = Calls()

    async def act() -> None:
        async with routed(FakeEngine(), strategy="prefixaware", explain=True) as router:
            client = await RawClient.connect(router.port)
            for number in range(NUM_REQUESTS + 5):
                client.send(post(CHAT, chat(num_bytes, number)))
                if number < 5:  # what is made once
                    await client.answer()
                    continue
                with calls.counted():
                    assert (await client.answer()).status == 200

    run_loop(act())
    return calls.number / NUM_REQUESTS


def test_request_costs_a_bounded_number_of_calls_and_a_prompt_of_220_kb_few_more() -> None:
    small, large = calls_of_a_request(1000), calls_of_a_request(220_000)

    assert small < MAX_CALLS
    assert large < 2 * small  # its reads from the socket; none for its tokens, words or bytes


def test_router_runs_on_uvloop_and_knows_no_general_http_server() -> None:
    sources = [path.read_text() for path in Path(OURS).rglob("*.py")]

    assert any("loop_factory=uvloop.new_event_loop" in text for text in sources)
    assert not any(f"import {name}" in text for name in ("h11", "aiohttp", "uvicorn") for text in sources)


@pytest.mark.parametrize("workload", ["conversation", "agent", "shared_system_prompt"])
def test_who_looks_for_prefixes_never_makes_first_tokens_later_than_turns_do(workload: str) -> None:
    def waits(name: str) -> Summary:
        spec = ClusterSpec(8, PROFILE)
        load = BUSY_LOAD[workload] * spec.num_replicas
        trace = with_load(WORKLOADS[workload](77, 600), load, PROFILE.prefill_seconds)
        return summarize(simulate(trace, spec, policy(name), 77))

    turns, prefixes = waits("roundrobin"), waits("prefixaware")

    assert prefixes.ttft_p50_seconds <= turns.ttft_p50_seconds
    assert prefixes.ttft_p90_seconds <= turns.ttft_p90_seconds
