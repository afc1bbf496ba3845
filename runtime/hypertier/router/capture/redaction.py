"""A payload without what people and models said: by what may stay, so that nothing new slips through.

Stay: numbers, truth values, names of members, and the texts of a few members that say what a thing is, where
they look like a name. Every other text, and every list of numbers (tokens, embeddings), becomes its length.
"""

from __future__ import annotations

import json
import re
from typing import Any

KEPT = frozenset(
    (
        "finish_reason",
        "id",
        "model",
        "object",
        "role",
        "service_tier",
        "stop_reason",
        "system_fingerprint",
        "type",
    )
)
REDACTED = re.compile(r"\[\d+ (?:characters|numbers)\]")
"""What texts and lists of numbers become."""
_NAME = re.compile(r"[A-Za-z0-9._:/@+-]{1,128}")
_EVENT = re.compile(rb"event: ?([A-Za-z0-9._-]{1,64})")
_DATA = re.compile(rb"data: ?(.*)", re.DOTALL)


def redact(media_type: str, payload: bytes) -> bytes | None:
    """The payload of JSON, or of a stream of it, redacted; None where it can't be read, and is left out."""
    try:
        if media_type == "application/json":
            return _dumped(json.loads(payload))
        if media_type == "text/event-stream":
            return b"\n".join(map(_event_line, payload.replace(b"\r\n", b"\n").split(b"\n")))
    except (ValueError, RecursionError):
        pass
    return None


def _event_line(line: bytes) -> bytes:
    """One line of a stream. Raises ValueError for one that can't be read."""
    if not line or _EVENT.fullmatch(line) or line in (b"data: [DONE]", b"data:[DONE]"):
        return line
    data = _DATA.fullmatch(line)
    if data is None:
        raise ValueError("neither an event nor its data")
    return b"data: " + _dumped(json.loads(data[1]))


def _dumped(value: Any) -> bytes:
    return json.dumps(_redacted(value), separators=(",", ":")).encode()


def _redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: each if _stays(name, each) else _redacted(each) for name, each in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, int | float) for each in value):
            return f"[{len(value)} numbers]"
        return [_redacted(each) for each in value]
    return f"[{len(value)} characters]" if isinstance(value, str) else value


def _stays(name: str, value: Any) -> bool:
    return name in KEPT and isinstance(value, str) and _NAME.fullmatch(value) is not None
