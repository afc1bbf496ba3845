"""A router with engines on loopback that caches, tells and lies as a test wants it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fakes_http import QuietHandler, serving

BLOCK = 16
TOKENS = (" the", " same", " tokens")
STRATEGIES = ("roundrobin", "prefixaware", "session")


@dataclass
class FakeEndpoint:
    """A word of a prompt is a token. `held` has what each replica cached, `stored` what L2 did.

    `refusal` is a status and a body in place of any answer; `models_refusal` of the list of models alone.
    """

    replicas: tuple[str, ...] = ("10.0.0.1:8000", "10.0.0.2:8000")
    models: tuple[str, ...] = ("m",)
    turns: bool = False
    by_header: bool = True
    tells_replica: bool = True
    tells_counts: bool = True
    tells_zero: bool = True
    caches: bool = True
    l2: bool = True
    always_cached: bool = False
    answer: tuple[str, ...] = TOKENS
    answer_on_hit: tuple[str, ...] = TOKENS
    likely: Mapping[str, float] | None = None
    cut_after: int | None = None
    is_silent: bool = False
    models_refusal: tuple[int, bytes] | None = None
    refusal: tuple[int, bytes] | None = None
    max_model_len: int | None = None
    received: list[tuple[Mapping[str, str], dict[str, Any]]] = field(default_factory=list)
    held: dict[str, set[str]] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def serve(self, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[str, int, int]:
        """The replica that answers, how many tokens the prompt has, and how many were cached."""
        self.received.append((headers, body))
        chosen = self.by_header and headers.get("x-hypertier-strategy") == "roundrobin"
        place = len(self.received) - 1 if self.turns or chosen else 0
        replica, prompt = self.replicas[place % len(self.replicas)], body["prompt"]
        num_tokens = len(prompt.split())
        held = self.held.setdefault(replica, set())
        is_hit = self.always_cached or (
            self.caches and (prompt in held or (self.l2 and prompt in self.stored))
        )
        held.add(prompt)
        self.stored.add(prompt)
        return replica, num_tokens, (num_tokens - 1) // BLOCK * BLOCK if is_hit else 0

    def events(self, num_tokens: int, num_cached: int) -> Iterator[bytes]:
        """The answer's events."""
        for token in self.answer_on_hit if num_cached else self.answer:
            likely = {"tokens": [token], "top_logprobs": [dict(self.likely)]} if self.likely else None
            yield json.dumps({"choices": [{"index": 0, "text": token, "logprobs": likely}]}).encode()
        usage: dict[str, Any] = {"prompt_tokens": num_tokens}
        if self.tells_counts and (self.tells_zero or num_cached):
            usage["prompt_tokens_details"] = {"cached_tokens": num_cached}
        yield json.dumps({"choices": [], "usage": usage}).encode()
        yield b"[DONE]"


@contextmanager
def fake_endpoint(state: FakeEndpoint, tls: Any = None) -> Iterator[FakeEndpoint]:
    """Serve it on a free port while the block runs."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            refusal = state.models_refusal or state.refusal
            if refusal is not None:
                self.answer(*refusal)
                return
            length = {"max_model_len": state.max_model_len} if state.max_model_len else {}
            listed = [{"id": name, **length} for name in state.models]
            self.answer(200, json.dumps({"object": "list", "data": listed}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if state.is_silent:
                state.released.wait(60)
                return
            if state.refusal is not None:
                self.answer(*state.refusal)
                return
            replica, num_tokens, num_cached = state.serve(dict(self.headers.items()), body)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            if state.tells_replica:
                self.send_header("x-hypertier-replica", replica)
            if state.by_header and self.headers.get("x-hypertier-strategy") in STRATEGIES:
                self.send_header("x-hypertier-strategy", self.headers["x-hypertier-strategy"])
            self.end_headers()
            for number, event in enumerate(state.events(num_tokens, num_cached)):
                if number == state.cut_after:
                    return
                self.wfile.write(b"data: %s\n\n" % event)

    with serving(Handler, tls) as state.url:
        try:
            yield state
        finally:
            state.released.set()
