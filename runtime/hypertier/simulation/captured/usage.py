"""What an answer tells of its tokens: `usage`, in one piece or at the end of a stream. Pure.

OpenAI's APIs name it `prompt_tokens` and `completion_tokens`, or `input_tokens` and `output_tokens`.
Anthropic's `input_tokens` leave out what was cached, in vLLM's Messages API as well
(https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/anthropic/serving.py, read 2026-12-03).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_TOKENS = 10**7
"""More is believed of no request: longer than any model's context."""
_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, each None where the answer does not tell; then `text_bytes`, of UTF-8, may help."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    text_bytes: int | None = None


def read_usage(answer: bytes) -> Usage:
    """Read an answer as far as it can be read; what can't tells nothing."""
    num_input = num_output = text_bytes = None
    for event in _events(answer):
        if not isinstance(event, dict):
            continue
        for holder in (event, event.get("response"), event.get("message")):
            told = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(told, dict):
                num_input, num_output = _input(told) or num_input, _first(told, "output") or num_output
        if isinstance(choices := event.get("choices"), list):
            text_bytes = (text_bytes or 0) + sum(map(_text_bytes, choices))
    return Usage(num_input, num_output, text_bytes)


def _events(answer: bytes) -> Iterator[Any]:
    """The one object of an answer of JSON, or those of a stream of events."""
    is_json = answer.lstrip()[:1] == b"{"
    for line in [answer] if is_json else answer.splitlines():
        data = line if is_json else line.removeprefix(b"data:") if line.startswith(b"data:") else b""
        try:
            yield json.loads(data)
        except (ValueError, RecursionError):
            continue  # an empty line, [DONE], or broken off


def _input(told: Mapping[str, Any]) -> int | None:
    base = _first(told, "input")
    cached = sum(_tokens(told.get(name)) or 0 for name in _CACHED)
    return base if base is None and not cached else min((base or 0) + cached, MOST_TOKENS)


def _first(told: Mapping[str, Any], side: str) -> int | None:
    names = ("prompt_tokens", "input_tokens") if side == "input" else ("completion_tokens", "output_tokens")
    return next((found for name in names if (found := _tokens(told.get(name))) is not None), None)


def _tokens(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _text_bytes(choice: Any) -> int:
    """Of what a choice, or its piece in a stream, says: content, reasoning, arguments of tools."""
    if not isinstance(choice, dict):
        return 0
    said = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    if not isinstance(said, dict):
        return 0
    texts = [said.get(name) for name in ("content", "reasoning", "reasoning_content")]
    for call in said.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        texts += [function.get("name"), function.get("arguments")] if isinstance(function, dict) else []
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str))
