"""`/health` for the pod's probes: 200 while the loop turns, 503 when it does not, and what it counted."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hypertier.errors import ListenError


@contextmanager
def health_server(address: tuple[str, int], health: Callable[[], Mapping[str, object]]) -> Iterator[int]:
    """Serve `health` at `address` while the block runs, and give the port; port 0 takes a free one.

    Raises:
        ConfigError: nothing can listen there.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path != "/health":
                self.send_error(404, "only /health is here")
                return
            shown = health()
            body = json.dumps(shown).encode()
            self.send_response(200 if shown["healthy"] else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Probes come every few seconds; the log is for what goes wrong."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        daemon_threads = True

    try:
        server = Server(address, Handler)
    except OSError as error:
        raise ListenError("--listen", f"{address[0]}:{address[1]}", error) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="health")
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
