"""Explain says what answered instead of a router."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from hypertier.cli.explain import command
from hypertier.errors import ConfigError, ExplainError


@pytest.fixture
def page() -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a server that answers 200 to everything, with the one body in the list."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(bodies[0])))
            self.end_headers()
            self.wfile.write(bodies[0])

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"<html>", "answered no JSON", id="a-page"),
        pytest.param(b"[]", "knows no request", id="a-list"),
        pytest.param(b'{"decisions": []}', "knows no request", id="nothing"),
    ],
)
def test_what_is_no_decision_is_said(page: tuple[str, list[bytes]], body: bytes, problem: str) -> None:
    url, bodies = page
    bodies.append(body)

    done = CliRunner().invoke(command, ["--router", url])

    assert isinstance(done.exception, ExplainError)
    assert problem in str(done.exception)


def test_a_router_that_is_gone_is_said() -> None:
    done = CliRunner().invoke(command, ["--router", "http://127.0.0.1:1"])

    assert isinstance(done.exception, ExplainError)
    assert "is a router's --metrics-port there?" in str(done.exception)


def test_a_router_without_a_host_is_refused() -> None:
    done = CliRunner().invoke(command, ["--router", "router:9090"])

    assert isinstance(done.exception, ConfigError)


def test_a_router_in_place_of_a_request_is_refused_by_name() -> None:
    done = CliRunner().invoke(command, ["http://127.0.0.1:9090"])

    assert isinstance(done.exception, ConfigError)
    assert done.exception.setting == "REQUEST_ID"


def test_no_more_than_the_last_are_told(page: tuple[str, list[bytes]]) -> None:
    url, bodies = page
    decision = {"replica": "a", "reason": "load", "matched_bytes": 0, "prompt_bytes": 1}
    bodies.append(json.dumps({"decisions": [decision | {"request_id": f"r{n}"} for n in range(9)]}).encode())

    done = CliRunner().invoke(command, ["--router", url, "--last", "2"])

    assert [line.split(":")[0] for line in done.output.splitlines() if not line.startswith(" ")] == [
        "r0",
        "r1",
    ]


SENT = {
    "request_id": "r1",
    "replica": "a",
    "reason": "load",
    "matched_bytes": 0,
    "prompt_bytes": 1,
    "status": "2xx",
    "tried_before": [],
    "predicted_ttft_seconds": 0.5,
    "ttft_seconds": 0.25,
}
NOWHERE = {"replica": None, "matched_bytes": None, "predicted_ttft_seconds": None, "ttft_seconds": None}


@pytest.mark.parametrize(
    ("decision", "lines"),
    [
        pytest.param(
            SENT,
            [
                "r1: a (load)",
                "  0 of 1 prompt bytes believed cached there",
                "  first byte: predicted 0.500 s, was 0.250 s",
            ],
            id="sent",
        ),
        pytest.param(
            {name: SENT[name] for name in SENT if name not in ("request_id", "status", "ttft_seconds")},
            [
                "this request: a (load)",
                "  0 of 1 prompt bytes believed cached there",
                "  first byte: predicted 0.500 s",
            ],
            id="only-asked-about",
        ),
        pytest.param(
            {"replica": None, "reason": "no_replica", "matched_bytes": None, "prompt_bytes": 1},
            ["this request: no replica (no_replica)"],
            id="asked-about-without-a-replica",
        ),
        pytest.param(
            SENT | NOWHERE | {"reason": None, "status": "5xx", "tried_before": ["b"]},
            ["r1: no replica, ended as 5xx", "  before, b gave no answer"],
            id="refused",
        ),
        pytest.param(
            SENT
            | {
                "tried_before": ["b", "c"],
                "broke_off": [SENT | {"replica": "c", "seconds": 1, "cause": "idle"}],
            },
            [
                "r1: a (load)",
                "  0 of 1 prompt bytes believed cached there",
                "  first byte: predicted 0.500 s, was 0.250 s",
                "  before, b gave no answer",
                "  before, c (load) wrote a part, and broke off after 1.000 s (idle)",
            ],
            id="at-the-third",
        ),
    ],
)
def test_a_decision_is_told_in_words(
    page: tuple[str, list[bytes]], decision: dict[str, object], lines: list[str]
) -> None:
    url, bodies = page
    bodies.append(json.dumps({"decisions": [decision]}).encode())

    done = CliRunner().invoke(command, ["--router", url])

    assert done.output.splitlines() == lines


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param([], "knows no request yet", id="all"),
        pytest.param(["r7"], "knows no request r7; it keeps the latest 1,024", id="one"),
    ],
)
def test_a_request_that_is_not_known_is_named(
    page: tuple[str, list[bytes]], asked: list[str], said: str
) -> None:
    url, bodies = page
    bodies.append(b'{"decisions": []}')

    done = CliRunner().invoke(command, ["--router", url, *asked])

    assert str(done.exception) == f"{url} {said}"
