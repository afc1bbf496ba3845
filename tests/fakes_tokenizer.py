"""An engine that does nothing but answer `POST /tokenize`: a token is a byte."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEMPLATE = "<user>{}<assistant>"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answer one question."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = asked.get("prompt")
        if text is None:
            text = "".join(TEMPLATE.format(message["content"]) for message in asked["messages"])
        answer = {"tokens": list(text.encode()), "token_strs": list(text)}
        body = json.dumps(answer).encode()
        self.send_response(200 if self.path == "/tokenize" else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def tokenizer() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
