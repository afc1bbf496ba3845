"""What the router decided of late and what came of it; nothing of a prompt is kept."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from hypertier.router.api.openai import InferenceRequest
from hypertier.router.replicas.replicas import Replica
from hypertier.router.strategies.strategy import Choice, Strategy

MAX_DECISIONS: Final = 1024
MAX_NAME_BYTES: Final = 256
"""Of an id or a model: both are as long as their client likes."""
_CACHED: Final = re.compile(rb'"cached_tokens"\s*:\s*(\d{1,12})')
_PROMPT: Final = re.compile(rb'"prompt_tokens"\s*:\s*(\d{1,12})')


class Prefilled:
    """What became of a request's prompt on the replica that prefills; times are seconds.

    `end` is `good`, or why the request was served whole. `predicted_seconds` is None where nothing is
    learned.
    """

    __slots__ = ("end", "predicted_seconds", "replica", "seconds")

    def __init__(self, replica: Replica, end: str, predicted_seconds: float | None, seconds: float) -> None:
        self.replica = replica
        self.end = end
        self.predicted_seconds = predicted_seconds
        self.seconds = seconds

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "replica": self.replica.url,
            "end": self.end,
            "predicted_seconds": self.predicted_seconds,
            "seconds": self.seconds,
        }

    @property
    def headers(self) -> bytes:
        """Lines of the answer's head."""
        lines = b"x-hypertier-prefill-replica: %s\r\nx-hypertier-prefill-end: %s\r\n" % (
            self.replica.name,
            self.end.encode(),
        )
        if self.predicted_seconds is not None:
            lines += b"x-hypertier-prefill-predicted: %.3f\r\n" % self.predicted_seconds
        return lines + b"x-hypertier-prefill-seconds: %.3f\r\n" % self.seconds


class BrokeOff:
    """A replica that wrote a part of an answer and failed inside it, so that another one went on.

    `cause` is `closed`, its connection, `error`, which it told inside the stream, or `idle`, it fell silent
    there. `seconds` are from the request to that.
    """

    __slots__ = ("cause", "choice", "seconds")

    def __init__(self, choice: Choice, cause: str, seconds: float) -> None:
        self.choice = choice
        self.cause = cause
        self.seconds = seconds

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "replica": self.choice.replica.url,
            "reason": self.choice.reason,
            "matched_bytes": self.choice.matched_bytes,
            "cause": self.cause,
            "seconds": self.seconds,
        }


class Decision:
    """One request that ended. Times are seconds, None where they did not come.

    `choice` is the last one; `broke_off` are those that had written a part before. It `has_failed` where a
    replica did before its answer, whoever answered then. `candidates` and the tokens are those of requests
    that asked to be explained; an engine tells cached tokens with `--enable-prompt-tokens-details`.
    """

    __slots__ = (
        "broke_off",
        "candidates",
        "choice",
        "end_of_answer",
        "ended_at",
        "first_byte_seconds",
        "has_failed",
        "model",
        "prefilled",
        "prompt_bytes",
        "request_id",
        "seconds",
        "status",
        "tried",
    )

    def __init__(
        self,
        request_id: bytes,
        model: bytes | None,
        prompt_bytes: int,
        choice: Choice | None,
        tried: Sequence[str],
        status: str,
        first_byte_seconds: float | None,
        seconds: float,
        candidates: Sequence[dict[str, Any]] = (),
        end_of_answer: bytes = b"",
        ended_at: float = 0.0,
        prefilled: Prefilled | None = None,
        broke_off: Sequence[BrokeOff] = (),
        has_failed: bool = False,
    ) -> None:
        self.request_id = request_id
        self.model = model
        self.prompt_bytes = prompt_bytes
        self.choice = choice
        self.tried = tried
        self.status = status
        self.first_byte_seconds = first_byte_seconds
        self.seconds = seconds
        self.candidates = candidates
        self.end_of_answer = end_of_answer
        self.ended_at = ended_at
        self.prefilled = prefilled
        self.broke_off = broke_off
        self.has_failed = has_failed

    @property
    def predicted_seconds(self) -> float | None:
        """To the first byte, by the replica that it came from."""
        choice = self.broke_off[0].choice if self.broke_off else self.choice
        return None if choice is None else choice.predicted_seconds

    @property
    def fault(self) -> str:
        """Its status as the model is judged by it, whoever answered in the end: `broken` where a replica
        broke off, `5xx` where one failed before.
        """
        if self.broke_off:
            return "broken"
        return "5xx" if self.has_failed else self.status

    def told(self, epoch: float) -> dict[str, Any]:
        """As JSON; `epoch` is the time since 1970 at which the router's clock was 0."""
        choice = self.choice
        return {
            "request_id": self.request_id.decode("latin-1"),
            "model": None if self.model is None else self.model.decode("utf-8", "replace"),
            "prompt_bytes": self.prompt_bytes,
            "replica": None if choice is None else choice.replica.url,
            "reason": None if choice is None else choice.reason,
            "matched_bytes": None if choice is None else choice.matched_bytes,
            "tried_before": list(self.tried),
            "broke_off": [one.told() for one in self.broke_off],
            "status": self.status,
            "ended_at": round(self.ended_at + epoch, 3),
            "clock_seconds": self.ended_at,  # of the machine, to sort what its processes tell
            "predicted_ttft_seconds": self.predicted_seconds,
            "ttft_seconds": self.first_byte_seconds,
            "seconds": self.seconds,
            "prompt_tokens": _number(_PROMPT, self.end_of_answer),
            "cached_tokens": _number(_CACHED, self.end_of_answer),
            "prefill": None if self.prefilled is None else self.prefilled.told(),
            "candidates": list(self.candidates),
        }


def _number(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    found = pattern.findall(text)
    return int(found[-1]) if found else None


class Decisions:
    """The latest, up to `MAX_DECISIONS`."""

    def __init__(self) -> None:
        self._latest: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self.add: Callable[[Decision], None] = self._latest.append

    def tell(self, listener: Callable[[Decision], None]) -> None:
        """The listener hears of each from now on."""
        keep = self._latest.append

        def add(decision: Decision) -> None:
            keep(decision)
            listener(decision)

        self.add = add

    def unheard(self) -> Decisions:
        """The same ones; of what is added here no listener hears."""
        same = Decisions()
        same._latest = self._latest
        same.add = self._latest.append
        return same

    def told(self, request_id: str | None, limit: int, epoch: float = 0.0) -> list[dict[str, Any]]:
        """Latest first: all, or those of one id."""
        wanted = None if request_id is None else request_id.encode("latin-1", "replace")[:MAX_NAME_BYTES]
        found = [d for d in reversed(self._latest) if wanted is None or d.request_id == wanted]
        return [decision.told(epoch) for decision in found[:limit]]


def weigh(
    strategy: Strategy, request: InferenceRequest, candidates: Sequence[Replica], now: float
) -> list[dict[str, Any]]:
    """What the strategy thinks of each candidate by itself: soonest first, then what holds most."""
    weighed = []
    for replica in candidates:
        alone = strategy.choose(request, [replica], now)
        weighed.append(
            {
                "replica": replica.url,
                "matched_bytes": alone.matched_bytes,
                "predicted_ttft_seconds": alone.predicted_seconds,
                "in_flight": replica.in_flight,
                "pending_prompt_bytes": replica.pending_bytes,
                **({"kv_events": replica.kv_events} if replica.kv_events else {}),
            }
        )
    return sorted(weighed, key=lambda one: (one["predicted_ttft_seconds"] or 0.0, -one["matched_bytes"]))
