"""Sends a prompt that nobody sent before, sends it again, has another replica answer it, and compares."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hypertier.errors import AnswerError
from hypertier.verification import checks
from hypertier.verification.answer import Answer
from hypertier.verification.checks import FAILED, HIT_RATIO, PASSED, TURNS, UNTOLD, Check
from hypertier.verification.endpoint import MAX_TOKENS, STRATEGY_HEADER, Endpoint, Model

MAX_TRIES = 16
"""Requests until a replica answers that had answered before, and as many until another one does."""
NUM_UNHEARD = 4
"""Requests that wish for another replica of a router that does not hear it: by session one may yet come."""
NUM_MISSES = 2  # of such a replica: no third one would tell more
STORE_SECONDS = 5.0  # for an engine to write what it computed to L2, which follows the answer
TEXT = (
    "a tier keeps blocks of tokens and the next lookup ends in hit or miss while one engine loads what "
    "another had stored long before it was asked for by some client with this same prompt"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: why it was sent, its `x-request-id`, and what came."""

    why: str
    request_id: str
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be found out, and how long it may take altogether.

    Without `model` it is the endpoint's only one. With `expects_details` an answer without a count of cached
    tokens is one of zero.
    """

    model: str | None = None
    prompt_tokens: int = 2000
    timeout_seconds: float = 120.0
    asks_l2: bool = True
    expects_details: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What was asked and found."""

    url: str
    model: str | None
    seconds: float
    asked: Sequence[Asked]
    checks: Sequence[Check]

    @property
    def status(self) -> int:
        """0: all passed; 1: something failed; 2: nothing failed, and not all could be told."""
        results = {check.result for check in self.checks}
        return 1 if FAILED in results else 2 if UNTOLD in results else 0


@dataclass
class Verifier:
    """One verification. `clock` and `sleep` are of the same time, in seconds; `salt` makes the prompt new."""

    endpoint: Endpoint
    wish: Wish
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    salt: str = field(default_factory=lambda: secrets.token_hex(8))
    _asked: list[Asked] = field(default_factory=list)
    _end: float = 0.0

    def run(self) -> Report:
        """Ask, and judge what came. What can't be had becomes a check; nothing is raised for it."""
        begin = self.clock()
        self._end = begin + self.wish.timeout_seconds
        model: str | None = None
        found: list[Check] = []
        try:
            chosen = choose(self.endpoint.models(self._left()), self.wish.model)
            model = chosen.name
            found.append(Check("endpoint", PASSED, f"it serves {model}"))
            self._ask_all(chosen)
            found.append(Check("answers", PASSED, f"{len(self._asked)} of {len(self._asked)} came whole"))
        except AnswerError as error:
            result = FAILED if error.is_fault else UNTOLD
            name = "answers" if found else "endpoint"
            found.append(Check(name, result, str(error), error.to_do))
        found += self._judged()
        return Report(self.endpoint.url, model, self.clock() - begin, tuple(self._asked), tuple(found))

    def _left(self) -> float:
        return self._end - self.clock()

    def _judged(self) -> Iterator[Check]:
        """The checks that compare answers, as far as there are any."""
        answers = [asked.answer for asked in self._asked]
        again = [asked.answer for asked in self._asked if asked.why == "again"]
        expects_details, asks_l2 = self.wish.expects_details, self.wish.asks_l2
        if not again:
            names = ("cached", "same answer", *(("L2",) if asks_l2 else ()))
            yield from (Check(name, UNTOLD, "there is no second answer") for name in names)
            return
        yield checks.cached(answers[0], again, expects_details=expects_details)
        yield checks.same(answers)
        if asks_l2:
            yield checks.l2(answers[0], answers[1:], expects_details=expects_details)

    def _ask_all(self, model: Model) -> None:
        text = prompt(self.salt, self.wish.prompt_tokens, model.max_tokens)
        session = f"verify-{self.salt}"
        first = self._ask("first", model, text, session)
        asks_l2 = self.wish.asks_l2 and first.replica is not None
        if asks_l2:
            self.sleep(min(STORE_SECONDS, max(0.0, self._left())))
        again: list[Answer] = []
        for _ in range(MAX_TRIES):
            again.append(self._ask("again", model, text, session))
            own = checks.repeated(first, again)
            if any(answer.holds(HIT_RATIO) for answer in own) or (own and not self._is_counted()):
                break
            if first.replica is not None and len(own) == NUM_MISSES:
                break
        for number in range(MAX_TRIES):
            if not asks_l2 or any(asked.answer.replica != first.replica for asked in self._asked):
                break
            elsewhere = {STRATEGY_HEADER: TURNS}
            other = self._ask("other", model, text, f"{session}-{number}", elsewhere)
            if other.strategy != TURNS and number + 1 == NUM_UNHEARD:
                break

    def _is_counted(self) -> bool:
        """Whether engines tell how much was cached, so that asking again may tell more."""
        told = any(asked.answer.cached_tokens is not None for asked in self._asked)
        return told or self.wish.expects_details

    def _ask(
        self,
        why: str,
        model: Model,
        text: str,
        session: str,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        request_id = f"verify-{self.salt}-{len(self._asked) + 1}"
        sent = {"x-request-id": request_id, "x-session-id": session, "x-hypertier-explain": "1"}
        answer = self.endpoint.complete(
            model.name, text, headers={**sent, **(headers or {})}, timeout_seconds=self._left()
        )
        self._asked.append(Asked(why, request_id, answer))
        return answer


def choose(models: Sequence[Model], wished: str | None) -> Model:
    """The model to ask: the wished one, or the only one.

    Raises:
        AnswerError: it is not served, or there are several.
    """
    names = ", ".join(model.name for model in models[:10])
    if wished is None and len(models) > 1:
        raise AnswerError(f"it serves several models: {names}", "--model names one", is_fault=False)
    for model in models:
        if wished is None or model.name == wished:
            return model
    raise AnswerError(f"it serves {names}, and not {wished}", "--model names one of these")


def prompt(salt: str, num_tokens: int, max_tokens: int | None) -> str:
    """Text of about so many tokens, a word each, that begins as no other one does.

    A token is a character at least, so what has no more of these fits into `max_tokens` with its answer.
    """
    draw = random.Random(salt)
    text = " ".join([salt, *draw.choices(TEXT.split(), k=num_tokens)])
    return text if max_tokens is None else text[: max(1, max_tokens - MAX_TOKENS - 1)]
