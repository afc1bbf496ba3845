"""An engine's /metrics on loopback, and the /metrics that a real vLLM gave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fakes_http import QuietHandler, serving

RECORDED = Path(__file__).parent / "runtime" / "exporter"


def recorded(state: str) -> str:
    """What vLLM 0.32.0 gave at `state`: idle, busy, busier, or without-connector."""
    return (RECORDED / f"vllm-0.32.0-{state}.txt").read_text(encoding="utf-8")


class MetricsServer:
    """Answers /metrics with `status` and `text`; `stalled` holds the rest of the body back until stopped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.status = 200
        self.stalled = False
        self.asked = 0
        self.released = threading.Event()
        self.url = ""


@contextmanager
def metrics_server(text: str) -> Iterator[MetricsServer]:
    """Serve `text` as a replica would, on a free port, while the block runs."""
    state = MetricsServer(text)

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            state.asked += 1
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = state.text.encode()
            self.send_response(state.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.stalled:
                self.wfile.write(body[:100])
                self.wfile.flush()
                state.released.wait(60)
                return
            self.wfile.write(body)

    with serving(Handler) as state.url:
        try:
            yield state
        finally:
            state.released.set()
