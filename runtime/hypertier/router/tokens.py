"""Which of an engine's blocks a prompt's bytes are: asked of engines, off the way of requests.

An engine's `POST /tokenize` renders and tokenizes a prompt as its own completions do, chats included. What
it says of one prompt is kept for the blocks of bytes that the router knows the prompt by, and serves every
later prompt that begins with the same bytes.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from hypertier import http_client
from hypertier.errors import HttpError, TokenizeError
from hypertier.router import tls
from hypertier.router.kv_events import chain
from hypertier.router.openai import BLOCK_ENDS, Prompt
from hypertier.router.settings import Address

LINK_BYTES = 160
"""Memory of one link: 109 to 125 bytes by tracemalloc on CPython 3.11, with 70,000 to 200,000 of them."""
MAX_ANSWER_BYTES = 64 * 2**20

# What goes in front of the messages, or in the place of their text, where their bytes do not tell it; an
# adapter's blocks and salted ones are named by more than their tokens.
_UNLIKE = (
    "tools",
    "functions",
    "documents",
    "chat_template",
    "cache_salt",
    "prompt_embeds",
    "mm_processor_kwargs",
)
_CHAT_FIELDS = (
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "chat_template_kwargs",
)


class Tokens(NamedTuple):
    """A prompt's tokens, and how many characters of text each is."""

    ids: list[int]
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class Question:
    """The body of a `POST /tokenize`, and the length of the prompt's JSON in the request.

    `salt` is the `cache_salt` that the first block depends on beside its tokens; None where there is none.
    """

    body: bytes
    num_bytes: int
    salt: str | None = None


def question(prompt: Prompt) -> Question:
    """What to ask an engine about a prompt.

    Raises TokenizeError with the cause `unsupported` where the answer would not name the blocks that the
    engine will make of it.
    """
    try:
        request = json.loads(bytes(prompt.body))
        rest = bytes(prompt.body[prompt.start :]).decode().lstrip()
        value, end = json.JSONDecoder().raw_decode(rest)
    except (RecursionError, ValueError) as error:
        raise TokenizeError("unsupported", f"no JSON: {error}") from error
    if not isinstance(request, dict):
        raise TokenizeError("unsupported", "no JSON object")
    salt = prompt.seed.decode() or None
    if request.get("cache_salt") == salt:
        request.pop(
            "cache_salt", None
        )  # the router's own: blocks of bytes are seeded with it, as engines' are
    unlike = next((name for name in _UNLIKE if request.get(name)), None)
    if unlike is not None:
        raise TokenizeError("unsupported", f"it has {unlike}")
    asked: dict[str, Any] = {"return_token_strs": True}
    if isinstance(request.get("model"), str):
        asked["model"] = request["model"]
    if prompt.path == b"/v1/chat/completions" and _is_plain(value):
        asked |= {name: request[name] for name in _CHAT_FIELDS if name in request}
        asked["messages"] = value
    elif prompt.path == b"/v1/completions" and isinstance(value, str):
        asked |= {name: request[name] for name in ("add_special_tokens",) if name in request}
        asked["prompt"] = value
    else:
        raise TokenizeError("unsupported", "neither a text nor a chat of texts")
    return Question(json.dumps(asked).encode(), len(rest[:end].encode()), salt)


def _is_plain(messages: Any) -> bool:
    """All of the chat is text."""
    return isinstance(messages, list) and all(
        isinstance(message, dict) and isinstance(message.get("content"), str) and "tool_calls" not in message
        for message in messages
    )


def tokenize(address: Address, prompt: Prompt, timeout_seconds: float) -> tuple[Question, Tokens]:
    """Ask an engine for a prompt's tokens, and wait for them. Raises TokenizeError."""
    asked = question(prompt)
    return asked, ask(address, asked, timeout_seconds)


def ask(address: Address, asked: Question, timeout_seconds: float) -> Tokens:
    """Ask an engine, and wait for it. Raises TokenizeError with the cause `failed`."""
    try:
        status, text = http_client.ask(
            tls.connection(address.host, address.port, address.tls),
            "/tokenize",
            method="POST",
            body=asked.body,
            headers={"Content-Type": "application/json"},
            timeout_seconds=timeout_seconds,
            max_bytes=MAX_ANSWER_BYTES,
        )
    except HttpError as error:
        raise TokenizeError("failed", f"/tokenize {error}") from error
    if status != 200:
        raise TokenizeError("failed", f"/tokenize answered with {status}")
    return read_tokens(text)


