"""What the router's features cost, all of them on: `python benchmarks/router/features.py`.

Rows: `plain` is what `run.py` measures; `access` has keys, a salt, limits and the queue; `all` is that, a
router beside it that hears and tells, traces of one request in a hundred, and explaining headers; `all, TLS`
is that for clients by TLS, `busy` either with `--busy-polling`; `nginx` and `nginx, TLS`, where it is
installed, only pass on. CPU milliseconds a request of the router's own process, least of PASSES; the last
line is JSON.
"""

from __future__ import annotations

import argparse
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import run
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from peers import Peer, hypertier, nginx, nginx_tls

PASSES = 2
KEY = "sk-bench"  # what the load generator sends
ACCESS = """
access:
  default: {requestsPerMinute: 100000000, tokensPerMinute: 100000000000, concurrentRequests: 10000}
  queue: {maxInFlightPerReplica: 10000, size: 10000, timeout: 60s}
"""
CASES = ("1k", "32k", "256k", "sse")


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans and drops them."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def collector() -> Iterator[str]:
    """Where spans may be sent."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate of its own for 127.0.0.1, P-256, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


def access_flags(folder: Path) -> list[str]:
    """Keys, a salt, limits and a queue."""
    (folder / "keys").write_text(f"sha256:{sha256(KEY.encode()).hexdigest()} bench\n")
    (folder / "salt-key").write_text("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=\n")
    (folder / "access.yaml").write_text(ACCESS)
    names = {"--api-keys": "keys", "--salt-key": "salt-key", "--access": "access.yaml"}
    return [text for flag, name in names.items() for text in (flag, str(folder / name))]


@contextmanager
def beside(urls: Sequence[str], port: int, other: int) -> Iterator[None]:
    """A router at `other` that tells one at `port`, and hears it."""
    peer = hypertier("prefixaware", "--peer", f"127.0.0.1:{port}", "--peer-listen", f"127.0.0.1:{other}")
    command = [*run.pin(1), *peer(run.free_port(), urls, Path())]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def main() -> None:
    """Measure, print the table, then the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=PASSES)
    parser.add_argument("--case", action="append", choices=CASES)
    arguments = parser.parse_args()
    cases = arguments.case or list(CASES)
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name, run.engines() as urls, collector() as spans:
        folder = Path(name)
        cert, key = certificate(folder)
        for _ in range(arguments.passes):
            run.measure_direct(urls, cases, results)
            metrics = ["--explain", "--metrics-port", str(run.free_port())]
            access = [*metrics, *access_flags(folder)]
            own, other = run.free_port(), run.free_port()
            more = ["--peer", f"127.0.0.1:{other}", "--peer-listen", f"127.0.0.1:{own}"]
            every = [*access, *more, "--otlp-endpoint", spans, "--trace-sample-ratio", "0.01"]
            tls = [*every, "--tls-cert", cert, "--tls-key", key]
            run.measure(Peer("plain", hypertier("prefixaware", *metrics)), urls, cases, results)
            run.measure(Peer("access", hypertier("prefixaware", *access)), urls, cases, results)
            with beside(urls, own, other):
                run.measure(Peer("all", hypertier("prefixaware", *every)), urls, cases, results)
                run.measure(Peer("all, TLS", hypertier("prefixaware", *tls), tls=True), urls, cases, results)
                busy = "--busy-polling"
                run.measure(Peer("all, busy", hypertier("prefixaware", *every, busy)), urls, cases, results)
                both = hypertier("prefixaware", *tls, busy)
                run.measure(Peer("all, TLS, busy", both, tls=True), urls, cases, results)
            if shutil.which("nginx"):
                run.measure(Peer("nginx", nginx), urls, cases, results)
                run.measure(Peer("nginx, TLS", nginx_tls(cert, key), tls=True), urls, cases, results)
            print("\n".join(run.table(results, cases)), file=sys.stderr)
    print("\n".join(run.table(results, cases)))
    print(json.dumps({name: mine for name, mine in results.items() if name != "(direct)"}))


if __name__ == "__main__":
    main()
