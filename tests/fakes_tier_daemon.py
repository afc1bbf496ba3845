"""A stand-in for HyperPod's node daemon: its protocol, a file as shared memory, and faults on demand."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from hypertier.tier.address import L2Address

SEGMENT_BYTES = 16 * 1024 * 1024
PIECE_BYTES = 4096


Fault = tuple[int, bytes]
HANGS: Fault = (503, b"nobody waits so long")


@dataclass
class StoredLease:
    """A promise to a client."""

    key: str
    expires_at: float


class NodeDaemon:
    """Keeps values in pieces of a file. Everything below may be set by a test.

    `holds_misses`: a question about an absent value is answered by 504 after its `timeout_ms`, not by 404.
    `status`: if not 0, the answer to everything. `lease_body`: if not None, what leases are answered with.
    `answers_early`: a PUT of what is there already is answered before its body is read. `faults`: what comes
    in the place of an answer to each POST whose path has this in it.
    """

    def __init__(self, segment: Path) -> None:
        self.segment = segment
        self.holds_misses = False
        self.status = 0
        self.lease_body: bytes | None = None
        self.faults: dict[str, Fault] = {}
        self.answers_early = False
        self.requests: list[str] = []
        self.leases: dict[str, StoredLease] = {}
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._over = threading.Event()
        self._values: dict[str, list[dict[str, int]]] = {}
        self._next_lease = 0
        self._next_piece = 0
        self.make_segment()
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                if daemon.answers_early and daemon.holds(self.path):
                    self.close_connection = True
                    self._send(409, b"")
                    return
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._send(*daemon.put(self.path, body))

            def do_POST(self) -> None:
                self._send(*daemon.post(self.path))

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                daemon.requests.append(format % args)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def get_request(self) -> tuple[socket.socket, Any]:
                connection, address = super().get_request()
                daemon._connections.append(connection)
                return connection, address

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Say nothing: a client that goes, or is cut off, is none."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = L2Address("127.0.0.1", self._server.server_address[1], is_daemon=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def make_segment(self) -> None:
        """Put a new segment in the place of the old one, as after a restart: nothing is stored any more."""
        fresh = self.segment.with_suffix(".new")
        fresh.write_bytes(bytes(SEGMENT_BYTES))
        fresh.replace(self.segment)
        self.clear()

    def clear(self) -> None:
        """Evict everything, leased or not."""
        with self._lock:
            self._values.clear()
            self.leases.clear()
            self._next_piece = 0

    def evict(self, path: str) -> None:
        """Forget the value at /v1/kv/{bucket}/{key}, after all leases have run out."""
        with self._lock:
            self.leases.clear()
            self._values.pop(unquote(path), None)

    def cut(self) -> None:
        """Break off every connection."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def overwrite(self, byte: int) -> None:
        """Use all of the segment for something else, as if every lease had run out."""
        with self.segment.open("r+b") as file:
            file.write(bytes([byte]) * SEGMENT_BYTES)

    def holds(self, path: str) -> bool:
        """Whether there is a value at /v1/kv/{bucket}/{key}."""
        with self._lock:
            return unquote(path) in self._values

    def put(self, path: str, body: bytes) -> tuple[int, bytes]:
        """PUT /v1/kv/{bucket}/{key}."""
        key = unquote(path)
        with self._lock:
            if self.status:
                return self.status, b""
            if key in self._values:
                return 409, b""
            self._values[key] = self._write(body)
        return 200, b""

    def post(self, path: str) -> tuple[int, bytes]:
        """POST .../leases?timeout_ms=N&ttl_s=S, or /v1/leases/{id}/release."""
        parts = urlsplit(path)
        if self.status:
            return self.status, b""
        for fault in [fault for place, fault in self.faults.items() if place in path]:
            if fault is HANGS:
                self._over.wait(60)
            return fault
        if parts.path.startswith("/v1/leases/"):
            with self._lock:
                known = self.leases.pop(parts.path.split("/")[3], None)
            return (200 if known else 404), b""
        query = {name: int(values[0]) for name, values in parse_qs(parts.query).items()}
        key = unquote(parts.path.removesuffix("/leases"))
        with self._lock:
            pieces = self._values.get(key)
            if pieces is not None:
                self._next_lease += 1
                lease_id = f"lease {self._next_lease}".replace(" ", "-")
                self.leases[lease_id] = StoredLease(key, time.monotonic() + query["ttl_s"])
                body = json.dumps({"id": lease_id, "offsets": pieces}).encode()
                return 200, self.lease_body if self.lease_body is not None else body
        if self.holds_misses:
            self._over.wait(query["timeout_ms"] / 1000)
            return 504, b""
        return 404, b""

    def _write(self, body: bytes) -> list[dict[str, int]]:
        """Write a value in pieces that do not lie side by side."""
        pieces = []
        with self.segment.open("r+b") as file:
            for start in range(0, len(body), PIECE_BYTES):
                piece = body[start : start + PIECE_BYTES]
                offset = self._next_piece * 7919 % (SEGMENT_BYTES // PIECE_BYTES) * PIECE_BYTES
                self._next_piece += 1
                file.seek(offset)
                file.write(piece)
                pieces.append({"offset": offset, "len": len(piece)})
        return pieces

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(20)
