"""A client of OpenAI's chat API that measures: time to first token, cached tokens, and who served."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hypertier.errors import HttpError, LabError
from hypertier.http_client import ask_url

REPLICA_HEADER = "x-hypertier-replica"
MAX_STATUS_BYTES = 2**20  # of an answer that is read for its status alone


@dataclass(frozen=True)
class Answer:
    """What came back. Times are seconds since it was sent; `ttft_seconds` is the time to the first token."""

    text: str
    served_by: str
    prompt_tokens: int
    cached_tokens: int
    ttft_seconds: float
    seconds: float


def ask(
    url: str,
    model: str,
    prompt: str,
    *,
    max_tokens: int = 32,
    timeout_seconds: float = 300.0,
    on_text: Callable[[str], None] = lambda text: None,
) -> Answer:
    """Send one prompt and read the streamed answer to its end.

    Raises:
        LabError: another status than 200, or an answer that breaks off.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_seconds)
    begin = time.monotonic()
    try:
        connection.request(
            "POST",
            "/v1/chat/completions",
            request_body(model, prompt, max_tokens),
            {"content-type": "application/json"},
        )
        response = connection.getresponse()
        if response.status != 200:
            raise LabError(f"{url} answered {response.status}: {response.read(500).decode(errors='replace')}")
        served_by = response.getheader(REPLICA_HEADER) or parts.netloc
        return read_answer(response, served_by, begin, on_text)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LabError(f"the answer of {url} broke off: {type(error).__name__}: {error}") from error
    finally:
        connection.close()


def request_body(model: str, prompt: str, max_tokens: int) -> bytes:
    """A streaming request whose answer is always the same, greedy, and ends with the usage."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(body).encode()


def read_answer(
    response: http.client.HTTPResponse, served_by: str, begin: float, on_text: Callable[[str], None]
) -> Answer:
    """Read the events of a streamed answer."""
    text = ""
    ttft: float | None = None
    usage: dict[str, Any] = {}
    done = False
    for event in events(response):
        if event is None:
            done = True
            continue
        if "error" in event:
            raise LabError(f"{served_by} answered with an error: {json.dumps(event['error'])[:500]}")
        usage = event.get("usage") or usage
        for choice in event.get("choices", ()):
            # The first event has the role alone. A token may be half a character and have no text.
            delta = choice.get("delta") or {}
            piece = delta.get("content")
            if piece is None or (piece == "" and "role" in delta):
                continue
            ttft = ttft if ttft is not None else time.monotonic() - begin
            text += piece
            on_text(piece)
    if not done:
        raise LabError(f"{served_by} broke its answer off after {len(text)} characters")
    details = usage.get("prompt_tokens_details") or {}
    seconds = time.monotonic() - begin
    return Answer(
        text=text,
        served_by=served_by,
        prompt_tokens=int(usage.get("prompt_tokens", 0)),
        cached_tokens=int(details.get("cached_tokens") or 0),
        ttft_seconds=seconds if ttft is None else ttft,
        seconds=seconds,
    )


def events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any] | None]:
    """Yield the data of server-sent events; None for the last one, `[DONE]`. Raises ValueError."""
    for line in response:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            event = None if data == b"[DONE]" else json.loads(data)
            if event is not None and not isinstance(event, dict):
                raise ValueError(f"an event is no object: {data[:100].decode(errors='replace')}")
            yield event


def post(url: str, timeout_seconds: float = 30.0) -> int:
    """Send an empty POST and return the status.

    Raises:
        LabError: no answer.
    """
    try:
        status, _ = ask_url(
            url, method="POST", body=b"", timeout_seconds=timeout_seconds, max_bytes=MAX_STATUS_BYTES
        )
    except HttpError as error:
        raise LabError(f"{url} {error}") from error
    return status
