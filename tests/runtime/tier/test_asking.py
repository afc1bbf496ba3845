"""Nobody waits longer than there is time for what keeps no time limit."""

from __future__ import annotations

import threading
import time

import pytest
from fakes_tier import eventually

from hypertier.errors import TierProtocolError, TierUnavailableError
from hypertier.tier.asking import Asker

LONG, SHORT = 20.0, 0.05


class Oracle:
    """Answers when told to, counts how often it is asked."""

    def __init__(self) -> None:
        self.num_asked = 0
        self.may_answer = threading.Event()
        self.error: Exception | None = None

    def __call__(self) -> int:
        self.num_asked += 1
        number = self.num_asked
        assert self.may_answer.wait(LONG)
        if self.error:
            raise self.error
        return number


def test_who_asks_waits_no_longer_than_there_is_time_and_later_gets_the_same_answer() -> None:
    oracle = Oracle()
    asker = Asker("the oracle", oracle)
    begin = time.monotonic()

    for _ in range(3):
        with pytest.raises(TierUnavailableError, match=r"the oracle did not answer within 0.05 s"):
            asker.answer(SHORT)
    waited = time.monotonic() - begin
    oracle.may_answer.set()

    assert waited < LONG / 2
    assert oracle.num_asked == 1
    assert asker.answer(LONG) in (1, 2)


def test_all_who_wait_at_once_share_one_question() -> None:
    oracle = Oracle()
    asker = Asker("the oracle", oracle)
    heard: list[int] = []
    threads = [threading.Thread(target=lambda: heard.append(asker.answer(LONG))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: oracle.num_asked == 1)

    oracle.may_answer.set()
    for thread in threads:
        thread.join(LONG)

    assert len(heard) == 8
    assert len(set(heard)) == oracle.num_asked


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (RuntimeError("no route"), TierUnavailableError, "the oracle: RuntimeError: no route"),
        (TierProtocolError("nonsense"), TierProtocolError, "nonsense"),
        (SystemExit(), TierUnavailableError, "the oracle: SystemExit"),
    ],
    ids=["foreign", "ours", "exit"],
)
def test_an_error_is_one_of_ours_and_the_next_asks_anew(
    error: Exception, kind: type[Exception], words: str
) -> None:
    oracle = Oracle()
    oracle.may_answer.set()
    oracle.error = error
    asker = Asker("the oracle", oracle)

    with pytest.raises(kind, match=words):
        asker.answer(LONG)
    oracle.error = None

    assert asker.answer(LONG) == 2
