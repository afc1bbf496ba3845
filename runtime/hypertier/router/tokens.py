"""Which of an engine's blocks a prompt's bytes are: asked of engines, off the way of requests.

An engine's `POST /tokenize` renders and tokenizes a prompt as its own completions do, chats included. What
it says of one prompt is kept for the blocks of bytes that the router knows the prompt by, and serves every
later prompt that begins with the same bytes.
"""

from __future__ import annotations

import http.client
import json
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from hypertier.errors import TokenizeError
from hypertier.router.kv_events import chain
from hypertier.router.openai import BLOCK_ENDS, Prompt
from hypertier.router.settings import Address

LINK_BYTES = 256
"""Memory of one link: 226 bytes by tracemalloc on CPython 3.11, with 100,000 of them."""
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
    """The body of a `POST /tokenize`, and the length of the prompt's JSON in the request."""

    body: bytes
    num_bytes: int


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
    unlike = next((name for name in _UNLIKE if isinstance(request, dict) and request.get(name)), None)
    if not isinstance(request, dict) or unlike is not None:
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
    return Question(json.dumps(asked).encode(), len(rest[:end].encode()))


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
    connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout_seconds)
    try:
        connection.request("POST", "/tokenize", asked.body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read(MAX_ANSWER_BYTES)
        if response.status != 200:
            raise TokenizeError("failed", f"/tokenize answered with {response.status}")
        return read_tokens(text)
    except (OSError, http.client.HTTPException) as error:
        raise TokenizeError("failed", f"/tokenize: {error}") from error
    finally:
        connection.close()


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


def names_of(tokens: Tokens, block_size: int, num_bytes: int, num_blocks: int) -> list[int | None]:
    """For each of the first blocks of bytes, the name of the last block of tokens that it covers whole.

    None where it covers none. JSON escapes some characters and a chat's template adds some, so bytes are
    placed among tokens by the share of the text that stands before them. Raises KvEventError for numbers
    that are no tokens.
    """
    names = list(chain(tokens.ids, block_size))
    ends = list(accumulate(tokens.lengths))
    total = ends[-1] if ends else 0
    found: list[int | None] = []
    for end in BLOCK_ENDS[:num_blocks]:
        num_tokens = bisect_left(ends, total * min(1.0, end / num_bytes)) if num_bytes else 0
        num_whole = min(num_tokens // block_size, len(names))
        found.append(names[num_whole - 1] if num_whole else None)
    return found


@dataclass(slots=True)
class _Link:
    name: int | None
    confirmed: bool = False


class Linked(NamedTuple):
    """What is known of a prompt's first blocks of bytes.

    `names` are the engines' blocks for those from number `first` on; those before cover no whole block of
    tokens. Of `names`, the first `num_confirmed` were held by an engine at some time. `num_known` blocks of
    bytes are linked.
    """

    names: tuple[int, ...]
    first: int
    num_confirmed: int
    num_known: int


class Links:
    """Blocks of bytes -> blocks of tokens, within `capacity_bytes`; what was used longest ago goes first."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes // LINK_BYTES
        self._links: OrderedDict[int, _Link] = OrderedDict()

    @property
    def num_bytes(self) -> int:
        """Memory that they take, estimated."""
        return LINK_BYTES * len(self._links)

    def learn(self, block_hashes: Sequence[int], names: Sequence[int | None]) -> None:
        """These blocks of bytes are these blocks of tokens."""
        for block, name in zip(reversed(block_hashes[: len(names)]), reversed(names), strict=True):
            link = self._links.get(block)
            if link is None or link.name != name:
                self._links[block] = _Link(name)
            self._links.move_to_end(block)
        while len(self._links) > self._capacity:
            self._links.popitem(last=False)

    def knows(self, block_hashes: Sequence[int]) -> bool:
        """All of these are linked."""
        return all(block in self._links for block in block_hashes)

    def find(self, block_hashes: Sequence[int]) -> Linked:
        """As many of the first blocks as are linked."""
        names: list[int] = []
        first = num_confirmed = num_known = 0
        for block in block_hashes:
            link = self._links.get(block)
            if link is None:
                break
            num_known += 1
            if link.name is None:
                first += not names
            else:
                names.append(link.name)
                if link.confirmed:
                    num_confirmed = len(names)
        for block in reversed(block_hashes[:num_known]):
            self._links.move_to_end(block)
        return Linked(tuple(names), first, num_confirmed, num_known)

    def confirm(self, block_hashes: Sequence[int]) -> None:
        """An engine holds what these are linked to."""
        for block in block_hashes:
            link = self._links.get(block)
            if link is not None:
                link.confirmed = True
