from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from hypertier.lab.interrupts import ended_by_signals, uninterrupted

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """A shell starts what runs in its background with SIGINT ignored, and these tests among it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_what_is_done_inside_as_ctrl_c_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        os.kill(os.getpid(), number)

    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_clean_up_is_not_interrupted(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    finished = []

    with uninterrupted():
        os.kill(os.getpid(), number)
        finished.append(number)

    assert finished == [number]
    assert signal.getsignal(number) == before


def test_another_thread_than_the_main_one_leaves_signals_alone() -> None:
    ran = []

    def inside() -> None:
        with ended_by_signals(), uninterrupted():
            ran.append(True)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()

    assert ran == [True]
