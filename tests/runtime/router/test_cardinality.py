"""Whatever clients call things, the router's metrics have no more series for it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fakes_access import AccessFolder
from fakes_engine import FakeEngine, RawClient, Received, get, json_answer, run_loop
from fakes_jwt import AUDIENCE, ISSUER, Issuer
from fakes_router import routed
from prometheus_client.parser import text_string_to_metric_families

from hypertier.router.access.tenants import MAX_LABELS

NUM_NAMES = 150
PATHS = (b"/v1/chat/completions", b"/v1/completions", b"/v1/responses", b"/v1/messages", b"/v1/embeddings")


def request(number: int) -> bytes:
    """One whose method, path, model, session, id, fields and headers no other has."""
    name = f"made-up-{number}"
    path = PATHS[number % len(PATHS)] if number % 3 else b"/v1/" + name.encode()
    method = ("POST", "PUT", "PATCH", "DELETE", "REPORT")[number % 5 if number % 7 == 0 else 0]
    body = {
        "model": name,
        "user": name,
        "stream": bool(number % 2),
        "messages": [],
        "prompt": name,
        name: name,
    }
    text = json.dumps(body).encode()
    return (
        f"{method} {path.decode()}?{name} HTTP/1.1\r\nhost: {name}\r\nx-request-id: {name}\r\n"
        f"x-session-id: {name}\r\nx-{name}: {name}\r\ncontent-type: application/json\r\n"
        f"traceparent: 00-{number:032x}-{number:016x}-01\r\ncontent-length: {len(text)}\r\n\r\n"
    ).encode() + text


async def of_any_status(received: Received, writer: object) -> None:
    number = int((re.search(rb"made-up-(\d+)", received.head) or [0, 0])[1])
    status = (200, 200, 200, 404, 422, 429, 500, 299, 418, 777)[number % 10]
    writer.write(json_answer(b"{}", b"%d Made up" % status))  # type: ignore[attr-defined]


def series(page: bytes) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize("strategy", ["prefixaware", "session"])
def test_names_that_clients_make_up_are_no_labels(strategy: str, tmp_path: Path) -> None:
    async def act() -> bytes:
        settings = {"migration_limit": 1, "capture_spool": str(tmp_path / "spool"), "hold_seconds": 0.01}
        async with routed(FakeEngine(of_any_status), strategy=strategy, **settings) as router:
            client = await RawClient.connect(router.port)
            for number in range(NUM_NAMES):
                client.send(request(number))
                await client.answer()
            client.send(get(b"/metrics"))
            return (await client.answer()).body

    page = run_loop(act())

    assert b"made-up" not in page
    assert len(series(page)) < 150


def test_tenants_that_tokens_name_are_labels_up_to_a_number(tmp_path: Path) -> None:
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.jwks())
    folder = AccessFolder(
        tmp_path,
        f"access: {{jwt: {{jwks: {tmp_path}/jwks.json, issuer: '{ISSUER}', audience: {AUDIENCE}}}}}\n",
    )

    async def act() -> bytes:
        async with routed(FakeEngine(), **folder.settings) as router:
            client = await RawClient.connect(router.port)
            for number in range(3 * MAX_LABELS):
                token = issuer.token(sub=f"made-up-{number}")
                head, _, body = request(number).partition(b"\r\n")
                client.send(head + b"\r\nauthorization: Bearer " + token + b"\r\n" + body)
                await client.answer()
            admin = await RawClient.connect(router.metrics_port)
            admin.send(get(b"/metrics"))
            return (await admin.answer()).body

    page = run_loop(act())

    named = {dict(labels).get("tenant", "") for _, labels in series(page)}
    assert len([name for name in named if name.startswith("made-up")]) == MAX_LABELS
    assert "other" in named
