"""A streamed answer that broke off, and how it is gone on with: the request for the rest, and its pieces.

vLLM tells the tokens of a prompt and of each piece where `return_token_ids` is asked for, and takes a prompt
as tokens at `/v1/completions` (its protocol.py for completions and chats, 0.32, read 2026-12-02). So the rest
of an answer is the completion of its prompt and what was written, token by token; nothing is rendered or
tokenized anew. Dynamo calls this migration
(https://docs.nvidia.com/dynamo/v1.6.2/kubernetes/fault-tolerance/request-migration.md, read 2026-12-02).

A prompt that ends inside a character has vLLM write all of it once more: its detokenizer, `tokenizers`'
DecodeStream, begins behind the first place at which text is whole (tried with tokenizers 0.23.3). So tokens
whose text did not come out yet are dropped and computed again; see `Transcript.seam`.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Awaitable, Callable
from types import NoneType
from typing import Any, Final

import msgspec

from hypertier.router.http.wire import BodyBudget
from hypertier.router.migration.token_ids import without_ids

PATHS: Final = (b"/v1/chat/completions", b"/v1/completions")
PATH: Final = b"/v1/completions"
ASKED: Final = {"return_token_ids": True}
TOKEN_BYTES: Final = 4
MAX_DROPPED: Final = 16
"""A character has at most four bytes; models that write bytes which are none may go on for longer."""
DEFAULT_MAX_TOKENS: Final = 16
"""Of a completion that says none (vLLM's protocol.py, as above); a chat goes on to the model's end."""
_NO_CHARACTER: Final = "\ufffd"

# As they are in the request for the rest.
_CARRIED: Final = frozenset(
    {
        "model",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "seed",
        "user",
        "stop_token_ids",
        "ignore_eos",
        "priority",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "include_stop_str_in_output",
        "logit_bias",
        "allowed_token_ids",
        "cache_salt",
        "stream_options",
        "stream_interval",
        "session_id",
    }
)
# Written anew, or they make a prompt of what is in the request, which the tokens are already.
_LEFT_OUT: Final = frozenset(
    {
        "prompt",
        "messages",
        "stream",
        "max_tokens",
        "max_completion_tokens",
        "min_tokens",
        "add_special_tokens",
        "add_generation_prompt",
        "continue_final_message",
        "chat_template",
        "chat_template_kwargs",
        "documents",
        "reasoning_effort",
        "truncate_prompt_tokens",
        "truncation_side",
        "request_id",
        "kv_transfer_params",
        "ec_transfer_params",
        "parallel_tool_calls",
        "tool_choice",
        "length_penalty",
        "metadata",
        "store",
        "service_tier",
    }
)
# What keeps a state that no other engine has, or a shape that no completion has; and where it says nothing.
_UNUSED: Final[dict[str, tuple[Any, ...]]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None,),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "prompt_logprobs": (None,),
    "use_beam_search": (None, False),
    "tools": (None, []),
    "response_format": (None, {"type": "text"}),
    "structured_outputs": (None,),
    "stop": (None, [], ""),
    "presence_penalty": (None, 0, 0.0),
    "frequency_penalty": (None, 0, 0.0),
    "bad_words": (None, []),
    "thinking_token_budget": (None,),
    "repetition_detection": (None,),
    "return_token_ids": (None, False),
    "include_reasoning": (None, True),  # hidden, its tokens are not told, and a completion would show it
}
_NUMBERS: Final = ("max_tokens", "max_completion_tokens", "min_tokens")
_KNOWN: Final = frozenset([*_CARRIED, *_LEFT_OUT, *_UNUSED])
_OTHER_MEDIA: Final = re.compile(
    rb'"type"\s*+:\s*+"(?!(?:text|function|refusal)")|"(?:image|input_|audio|video|file)[a-z_]*+"\s*+:'
)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Plan:
    """What is known of a request that can be gone on with: `carried` is in the request for the rest."""

    __slots__ = ("carried", "is_chat", "max_tokens", "min_tokens", "tells_usage")

    def __init__(self, is_chat: bool, carried: dict[str, Any]) -> None:
        self.is_chat = is_chat
        self.carried = carried
        self.max_tokens: int | None = None
        self.min_tokens = 0
        options = carried.get("stream_options")
        told = options if isinstance(options, dict) else {}
        self.tells_usage = bool(told.get("include_usage"))


def plan(path: bytes, body: bytes | bytearray) -> Plan | str:
    """How this streamed request is gone on with; or the name of what in it forbids that."""
    try:
        raw = _fields.decode(body)
        for name, harmless in _UNUSED.items():
            if name in raw and not _is_one_of(msgspec.json.decode(raw[name]), harmless):
                return name
        if not all(name in _KNOWN for name in raw):
            return "other_field"
        if not _has_one_prompt(raw):
            return "prompt"
        numbers = {name: msgspec.json.decode(raw[name]) for name in _NUMBERS if name in raw}
        for name, number in numbers.items():
            if type(number) not in (int, NoneType):  # engines take 16.0 and "16" for 16, and more of the kind
                return name
        made = Plan(path != PATH, {name: msgspec.json.decode(raw[name]) for name in _CARRIED if name in raw})
        made.max_tokens = numbers.get("max_tokens")
        if made.is_chat and numbers.get("max_completion_tokens") is not None:
            made.max_tokens = numbers["max_completion_tokens"]
        if made.max_tokens is None and not made.is_chat:
            made.max_tokens = DEFAULT_MAX_TOKENS
        made.min_tokens = numbers.get("min_tokens") or 0
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return "malformed"
    return made


def _is_one_of(value: Any, harmless: tuple[Any, ...]) -> bool:
    """`0`, which asks for the likelihood of what was written, is not `false`."""
    return any(type(value) is type(one) and value == one for one in harmless)


def _has_one_prompt(raw: dict[str, Any]) -> bool:
    """One, and of text alone: images are in no token."""
    if "messages" in raw:
        return "prompt" not in raw and _OTHER_MEDIA.search(bytes(raw["messages"])) is None
    if "prompt" not in raw:
        return False
    prompt = msgspec.json.decode(raw["prompt"])
    if isinstance(prompt, list):
        return bool(prompt) and (len(prompt) == 1 or isinstance(prompt[0], int))
    return isinstance(prompt, str)


class Transcript:
    """What of an answer the client has, event by event, across the engines that wrote it.

    `lost` names why it can't be gone on with. `fault` is the last event, where it is an engine's failure
    told inside the stream. The answer `is_finished` with its finish reason, and `is_ended` with `[DONE]`.
    Tokens are kept as far as `budget` has room.
    """

    def __init__(self, made: Plan, budget: BodyBudget) -> None:
        self.lost = ""
        self.fault = b""
        self.is_finished = False
        self.is_ended = False
        self._plan = made
        self._budget = budget
        self._num_held_bytes = 0
        self._is_first = True  # of its engines
        self._usage_told = False
        self._head: dict[str, Any] = {}
        self._prompt: array[int] = array("I")
        self._kept: array[int] = array("I")
        self._open: list[int] = []  # tokens since, of whose text the last may be missing
        self._open_has_text = False
        self._num_prompt = 0
        self._num_before = 0  # tokens that engines before this one wrote
        self._num_told = 0  # tokens by the usage of its pieces

    def read(self, event: bytes) -> bytes:
        """An event of an engine's as the client gets it, both with the empty line at the end."""
        if event.startswith(b":"):  # a comment, as engines keep connections alive with
            return event
        data = event[5:].strip() if event.startswith(b"data:") else b""
        if data == b"[DONE]":
            self.is_ended = True
            return event
        try:
            told = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            told = None
        if not isinstance(told, dict):
            self.lose("malformed")
            return without_ids(event)
        if _is_fault(told):
            self.fault = event
            return b""
        choice = _choice(told)
        if choice is not None:
            self._read_choice(told, choice)
        elif told.get("choices"):
            self.lose("malformed")
        if told.get("usage") is not None:
            self._usage_told = self._usage_told or choice is None
            self._num_told = max(self._num_told, self._num_before + _num_written(told["usage"]))
        if self._is_first:
            return without_ids(event)
        return b"data: %b\n\n" % msgspec.json.encode(self._reshaped(told, choice))

    def anew(self) -> Transcript:
        """Of another answer to the same request, since the client saw nothing of this one."""
        self.lose("anew")
        return Transcript(self._plan, self._budget)

    @property
    def has_begun(self) -> bool:
        """An engine wrote a piece."""
        return bool(self._head)

    @property
    def has_token(self) -> bool:
        """The engine that writes now has begun to."""
        return len(self._kept) + len(self._open) > self._num_before

    def has_limit(self, context_tokens: int | None) -> bool:
        """It is known how many tokens the whole may have."""
        return self._plan.max_tokens is not None or context_tokens is not None

    def lose(self, why: str) -> None:
        """It can't be gone on with any more: nothing more of it is kept."""
        self.lost = self.lost or why
        self._prompt, self._kept, self._open = array("I"), array("I"), []
        self._budget.give(self._num_held_bytes)
        self._num_held_bytes = 0

    def pass_on(self, why: str) -> bytes:
        """The failure that an engine told is the client's."""
        self.lose(why)
        event, self.fault = self.fault, b""
        return without_ids(event)

    async def seam(self, text_of: Callable[[list[int]], Awaitable[str]]) -> bool:
        """Drop the tokens at the end whose text the client has not; False where that can't be told.

        `text_of` tokens is asked for only where a piece had several, and one of them may be half a character.
        """
        if not self._open_has_text:
            self._open = []
        for _ in range(MAX_DROPPED):
            if not self._open or not (await text_of(self._open[-MAX_DROPPED:])).endswith(_NO_CHARACTER):
                self._close()
                return True
            self._open.pop()
        return False

    def rest(self, context_tokens: int | None) -> bytes | str:
        """The request for the rest, its body; or why there is none. `context_tokens` are the model's."""
        if not self._prompt:  # it broke off inside its first piece
            return "no_token_ids"
        written = len(self._kept)
        limit = self._plan.max_tokens
        if limit is None:
            if context_tokens is None:
                return "context"
            limit = context_tokens - len(self._prompt)
        if limit <= written:
            return "context"
        self._num_before = written
        self._is_first = False
        self.fault = b""
        asked = {
            **self._plan.carried,
            "prompt": [*self._prompt, *self._kept],
            "stream": True,
            "max_tokens": limit - written,
            "min_tokens": max(0, self._plan.min_tokens - written),
            **ASKED,
        }
        return json.dumps(asked, separators=(",", ":")).encode()

    def ending(self) -> bytes:
        """What is missing behind the last piece of a finished answer."""
        if self.is_ended:
            return b""
        usage = b""
        if self._plan.tells_usage and not self._usage_told:
            told = {**self._head, "choices": [], "usage": self._usage(len(self._kept) + len(self._open))}
            usage = b"data: %b\n\n" % msgspec.json.encode(told)
        return usage + b"data: [DONE]\n\n"

    def _read_choice(self, told: dict[str, Any], choice: dict[str, Any]) -> None:
        """Keep its tokens."""
        self.is_finished = self.is_finished or choice.get("finish_reason") is not None
        if not self._head:
            self._head = {name: told[name] for name in ("id", "object", "created", "model") if name in told}
            prompt = told.get("prompt_token_ids") or choice.get("prompt_token_ids")
            if not prompt:
                self.lose("no_token_ids")
            else:
                self._read_prompt(_ids(prompt))
        delta = choice.get("delta")
        if isinstance(delta, dict):
            if "role" in delta and not delta.get("content") and choice.get("token_ids") is None:
                return
            if not delta.keys() <= {"role", "content"} or "content" not in delta:
                self.lose("parsed")  # as reasoning, say: a completion is not
        elif delta is not None:
            self.lose("malformed")
            return
        text = choice.get("text") if delta is None else delta.get("content")
        if choice.get("token_ids") is None:
            self.lose("no_token_ids")
            return
        tokens = _ids(choice["token_ids"])
        if tokens is None:
            self.lose("malformed")
        elif not self.lost and self._hold(len(tokens)):
            self._open += tokens
            if text and len(tokens) == 1:
                self._close()
            elif text:
                self._open_has_text = True

    def _read_prompt(self, prompt: array[int] | None) -> None:
        if prompt is None:
            self.lose("malformed")
            return
        self._num_prompt = len(prompt)
        if self._hold(len(prompt)):
            self._prompt = prompt

    def _hold(self, num_tokens: int) -> bool:
        num_bytes = TOKEN_BYTES * num_tokens
        if not self._budget.take(num_bytes):
            self.lose("no_room")
            return False
        self._num_held_bytes += num_bytes
        return True

    def _close(self) -> None:
        self._kept.extend(self._open)
        self._open, self._open_has_text = [], False

    def _reshaped(self, told: dict[str, Any], choice: dict[str, Any] | None) -> dict[str, Any]:
        """A piece of the rest, as one of the answer that it is the rest of."""
        told = {**told, **self._head}
        usage = told.get("usage")
        if isinstance(usage, dict):
            # Tokens that were dropped at the seam were counted, and come again.
            is_so_far = choice is not None
            num_written = self._num_told if is_so_far else self._num_before + _num_written(usage)
            told["usage"] = self._usage(num_written, usage)
        if choice is not None:
            choice = {**choice, "token_ids": None, "prompt_token_ids": None}
            if self._plan.is_chat:
                del choice["prompt_token_ids"]
                choice["delta"] = {"content": choice.pop("text", "")}
                if choice.get("finish_reason") is None:  # a chat's pieces have no such member before the last
                    choice.pop("stop_reason", None)
            told["choices"] = [choice]
        return told

    def _usage(self, num_written: int, told: dict[str, Any] | None = None) -> dict[str, Any]:
        """Of the whole answer; what an engine `told` of the rest counts what was written as prompt."""
        num_prompt = self._num_prompt
        usage = {
            **(told or {}),
            "prompt_tokens": num_prompt,
            "completion_tokens": num_written,
            "total_tokens": num_prompt + num_written,
        }
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict) and isinstance(details.get("cached_tokens"), int):
            cached = min(details["cached_tokens"], num_prompt)
            usage["prompt_tokens_details"] = {**details, "cached_tokens": cached}
        return usage


def _ids(told: Any) -> array[int] | None:
    """Tokens that an engine told; None where it told something else."""
    try:
        return array("I", told) if isinstance(told, list) else None
    except (TypeError, OverflowError):
        return None


def _num_written(usage: Any) -> int:
    """By the `usage` that an engine told."""
    told = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return told if type(told) is int else 0


def _is_fault(told: dict[str, Any]) -> bool:
    """The engine failed, or was ended, and says so in place of a piece."""
    error = told.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        return isinstance(code, int) and code >= 500
    choice = _choice(told)
    return choice is not None and choice.get("finish_reason") == "abort"


def _choice(told: dict[str, Any]) -> dict[str, Any] | None:
    """There is one at most, where one was asked for."""
    choices = told.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None
