"""The mover process: `python -P -m hypertier.tier.mover_main SOCKET L1 TALLY PID [ENGINE]`: descriptors that
the engine opened, its number, and a descriptor of itself.

It has the interpreter's lock to itself, so neither TLS nor checksums hold up the engine's scheduler. It ends
with the engine, or when told to. It reads commands, `(method, arguments)` of `ThreadMover`, after the first,
`(pickled plan, offset, num_bytes)`, and `("root", hash_root)`, which vLLM does not know before it serves. It
sends, and counts in TALLY when it begins and when it has ended, and each second that it lives,

    ("report", the fields of `News`, what was counted since the last report, is_up, retry_at)
    ("change", what, (kind of error, its words))   L2 stopped answering; None for the error: it answers again
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

from hypertier.errors import TierUnavailableError
from hypertier.tier.frames import Tally, frame, read_message
from hypertier.tier.mapping import map_shared, populate
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import ThreadMover
from hypertier.tier.mover_plan import MoverPlan, build_mover
from hypertier.tier.transfers import Patience

BEAT_SECONDS = 1.0
LONGEST_SILENCE_SECONDS = 10.0
LOOK_SECONDS = 0.5
LOWEST_PRIORITY = 19


class Root:
    """Where vLLM's chain of block hashes begins, once the engine has told."""

    value: bytes | None = None

    def __call__(self) -> bytes:
        if self.value is None:
            raise TierUnavailableError("vLLM has not seeded its block hashes yet")
        return self.value


class Reporter:
    """Sends what there is to tell, from a thread of its own: a slow reader holds nothing else up."""

    def __init__(self, send: Callable[[bytes], None], tally: Tally) -> None:
        self._send = send
        self._tally = tally
        self._lock = threading.Lock()
        self._something = threading.Event()
        self.note_news = self._something.set

    def note_change(self, what: str, error: Exception | None) -> None:
        """Tell at once."""
        self._tell("change", what, None if error is None else (type(error).__name__, str(error)))

    def run(self, mover: ThreadMover, counters: Counters) -> None:
        """Report whenever there is news, and from time to time that there is none."""
        reported_at = time.monotonic()
        while True:
            has_news = self._something.wait(min(BEAT_SECONDS, LONGEST_SILENCE_SECONDS))
            if not has_news and time.monotonic() - reported_at < LONGEST_SILENCE_SECONDS:
                self._beat()
                continue
            reported_at = time.monotonic()
            self._something.clear()
            news = mover.take_news()
            finished = [tuple(job) for job in news.finished]
            told = (news.answers, finished, news.lookup_seconds, news.samples)
            self._tell("report", told, counters.take(), mover.is_up, mover.retry_at)

    def _beat(self) -> None:
        """Show that the process runs, to who looks at the tally."""
        with self._lock:
            self._tally.count_up()
            self._tally.count_up()

    def _tell(self, *message: object) -> None:
        with self._lock:
            self._tally.count_up()
            try:
                self._send(frame(message))
            except OSError:
                os._exit(0)  # the engine is gone
            self._tally.count_up()


def main() -> None:
    """Work until the engine closes its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # meant for the engine, which decides when this ends
    threading.Thread(target=end_with, args=tuple(map(int, sys.argv[4:])), daemon=True).start()
    end = socket.socket(fileno=int(sys.argv[1]))
    with contextlib.suppress(EOFError):
        serve(end, int(sys.argv[2]), Tally(int(sys.argv[3])))
    os._exit(0)  # threads may be waiting for L2: nobody waits for them


def end_with(pid: int, engine: int | None = None) -> None:
    """End as soon as the engine has, however it did: with a descriptor of it at once, else within
    `LOOK_SECONDS`.

    The kernel's own signal for this, PR_SET_PDEATHSIG, comes when the thread that started us ends.
    """
    while engine is None and os.getppid() == pid:
        time.sleep(LOOK_SECONDS)
    if engine is not None:
        poll = select.poll()  # `select.select` can't name a descriptor above 1,023
        poll.register(engine, select.POLLIN)
        poll.poll()
    os._exit(0)


def prepare(view: memoryview, l1: int, offset: int) -> None:
    """Make L1 ready to be received into, when nothing else has a use for the CPU."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
    populate(view, l1, offset)
    os.close(l1)


def serve(end: socket.socket, l1: int, tally: Tally) -> None:
    """Do what is asked, until there is nobody who asks."""
    stream: BinaryIO = end.makefile("rb")
    pickled, offset, num_bytes = read_message(stream)
    plan: MoverPlan = pickle.loads(pickled)
    view = map_shared(l1, offset, num_bytes)
    threading.Thread(target=prepare, args=(view, l1, offset), daemon=True).start()
    root, counters, reporter = Root(), Counters(), Reporter(end.sendall, tally)
    mover = build_mover(plan, view, root, counters, reporter.note_change, reporter.note_news)
    threading.Thread(target=reporter.run, args=(mover, counters), daemon=True).start()
    commands: dict[str, Callable[..., None]] = {
        "probe": mover.probe,
        "sample": mover.sample,
        "load": lambda number, keys, slots, patience: mover.load(
            number, keys, slots, None if patience is None else Patience(*patience)
        ),
        "store": mover.store,
    }
    while True:
        name, *arguments = read_message(stream)
        if name == "root":
            (root.value,) = arguments
        else:
            commands[name](*arguments)


if __name__ == "__main__":
    main()
