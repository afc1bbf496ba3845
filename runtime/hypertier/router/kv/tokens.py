"""Which of an engine's blocks a prompt's bytes are: asked of engines, off the way of requests.

An engine's `POST /tokenize` renders and tokenizes a prompt as its own completions do, chats included. What
it says of one prompt is kept for the blocks of bytes that the router knows the prompt by, and serves every
later prompt that begins with the same bytes.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

from hypertier import http_client
from hypertier.errors import HttpError, TokenizeError
from hypertier.router.api.openai import BLOCK_ENDS, Prompt
from hypertier.router.discovery.addresses import Address
from hypertier.router.http import tls
from hypertier.router.kv import token_answer
from hypertier.router.kv.kv_events import chain

LINK_BYTES = 160
"""Memory of one link: 109 to 125 bytes by tracemalloc on CPython 3.11, with 70,000 to 200,000 of them."""
MAX_ANSWER_BYTES = 64 * 2**20

# What an engine renders otherwise than `/tokenize`, or names by more than tokens that are known here.
_UNLIKE = ("functions", "prompt_embeds", "mm_processor_kwargs")
_CHAT_FIELDS = (
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "chat_template",
    "chat_template_kwargs",
)
_MODELS_BYTES = 4 * 2**20


class Tokens(NamedTuple):
    """A prompt's tokens, and how many characters of text each is."""

    ids: list[int]
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class Question:
    """The body of a `POST /tokenize`, and the length of the prompt's JSON in the request.

    `bare` is the same without the tools and documents that are rendered among the messages, `salt` the
    `cache_salt` that the first block depends on beside its tokens; None where there are none. `model` is what
    the request asks for, an adapter perhaps.
    """

    body: bytes
    num_bytes: int
    salt: str | None = None
    bare: bytes | None = None
    model: str | None = None


class Inserted(NamedTuple):
    """What stands in the rendered text and not in the prompt's bytes: so many characters, and where."""

    at: int = 0
    length: int = 0


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
    salt = request.get("cache_salt") or None
    if salt is not None and salt != prompt.seed.decode("utf-8", "replace"):
        # It stands where the router does not look, or is written with escapes: nothing is seeded with it.
        raise TokenizeError("unsupported", "it has cache_salt")
    unlike = next((name for name in _UNLIKE if request.get(name)), None)
    if unlike is not None:
        raise TokenizeError("unsupported", f"it has {unlike}")
    model = request.get("model") if isinstance(request.get("model"), str) else None
    asked: dict[str, Any] = {"return_token_strs": True}
    if model is not None:
        asked["model"] = model
    bare = None
    if prompt.path == b"/v1/chat/completions" and _is_text(value):
        asked |= {name: request[name] for name in _CHAT_FIELDS if name in request}
        asked["messages"] = value
        added = _added(request)
        if added:
            bare = json.dumps(asked).encode()
            asked |= added
    elif prompt.path == b"/v1/completions" and isinstance(value, str):
        asked |= {name: request[name] for name in ("add_special_tokens",) if name in request}
        asked["prompt"] = value
    else:
        raise TokenizeError("unsupported", "neither a text nor a chat of texts")
    return Question(json.dumps(asked).encode(), len(rest[:end].encode()), salt, bare, model)


def _added(request: dict[str, Any]) -> dict[str, Any]:
    """What a chat's template gets beside its messages, as `/tokenize` takes it: none of it is in their bytes.

    vLLM hands `documents` and `reasoning_effort` to the template (`ChatCompletionRequest.build_chat_params`,
    vLLM 0.32, read 2026-12-01); `/tokenize` takes them among the template's own arguments alone.
    """
    added: dict[str, Any] = {}
    if request.get("tools"):
        # An engine that leaves them out where `tool_choice` is `none` holds others: those stay not confirmed.
        added["tools"] = request["tools"]
    given = request.get("chat_template_kwargs")
    given = given if isinstance(given, dict) else {}
    more: dict[str, Any] = {}
    if request.get("documents"):
        more["documents"] = request["documents"]
    effort = request.get("reasoning_effort")
    if effort is not None:
        more["reasoning_effort"] = effort
        if "enable_thinking" not in given:
            more["enable_thinking"] = effort != "none"
    if more:
        added["chat_template_kwargs"] = {**given, **more}
    return added


def _is_text(messages: Any) -> bool:
    """All of the chat is text, calls of tools among it."""
    return isinstance(messages, list) and all(
        isinstance(message, dict) and isinstance(message.get("content"), str | None) for message in messages
    )


