"""CPU time that keys, salt, limits and the queue add to a request, without sockets; the least of passes.

What is measured is all that the step in between does: from a request read to its turn, and its end; the
credentials in its head, which nobody else asks for, included. `step` is the step with nothing in it, and
`read` what the router reads of every request's body anyway.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hypertier.router.access import build, keys
from hypertier.router.admission import Admission, Arrival, Grant
from hypertier.router.api import openai
from hypertier.router.api.openai import Refusal
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.heads import Request
from hypertier.router.http.wire import BodyBudget, RequestReader
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.settings import RouterSettings

SIZES = {"1k": 1 << 10, "32k": 1 << 15, "256k": 1 << 18}
NUM_PASSES = 15
PASS_SECONDS = 0.1
KEY = keys.new_key()
LIMITS = (
    "{name: acme, requestsPerMinute: 1000000000, tokensPerMinute: 1000000000000, concurrentRequests: 1000}"
)
POLICIES = {
    "keys": "access: {sharedCache: true}",
    "keys_salt": "access: {}",
    "keys_salt_limits": f"access: {{tenants: [{LIMITS}]}}",
    "keys_salt_limits_queue": f"access: {{tenants: [{LIMITS}], queue: {{maxInFlightPerReplica: 1000}}}}",
}


class Gate:
    """Ends what is let in at once."""

    def proceed(self, arrival: Arrival, grant: Grant | None) -> None:
        if grant is not None and grant.released is not None:
            grant.released()

    def refuse(self, arrival: Arrival, refusal: Refusal) -> None:
        raise SystemExit(f"refused: {refusal.message}")


class Open:
    """Lets everybody in."""

    def admit(self, arrival: Arrival) -> None:
        arrival.proceed()


def body(num_bytes: int) -> bytes:
    """A chat of that size, of words, in messages of 1 KiB."""
    text = ("the quick brown fox jumps over the lazy dog\n" * 24)[:1000]
    messages = [{"role": "user", "content": text} for _ in range(max(1, num_bytes // 1040))]
    return json.dumps({"model": "m", "messages": messages, "max_tokens": 256, "stream": True}).encode()


def request(data: bytes) -> Callable[[], Request]:
    """What makes one as it comes from OpenAI's client, nothing of it looked at yet."""
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: router.example:8000\r\naccept: application/json\r\n"
        b"accept-encoding: gzip, deflate\r\nauthorization: Bearer %s\r\ncontent-type: application/json\r\n"
        b"user-agent: OpenAI/Python 3.57.0\r\nx-stainless-lang: python\r\nx-stainless-retry-count: 0\r\n"
        b"content-length: %d\r\n\r\n"
    ) % (KEY.encode(), len(data))

    def make() -> Request:
        budget = BodyBudget(1 << 30)
        reader = RequestReader(max_head_bytes=1 << 16, max_body_bytes=1 << 30, budget=budget)
        reader.feed(head + data)
        return reader.ready.popleft()

    return make


def microseconds(act: Callable[[], object]) -> float:
    """CPU time of one call, the least of the passes."""
    least = float("inf")
    for _ in range(NUM_PASSES):
        num_calls = 0
        begin = time.process_time()
        while (spent := time.process_time() - begin) < PASS_SECONDS:
            for _ in range(10):
                act()
            num_calls += 10
        least = min(least, spent / num_calls)
    return least * 1e6


def main() -> None:
    """Measure each policy at each size, print one JSON object of microseconds."""
    replicas = ReplicaSet()
    replicas.replace([Address("127.0.0.1", 8000)])
    for replica in list(replicas.by_url.values()):
        replicas.admit(replica)
    gate = Gate()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        steps: dict[str, Admission] = {"step": Open()}
        for name, policy in POLICIES.items():
            steps[name] = admission(Path(folder), name, policy, replicas)
        for label, size in SIZES.items():
            make = request(body(size))
            read = microseconds(lambda make=make: openai.read(make(), session_key=None, hash_prompt=True))
            arrive = microseconds(make)
            found.setdefault("read", {})[label] = round(read - arrive, 2)
            for name, step in steps.items():

                def act(make: Callable[[], Request] = make, step: Admission = step) -> None:
                    step.admit(Arrival(gate, None, make(), b"id"))

                found.setdefault(name, {})[label] = round(microseconds(act) - arrive, 2)
    print(f"µs of CPU a request on {os.cpu_count()} cores, the least of {NUM_PASSES} passes")
    print(json.dumps(found))


def admission(folder: Path, name: str, policy: str, replicas: ReplicaSet) -> Admission:
    """The gate of a policy, with one key."""
    files = {
        "access": policy,
        "api_keys": keys.line(KEY, "acme", None),
        "salt_key": base64.b64encode(bytes(range(32))).decode(),
    }
    paths: dict[str, str] = {}
    for kind, text in files.items():
        file = folder / f"{name}-{kind}"
        file.write_text(text, encoding="utf-8")
        paths[kind] = str(file)
    settings = RouterSettings(replicas=("http://127.0.0.1:8000",), metrics_port=0, **paths)
    door = build.build(settings, replicas)
    assert door is not None
    return door.gate


if __name__ == "__main__":
    main()
