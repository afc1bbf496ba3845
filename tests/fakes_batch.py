"""An endpoint that answers batches' requests as a test wants it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fakes_http import QuietHandler, serving

Answered = tuple[int, bytes]


def echo(body: Mapping[str, Any], attempt: int) -> Answered:
    """The request itself, in a good answer."""
    return 200, json.dumps({"object": "chat.completion", "asked": body}).encode()


@dataclass
class FakeBatchEndpoint:
    """`act` makes the answer to a body at its n-th attempt, from 1 on; None closes without one."""

    act: Callable[[Mapping[str, Any], int], Answered | None] = echo
    retry_after: str | None = "0"
    received: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""

    @property
    def prompts(self) -> list[str]:
        """Of the requests, as they came."""
        return [body["prompt"] for _, _, body in self.received]


@contextmanager
def fake_batch_endpoint(state: FakeBatchEndpoint) -> Iterator[FakeBatchEndpoint]:
    """Serve it while the block runs."""
    lock = threading.Lock()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                state.received.append((self.path, self.headers["x-request-id"], body))
                attempt = sum(known == body for _, _, known in state.received)
            answered = state.act(body, attempt)
            if answered is None:
                self.close_connection = True
                return
            headers = (("retry-after", state.retry_after),) if state.retry_after is not None else ()
            self.answer(*answered, headers)

    with serving(Handler) as state.url:
        yield state


def lines_of(*prompts: str, url: str = "/v1/completions") -> bytes:
    """A batch's input with a request for each prompt, which is its name, too."""
    requests = (
        {"custom_id": prompt, "method": "POST", "url": url, "body": {"model": "m", "prompt": prompt}}
        for prompt in prompts
    )
    return b"".join(json.dumps(request).encode() + b"\n" for request in requests)