def tokenize(address: Address, prompt: Prompt, timeout_seconds: float) -> tuple[Question, Tokens, Inserted]:
    """Ask an engine for a prompt's tokens, and wait for them. Raises TokenizeError."""
    asked = question(prompt)
    tokens = ask(address, asked, timeout_seconds)
    if asked.bare is None:
        return asked, tokens, Inserted()
    return asked, tokens, inserted(tokens, ask(address, replace(asked, body=asked.bare), timeout_seconds))


def inserted(tokens: Tokens, bare: Tokens) -> Inserted:
    """What `tokens` have that `bare` have not: one run, where the two begin to differ."""
    pairs = enumerate(zip(tokens.ids, bare.ids, strict=False))
    shared = next((i for i, (one, other) in pairs if one != other), min(len(tokens.ids), len(bare.ids)))
    length = sum(tokens.lengths) - sum(bare.lengths)
    return Inserted(sum(tokens.lengths[:shared]), max(0, length))


def ask(address: Address, asked: Question, timeout_seconds: float) -> Tokens:
    """Ask an engine, and wait for it. Raises TokenizeError with the cause `failed`."""
    return read_tokens(_asked(address, "/tokenize", asked.body, timeout_seconds, MAX_ANSWER_BYTES))


def is_adapter(address: Address, model: str, timeout_seconds: float) -> bool:
    """Whether an engine serves that name as a LoRA adapter: one that its `/v1/models` gives a parent.

    One that lists nothing has none. Raises TokenizeError with the cause `failed` where it can't be asked.
    """
    text = _asked(address, "/v1/models", None, timeout_seconds, _MODELS_BYTES)
    try:
        entries = json.loads(text)["data"]
        return any(entry["id"] == model and entry.get("parent") is not None for entry in entries)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return False


def _asked(address: Address, path: str, body: bytes | None, timeout_seconds: float, max_bytes: int) -> bytes:
    try:
        reply = http_client.exchange(
            tls.connection(address.host, address.port, address.tls),
            path,
            method="GET" if body is None else "POST",
            body=body,
            headers={} if body is None else {"Content-Type": "application/json"},
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
        )
    except HttpError as error:
        raise TokenizeError("failed", f"{path} {error}") from error
    if reply.status != 200:
        raise TokenizeError("failed", f"{path} answered with {reply.status}")
    return reply.body


def read_tokens(text: bytes) -> Tokens:
    """The answer of `/tokenize`. Raises TokenizeError with the cause `failed`."""
    try:
        ids, lengths = token_answer.read(text)
    except ValueError as error:
        raise TokenizeError("failed", "/tokenize answered without tokens") from error
    if len(ids) != len(lengths):
        raise TokenizeError("failed", "/tokenize answered with other strings than tokens")
    return Tokens(ids, lengths)


def names_of(
    tokens: Tokens,
    block_size: int,
    num_bytes: int,
    num_blocks: int,
    *,
    salt: str | None = None,
    adapter: str | None = None,
    more: Inserted | None = None,
) -> list[int | None]:
    """For each of the first blocks of bytes, the name of the last block of tokens that it covers whole.

    None where it covers none. JSON escapes some characters and a chat's template adds some, so bytes are
    placed among tokens by the share of the text that stands before them, what is `Inserted` left out. Raises
    KvEventError for numbers that are no tokens.
    """
    ends = list(accumulate(tokens.lengths))
    skipped_at, skipped = more or Inserted()
    total = ends[-1] - skipped if ends else 0
    found: list[int] = []
    for end in BLOCK_ENDS[:num_blocks]:
        at = total * min(1.0, end / num_bytes) if num_bytes else 0.0
        num_tokens = bisect_left(ends, at + skipped if at > skipped_at else at)
        found.append(min(num_tokens, len(tokens.ids)) // block_size)
    # As vLLM's `generate_block_hash_extra_keys`: all blocks have the adapter, the first alone has the salt.
    num_named = max(found, default=0)
    own = [] if adapter is None else [adapter]
    extra_keys = [own] * num_named
    if salt is not None and extra_keys:
        extra_keys[0] = [*own, salt]
    names = list(chain(tokens.ids[: num_named * block_size], block_size, extra_keys=extra_keys))
    return [names[num_whole - 1] if num_whole else None for num_whole in found]


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

    def learn(self, block_hashes: Sequence[int], names: Sequence[int | None]) -> bool:
        """These blocks of bytes are these blocks of tokens; true where some were others before."""
        is_changed = False
        for block, name in zip(block_hashes, names, strict=False):
            before = self._name(block)
            if before is not None and before != (name or 0):
                self._confirmed.discard(block)
                is_changed = True
            self._old.pop(block, None)
            self._keep(block, name or 0)
        return is_changed

    def forget(self) -> None:
        """Nothing is linked."""
        self._young, self._old = {}, {}
        self._confirmed = set()

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
