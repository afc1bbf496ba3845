"""Questions to what keeps no time limit of ours, a resolver of names or AWS, by calls that do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from hypertier.errors import TierError, TierUnavailableError

T = TypeVar("T")


class Asker(Generic[T]):
    """Asks on a thread of its own, one question at a time; all who wait share the answer.

    Used by many threads. Nobody waits longer than there is time. A question that takes longer goes on, and
    whoever comes next waits for the same: a call that hangs holds one thread, not one for each try.
    """

    def __init__(self, whom: str, ask: Callable[[], T]) -> None:
        self._whom = whom
        self._ask = ask
        self._lock = threading.Lock()
        self._under_way: Future[T] | None = None

    def answer(self, timeout_seconds: float) -> T:
        """Return what `ask` returns.

        Raises:
            TierUnavailableError: there is no answer in time, or an error in its place.
        """
        with self._lock:
            answer = self._under_way
            if answer is None:
                answer = self._under_way = Future()
                threading.Thread(target=self._run, args=(answer,), name="hypertier-ask", daemon=True).start()
        if not wait([answer], max(0.0, timeout_seconds)).done:
            raise TierUnavailableError(f"{self._whom} did not answer within {timeout_seconds:.3g} s")
        error = answer.exception()
        if error is None or isinstance(error, TierError):
            return answer.result()
        raise TierUnavailableError(f"{self._whom}: {type(error).__name__}: {error}") from error

    def _run(self, answer: Future[T]) -> None:
        try:
            found = self._ask()
        except BaseException as error:
            self._settle()
            answer.set_exception(error)
        else:
            self._settle()
            answer.set_result(found)

    def _settle(self) -> None:
        """Who asks from now on asks anew; before anybody hears the answer, so that nobody hears it twice."""
        with self._lock:
            self._under_way = None
