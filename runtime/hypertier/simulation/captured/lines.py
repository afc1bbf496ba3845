"""A line of a file that was captured, or of one of requests, as what a trace needs of it: pure.

Understood are SageMaker's capture files, as the router writes them, and a JSON object with `body`, as in
OpenAI's batch files, or a request's body itself; with `timestamp` where it has a time, and with `response`
where it has an answer. No message has a word of the line.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from hypertier.simulation.captured.prompt import PROMPTS, Prompt, read_prompt
from hypertier.simulation.captured.usage import MOST_TOKENS, Usage, read_usage

FORMS = "a captured request, or an object with body, or a request with messages, prompt or input"
_MOST_TOKENS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


class LeftOut(StrEnum):
    """Why a whole line is in no trace."""

    REDACTED = "redacted: lengths alone don't show which prompts begin alike (--capture-redact)"
    NO_REQUEST = "without the request (--capture-mode Output alone)"
    CUT = "cut off (--capture-max-payload-kb): the longest prompts are missing in the trace"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and what is known of its answer. `at` is in seconds, None where none was told.

    `max_tokens` is what the client let the answer have; `continues` says that the engine keeps what came
    before.
    """

    at: float | None
    model: str
    salt: str
    prompt: Prompt
    usage: Usage
    max_tokens: int | None = None
    continues: bool = False


def read_line(line: bytes) -> Exchange | LeftOut:
    """Read one line.

    Raises:
        ValueError: it is something else; says what was expected.
    """
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"no JSON; expected {FORMS}") from None
    if not isinstance(told, dict):
        raise ValueError(f"no object; expected {FORMS}")
    if "hash_ids" in told:
        raise ValueError(f"a line of a trace; expected {FORMS}")
    try:
        return _captured(told) if "captureData" in told else _sent(told)
    except RecursionError:
        raise ValueError(f"too deep; expected {FORMS}") from None


def _captured(told: Mapping[str, Any]) -> Exchange | LeftOut:
    captured, metadata = told["captureData"], told.get("eventMetadata")
    if not isinstance(captured, dict) or not isinstance(metadata, dict):
        raise ValueError("no captureData and eventMetadata that are objects")
    at = _time(metadata.get("inferenceTime"), "eventMetadata.inferenceTime")
    answer = _payload(captured, "endpointOutput")
    payload = _payload(captured, "endpointInput")
    if payload is None:
        return LeftOut.NO_REQUEST
    attributes = metadata.get("customAttributes")
    is_cut = isinstance(attributes, list) and "truncated=INPUT" in attributes
    try:
        body = json.loads(payload)
    except (ValueError, RecursionError):
        if is_cut:
            return LeftOut.CUT
        raise ValueError("no request in JSON in captureData.endpointInput") from None
    return _exchange(at, body, Usage() if answer is None else read_usage(answer))


def _payload(captured: Mapping[str, Any], name: str) -> bytes | None:
    side = captured.get(name)
    if side is None:
        return None
    data = side.get("data") if isinstance(side, dict) else None
    if not isinstance(data, str):
        raise ValueError(f"no text in captureData.{name}.data")
    try:
        if side.get("encoding") == "BASE64":
            return base64.b64decode(data, validate=True)
    except ValueError:
        raise ValueError(f"no base64 in captureData.{name}.data") from None
    return data.encode("utf-8", "surrogatepass")


def _sent(told: dict[str, Any]) -> Exchange | LeftOut:
    at = _time(told["timestamp"], "timestamp") if "timestamp" in told else None
    response = told.get("response")
    answer = response.get("body", response) if isinstance(response, dict) else None
    return _exchange(at, told.get("body", told), read_usage(json.dumps(answer).encode()))


def _exchange(at: float | None, body: Any, usage: Usage) -> Exchange | LeftOut:
    if not isinstance(body, dict):
        raise ValueError("a request that is no object")
    prompt = read_prompt(body)
    if prompt is None or not prompt.text:
        raise ValueError(f"a request without a prompt; expected one of {', '.join(PROMPTS)}")
    if prompt.is_redacted:
        return LeftOut.REDACTED
    model, salt = body.get("model"), body.get("cache_salt")
    allowed = [body[name] for name in _MOST_TOKENS if type(body.get(name)) is int]
    return Exchange(
        at,
        model if isinstance(model, str) else "",
        salt if isinstance(salt, str) else "",
        prompt,
        usage,
        min(max(allowed[0], 0), MOST_TOKENS) if allowed else None,
        bool(body.get("previous_response_id")),
    )


def _time(value: Any, name: str) -> float:
    """Seconds since 1970, of such a number or of a time in ISO 8601, which is UTC where it does not say."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if type(value) in (int, float) and math.isfinite(value) and 0 <= value < 1e11:
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"no time in {name}; expected seconds since 1970, or 2026-12-03T07:00:00Z")
