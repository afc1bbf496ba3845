"""Runs checks side by side: each in a thread of its own, equal questions asked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from hypertier.doctor.check import Check, Finding, Question, Said, Verdict, untold


@dataclass(frozen=True, slots=True)
class Refused:
    """AWS does not tell: `denied` for want of a permission, else because of `cause`."""

    cause: str
    denied: bool = False


Answer = Said | Refused | None
"""None where there is no such thing."""
Ask = Callable[[Question], Answer]


def run_checks(checks: Sequence[Check], ask: Ask) -> tuple[Finding, ...]:
    """What each check found, in the order of `checks`. `ask` is called from many threads."""
    if not checks:
        return ()
    asked_once = _Memory(ask)
    with ThreadPoolExecutor(max_workers=len(checks)) as pool:
        return tuple(pool.map(lambda check: Finding(check.name, run(check, asked_once)), checks))


def run(check: Check, ask: Ask) -> Verdict:
    """The verdict of one check; that it could not be told where AWS refuses an answer, or a part of it."""
    talk = check.talk()
    said: Said | None = None
    while True:
        try:
            question = talk.send(said)
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict
        except KeyError as error:  # AWS leaves members out that are not required
            return untold(f"AWS's answer has no {error.args[0]}", "look for yourself")
        answer = ask(question)
        if isinstance(answer, Refused):
            talk.close()
            return refusal(question, answer)
        said = answer


def refusal(question: Question, refused: Refused) -> Verdict:
    """What to say of a question that AWS did not answer."""
    if refused.denied:
        where = "" if question.resource == "*" else f" on {question.resource}"
        return untold("no permission", f"allow {question.action}{where}")
    return untold(f"{question.action}: {refused.cause}", "try again, or look for yourself")


class _Memory:
    """Asks equal questions once, whichever thread comes first; the others wait for its answer."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = Lock()
        self._answers: dict[Question, Future[Answer]] = {}

    def __call__(self, question: Question) -> Answer:
        with self._lock:
            known = self._answers.get(question)
            answer = self._answers.setdefault(question, Future())
        if known is None:
            try:
                answer.set_result(self._ask(question))
            except BaseException as error:
                answer.set_exception(error)
        return answer.result()
