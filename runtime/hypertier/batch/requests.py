"""The lines of a batch's input, in OpenAI's form, and the order in which they are sent.

`{"custom_id": ..., "method": "POST", "url": "/v1/chat/completions", "body": {...}}`, one a line:
https://platform.openai.com/docs/guides/batch (read 2026-12-02).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypertier.errors import BatchError
from hypertier.verification.answer import told

MAX_BYTES = 200 * 10**6
MAX_REQUESTS = 50_000
"""Both are OpenAI's."""
MAX_NAME_BYTES = 512
URLS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/rerank",
    "/v1/responses",
    "/v1/score",
)
_PROMPTS = ("messages", "prompt", "input", "query")


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One line: its name in the file, where it goes, and its body as JSON."""

    custom_id: str
    url: str
    body: bytes


def read_requests(lines: Iterable[bytes], file: str) -> list[BatchRequest]:
    """All requests of a file; blank lines are passed over.

    Raises:
        BatchError: the first line that is no request of the form, by its number, or too many of them.
    """
    found: list[BatchRequest] = []
    places: dict[str, int] = {}
    num_bytes = 0
    for number, line in enumerate(lines, start=1):
        num_bytes += len(line)
        if num_bytes > MAX_BYTES or len(found) == MAX_REQUESTS:
            raise BatchError(
                f"{file}:{number}: more than {MAX_REQUESTS:,} requests, or than {MAX_BYTES // 10**6} MB; "
                "split the file"
            )
        if not line.strip():
            continue
        try:
            request = _read(line)
        except ValueError as error:
            raise BatchError(f"{file}:{number}: {error}") from None
        if request.custom_id in places:
            raise BatchError(
                f"{file}:{number}: custom_id is {told(request.custom_id)}, as in line "
                f"{places[request.custom_id]}; expected another for each request"
            )
        places[request.custom_id] = number
        found.append(request)
    if not found:
        raise BatchError(f"{file}:1: there is no request; expected one JSON object a line")
    return found


def in_order_of_prompts(requests: Iterable[BatchRequest]) -> list[BatchRequest]:
    """What begins alike comes one after another, so that the beginning is still cached for the next."""
    return sorted(requests, key=lambda request: (request.url, *_prompt(request)))


def _prompt(request: BatchRequest) -> Iterator[bytes]:
    """The model, then what the prompt is: other fields, which come before it in many bodies, do not count."""
    body = json.loads(request.body)
    yield str(body.get("model")).encode()
    for name in _PROMPTS:
        if name in body:
            yield json.dumps(body[name]).encode()


def _read(line: bytes) -> BatchRequest:
    """Raises ValueError that says what is wrong."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{told(line)} is no JSON; expected one object a line") from None
    if not isinstance(read, dict):
        raise ValueError(f"{told(line)} is no object; expected custom_id, method, url and body")
    custom_id, body = read.get("custom_id"), read.get("body")
    if not isinstance(custom_id, str) or not 0 < len(custom_id.encode("utf-8", "replace")) <= MAX_NAME_BYTES:
        raise ValueError(f"custom_id is {told(custom_id)}; expected a text of 1 to {MAX_NAME_BYTES} bytes")
    if read.get("method") != "POST":
        raise ValueError(f"method is {told(read.get('method'))}; expected POST")
    if read.get("url") not in URLS:
        raise ValueError(f"url is {told(read.get('url'))}; expected one of {', '.join(URLS)}")
    if not isinstance(body, Mapping):
        raise ValueError(f"body is {told(body)}; expected an object")
    if body.get("stream"):
        raise ValueError("body.stream is true; expected false or nothing: a batch keeps whole answers")
    return BatchRequest(custom_id, read["url"], _dumped(body))


def _dumped(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
