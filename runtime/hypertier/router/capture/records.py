"""A request and its answer as one line of SageMaker's capture files: pure.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (read 2026-12-02).
JSON is text there, and all else base64.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

from hypertier.router.capture.redaction import redact
from hypertier.router.capture.settings import INPUT, OUTPUT, CaptureSettings

JSON = "application/json"
ROUTERS_OWN = ("cache_salt", "kv_transfer_params")
"""Members that the router writes into bodies of tenants: a salt must not be known to who reads captures."""


class Record:
    """What is kept of one exchange until it is written. `answer` is HTTP as the client got it, in pieces."""

    __slots__ = (
        "answer",
        "at",
        "content_type",
        "is_cut",
        "is_open",
        "is_salted",
        "num_bytes",
        "payload",
        "request_id",
        "tenant",
        "truncated",
    )

    def __init__(
        self,
        request_id: str,
        tenant: str,
        at: float,
        content_type: str,
        payload: bytes,
        *,
        is_salted: bool = False,
        truncated: tuple[str, ...] = (),
    ) -> None:
        self.request_id = request_id
        self.tenant = tenant
        self.at = at
        self.content_type = content_type
        self.payload = payload
        self.is_salted = is_salted
        self.truncated = truncated
        self.answer: list[bytes] = []
        self.num_bytes = len(payload)
        self.is_open = True
        self.is_cut = False  # the answer


def line_of(record: Record, settings: CaptureSettings) -> bytes | None:
    """The record as a line of JSON; None for one whose answer is no success, or can't be read."""
    status, content_type, body = read_answer(b"".join(record.answer))
    if not 200 <= status < 300:
        return None
    captured: dict[str, Any] = {}
    cut = {*record.truncated, *((OUTPUT,) if record.is_cut else ())}
    if INPUT in settings.modes:
        payload = _without_routers_own(record)
        captured["endpointInput"] = _side(INPUT, record.content_type, payload, settings, cut)
    if OUTPUT in settings.modes:
        captured["endpointOutput"] = _side(OUTPUT, content_type, body, settings, cut)
    metadata: dict[str, Any] = {
        "eventId": record.request_id,
        "inferenceTime": datetime.fromtimestamp(record.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if cut:
        metadata["customAttributes"] = [f"truncated={mode.upper()}" for mode in sorted(cut)]
    told = {"captureData": captured, "eventMetadata": metadata, "eventVersion": "0"}
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def read_answer(answer: bytes) -> tuple[int, str, bytes]:
    """Status, content type and body of an answer, as far as it is there; status 0 where it is no HTTP."""
    head, separator, body = answer.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    words = lines[0].split(b" ", 2)
    if not separator or len(words) < 2 or not words[1].isdigit():
        return 0, "", b""
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])
    }
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        body = unchunked(body)
    return int(words[1]), fields.get(b"content-type", b"").decode("latin-1"), body


def unchunked(body: bytes) -> bytes:
    """The body of chunks, as far as they are there."""
    pieces, at = [], 0
    while (end := body.find(b"\r\n", at)) >= 0:
        try:
            size = int(body[at:end].partition(b";")[0], 16)
        except ValueError:
            break
        if size <= 0:
            break
        pieces.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(pieces)


def _without_routers_own(record: Record) -> bytes:
    """The client's payload: of one that was salted, as JSON without what the router wrote."""
    if not record.is_salted or not record.payload:
        return record.payload
    try:
        told = json.loads(record.payload)
    except (ValueError, RecursionError):
        return b""  # cut off, perhaps within the salt
    if isinstance(told, dict):
        told = {name: value for name, value in told.items() if name not in ROUTERS_OWN}
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()


def _side(
    mode: str, content_type: str, payload: bytes, settings: CaptureSettings, cut: set[str]
) -> dict[str, str]:
    if len(payload) > settings.max_payload_bytes:
        payload = payload[: settings.max_payload_bytes]
        cut.add(mode)
    media_type = content_type.partition(";")[0].strip().lower()
    if settings.redacts:
        redacted = redact(media_type, payload) if payload else b""
        payload = b"" if redacted is None else redacted
    text = _text(payload) if media_type == JSON else None
    return {
        "observedContentType": content_type,
        "mode": mode.upper(),
        "data": base64.b64encode(payload).decode() if text is None else text,
        "encoding": "BASE64" if text is None else "JSON",
    }


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
