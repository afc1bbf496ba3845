"""A request's prompt as the bytes that its tokens are made of: pure.

Two requests spelled differently, by spaces, escapes or the order of members, have the same bytes where an
engine makes the same prompt of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypertier.router.capture.redaction import REDACTED

BEFORE_MESSAGES = ("tools", "system", "instructions", "previous_response_id")
"""Members that chat templates put before the messages, in this order."""
PROMPTS = ("messages", "prompt", "input")
_TEXTS = ("text", "input_text", "output_text")
_NOT_RENDERED = ("cache_control",)
_BEFORE_ROLE, _BEFORE_CONTENT = "\x1e", "\x1f"
_MEDIA_CHARACTERS = 2048
"""Texts without a space that are longer, in parts that are no text: images and sounds in base64."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """`text` in UTF-8. `opening` ends with the first thing that a user said; None where it is no chat.

    `num_tokens` is known where the prompt came as tokens.
    """

    text: bytes
    opening: bytes | None
    is_redacted: bool
    num_tokens: int | None = None


def read_prompt(body: Mapping[str, Any]) -> Prompt | None:
    """The prompt of a request to `/v1/chat/completions`, `completions`, `responses`, `messages` or the like.

    None where there is none.
    """
    name = next((name for name in PROMPTS if body.get(name)), None)
    if name is None:
        return None
    value = body[name]
    said: list[str] = []
    pieces = [_canonical(body[before]) for before in BEFORE_MESSAGES if body.get(before)]
    num_opening = None
    num_tokens = len(value) if _are_tokens(value) else None
    if num_tokens is None and isinstance(value, list):
        for each in value:
            pieces.append(_message(each, said))
            if num_opening is None and isinstance(each, dict) and each.get("role") == "user":
                num_opening = len(pieces)
    else:
        text = value if isinstance(value, str) else _canonical(value)
        said.append(text)
        pieces.append(_BEFORE_CONTENT + text)
    return Prompt(
        _bytes("".join(pieces)),
        None if num_opening is None else _bytes("".join(pieces[:num_opening])),
        bool(said) and all(REDACTED.fullmatch(text) for text in said),
        num_tokens,
    )


def _are_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


def _message(message: Any, said: list[str]) -> str:
    """One message, or another entry of a list; what people and models said goes to `said`, too."""
    if not isinstance(message, dict):
        text = message if isinstance(message, str) else _canonical(message)
        said.append(text)
        return _BEFORE_ROLE + _BEFORE_CONTENT + text
    content = message.get("content")
    parts = content if isinstance(content, list) else [content or ""]
    text = "".join(_part(part, said) for part in parts)
    rest = {name: value for name, value in message.items() if name not in ("role", "content") and value}
    more = _canonical(rest) if rest else ""
    return f"{_BEFORE_ROLE}{message.get('role', '')}{_BEFORE_CONTENT}{text}{more}"


def _part(part: Any, said: list[str]) -> str:
    if isinstance(part, dict) and part.get("type") in _TEXTS and isinstance(part.get("text"), str):
        part = part["text"]
    if isinstance(part, str):
        if part:
            said.append(part)
        return part
    return _canonical(part)


def _canonical(value: Any) -> str:
    """JSON that is the same for the same value."""
    if isinstance(value, str):
        return value
    return json.dumps(_slim(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _slim(value: Any) -> Any:
    """Without what no template renders; media by their digest, as their bytes tell nothing of tokens."""
    if isinstance(value, Mapping):
        return {name: _slim(each) for name, each in value.items() if name not in _NOT_RENDERED}
    if isinstance(value, str):
        is_media = len(value) > _MEDIA_CHARACTERS and " " not in value
        return hashlib.blake2b(_bytes(value), digest_size=16).hexdigest() if is_media else value
    if isinstance(value, Sequence):
        return [_slim(each) for each in value]
    return value


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
