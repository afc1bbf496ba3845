"""One streamed answer of a completion, read as its bytes come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypertier.errors import AnswerError

MAX_SHOWN = 300
MAX_COUNT = 10**12


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `ttft_seconds` is the time to the first token, `cached_tokens` None where not told.

    `strategy` is the one that chose the replica, where the request wished for one and it is told.
    `tokens` are the tokens' texts, or pieces of text where the engine told no tokens. `likely` has for each
    token the log probabilities of the likeliest ones, as far as they were told.
    """

    replica: str | None
    strategy: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    tokens: tuple[str, ...]
    likely: tuple[Mapping[str, float], ...]
    ttft_seconds: float

    @property
    def text(self) -> str:
        """The answer itself."""
        return "".join(self.tokens)

    def holds(self, ratio: float) -> bool:
        """Whether so much of its prompt came from a cache."""
        return bool(self.prompt_tokens) and (self.cached_tokens or 0) >= ratio * (self.prompt_tokens or 0)


class AnswerReader:
    """Reads server-sent events. `clock` says when the first token was here."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rest = b""
        self._usage: Mapping[str, Any] = {}
        self._tokens: list[str] = []
        self._likely: list[Mapping[str, float]] = []
        self._first_token: float | None = None
        self._is_done = False

    def feed(self, part: bytes) -> None:
        """Read on.

        Raises:
            AnswerError: what came is no event of a completion, or tells of an error.
        """
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._read(line[5:].strip())

    def answer(self, replica: str | None, begin: float, strategy: str | None = None) -> Answer:
        """The whole answer, to a request that was sent at `begin`.

        Raises:
            AnswerError: it has no end, or no token.
        """
        if not self._is_done:
            raise AnswerError(
                f"the answer broke off after {len(self._tokens)} tokens",
                "the logs of the engine and the router say why",
            )
        if self._first_token is None:
            raise AnswerError("the answer has no token", "the engine's log says why")
        details = self._usage.get("prompt_tokens_details")
        return Answer(
            replica=replica,
            strategy=strategy,
            prompt_tokens=count(self._usage.get("prompt_tokens")),
            cached_tokens=count(details.get("cached_tokens")) if isinstance(details, dict) else None,
            tokens=tuple(self._tokens),
            likely=tuple(self._likely),
            ttft_seconds=self._first_token - begin,
        )

    def _read(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._is_done = True
            return
        event = read_object(data)
        if "error" in event:
            raise AnswerError(f"the answer ends with an error: {told(event['error'])}")
        usage, choices = event.get("usage"), event.get("choices")
        if isinstance(usage, dict):
            self._usage = usage
        if not isinstance(choices, list):
            return
        for choice in choices:
            if isinstance(choice, dict) and isinstance(choice.get("text"), str):
                self._take(choice["text"], choice.get("logprobs"))

    def _take(self, text: str, logprobs: Any) -> None:
        known = logprobs if isinstance(logprobs, dict) else {}
        tokens = known.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            tokens = [text] if text else []
        if not tokens:
            return
        if self._first_token is None:
            self._first_token = self._clock()
        likely = known.get("top_logprobs")
        found = likely if isinstance(likely, list) and len(likely) == len(tokens) else [None] * len(tokens)
        self._tokens += tokens
        self._likely += [_log_probabilities(entry) for entry in found]


def _log_probabilities(entry: Any) -> Mapping[str, float]:
    if not isinstance(entry, dict):
        return {}
    return {token: float(value) for token, value in entry.items() if isinstance(value, int | float)}


def read_object(data: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        AnswerError: it is none.
    """
    try:
        read = json.loads(data)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise AnswerError(
            f"what answers speaks no API of OpenAI's: {told(data)}",
            "is the URL that of the router's Service or load balancer?",
        )
    return read


def count(value: Any) -> int | None:
    """A count that was told; None for what can be none."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if is_count else None


def told(what: Any) -> str:
    """What somebody else said, fit for a terminal: short, on one line, and without control characters."""
    if isinstance(what, dict):
        what = what.get("message") or what
    try:
        text = what.decode(errors="replace") if isinstance(what, bytes) else str(what)
    except RecursionError:
        text = "something deep"
    text = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * MAX_SHOWN])
    text = " ".join(text.split())
    return f"{text[:MAX_SHOWN]}…" if len(text) > MAX_SHOWN else text or "nothing"