def read_tokens(text: bytes) -> Tokens:
    """The answer of `/tokenize`. Raises TokenizeError with the cause `failed`."""
    try:
        answer = json.loads(text)
        ids = [int(token) for token in answer["tokens"]]
        lengths = [len(text) for text in answer["token_strs"]]
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise TokenizeError("failed", "/tokenize answered without tokens") from error
    if len(ids) != len(lengths):
        raise TokenizeError("failed", "/tokenize answered with other strings than tokens")
    return Tokens(ids, lengths)


def names_of(
    tokens: Tokens, block_size: int, num_bytes: int, num_blocks: int, salt: str | None = None
) -> list[int | None]:
    """For each of the first blocks of bytes, the name of the last block of tokens that it covers whole.

    None where it covers none. JSON escapes some characters and a chat's template adds some, so bytes are
    placed among tokens by the share of the text that stands before them. Raises KvEventError for numbers
    that are no tokens.
    """
    extra_keys: list[list[str] | None] = [None] * (len(tokens.ids) // block_size)
    if salt is not None and extra_keys:
        extra_keys[0] = [salt]  # vLLM's `generate_block_hash_extra_keys`: the first block alone has it
    names = list(chain(tokens.ids, block_size, extra_keys=extra_keys))
    ends = list(accumulate(tokens.lengths))
    total = ends[-1] if ends else 0
    found: list[int | None] = []
    for end in BLOCK_ENDS[:num_blocks]:
        num_tokens = bisect_left(ends, total * min(1.0, end / num_bytes)) if num_bytes else 0
        num_whole = min(num_tokens // block_size, len(names))
        found.append(names[num_whole - 1] if num_whole else None)
    return found


class Linked(NamedTuple):
    """What is known of a prompt's first blocks of bytes.

    `names` has the engines' blocks for those from number `first` to before number `num_known`, few of which
    are looked up; those before `first` cover no whole block of tokens. `is_confirmed`: an engine held some of
    them at some time.
    """

    names: Mapping[int, int]
    first: int
    is_confirmed: bool
    num_known: int


class Links:
    """Blocks of bytes -> blocks of tokens, within `capacity_bytes`: what was not used for longest goes first.

    There are two halves; when the young one is full, it becomes the old one, and what was not used since is
    forgotten. A block of bytes that covers no whole block of tokens has the name 0, which no engine's has.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._half = max(1, capacity_bytes // LINK_BYTES // 2)
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._confirmed: set[int] = set()

    @property
    def num_bytes(self) -> int:
        """Memory that they take, estimated."""
        return LINK_BYTES * (len(self._young) + len(self._old))

    def learn(self, block_hashes: Sequence[int], names: Sequence[int | None]) -> None:
        """These blocks of bytes are these blocks of tokens."""
        for block, name in zip(block_hashes, names, strict=False):
            before = self._name(block)
            if before is not None and before != (name or 0):
                self._confirmed.discard(block)
            self._old.pop(block, None)
            self._keep(block, name or 0)

    def knows(self, block_hashes: Sequence[int]) -> bool:
        """All of these are linked."""
        return not block_hashes or self._name(block_hashes[-1]) is not None

    def find(self, block_hashes: Sequence[int]) -> Linked:
        """As many of the first blocks as are linked."""
        num_known = bisect_left(block_hashes, True, key=lambda block: self._name(block) is None)
        if num_known and block_hashes[num_known - 1] in self._old:
            for block in block_hashes[:num_known]:
                old = self._old.pop(block, None)
                if old is not None:
                    self._keep(block, old)
        names = self._young
        first = 0
        while first < num_known and not names.get(block_hashes[first]):
            first += 1
        is_confirmed = first < num_known and block_hashes[first] in self._confirmed
        return Linked(names, first, is_confirmed, num_known)

    def confirm(self, block: int) -> None:
        """An engine holds what this is linked to."""
        if self._name(block) is not None:
            self._confirmed.add(block)

    def _name(self, block: int) -> int | None:
        name = self._young.get(block)
        return self._old.get(block) if name is None else name

    def _keep(self, block: int, name: int) -> None:
        if len(self._young) >= self._half and block not in self._young:
            self._young, self._old = {}, self._young
            self._confirmed = {block for block in self._confirmed if block in self._old}
        self._young[block] = name
