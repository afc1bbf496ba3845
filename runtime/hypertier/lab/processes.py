"""Starting, watching and ending the lab's processes.

Each leads a process group and writes a log of its own. A process is known by its id together with the time it
was started, so that nothing is ever sent to a foreign process that got the same id.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hypertier.errors import HttpError, LabError
from hypertier.http_client import ask_url
from hypertier.lab.client import MAX_STATUS_BYTES
from hypertier.lab.process_spec import ProcessSpec

PROC = Path("/proc")
POLL_SECONDS = 0.1
TAIL_LINES = 12
PORTS = range(20_000, 30_000)


@dataclass(frozen=True)
class ProcessRecord:
    """A process that was started: enough to find it again from another process."""

    name: str
    pid: int
    started: str
    log: str
    health_url: str
    stop_seconds: float = 20.0


class Processes:
    """The processes of one lab, started here, with their logs in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, spec: ProcessSpec) -> ProcessRecord:
        """Start a process; it may not be ready yet.

        Raises:
            LabError: there is no such program.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        log = self._directory / f"{spec.name}.log"
        with log.open("ab") as output:
            try:
                child = subprocess.Popen(
                    spec.argv,
                    env=dict(spec.env),
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise LabError(f"{spec.name} did not start: {spec.argv[0]}: {error.strerror}") from error
        assert child.stdin is not None
        with child.stdin as stdin:
            stdin.write(spec.stdin.encode())
        self._children[child.pid] = child
        started = start_time(child.pid)
        return ProcessRecord(spec.name, child.pid, started, str(log), spec.health_url, spec.stop_seconds)

    def is_running(self, record: ProcessRecord) -> bool:
        """Whether the process itself, not only something it started, still runs."""
        child = self._children.get(record.pid)
        if child is not None:
            return child.poll() is None
        return is_alive(record)

    def wait_ready(
        self,
        records: Sequence[ProcessRecord],
        timeout_seconds: float,
        on_ready: Callable[[ProcessRecord, float], None] = lambda record, seconds: None,
        on_wait: Callable[[Sequence[ProcessRecord], float], None] = lambda records, seconds: None,
    ) -> None:
        """Wait until all are ready; tells of each that is, and about every 10 s what is waited for.

        Raises:
            LabError: one ended or the time is over; the message has the end of its log.
        """
        begin = time.monotonic()
        told = 0.0
        waiting = list(records)
        while waiting:
            seconds = time.monotonic() - begin
            for record in list(waiting):
                if not self.is_running(record):
                    raise LabError(f"{record.name} ended while it started. {log_tail(record)}")
                if is_ready(record.health_url):
                    waiting.remove(record)
                    on_ready(record, seconds)
            if waiting and seconds > timeout_seconds:
                raise LabError(
                    f"{waiting[0].name} was not ready after {seconds:.0f} s. {log_tail(waiting[0])}"
                )
            if waiting and seconds - told >= 10:
                told = seconds
                on_wait(waiting, seconds)
            if waiting:
                time.sleep(POLL_SECONDS)

    def stop(self, records: Sequence[ProcessRecord]) -> None:
        """End processes and all they started: SIGTERM, and SIGKILL for what does not end in its time."""
        for record in records:
            signal_group(record, signal.SIGTERM)
        deadlines = {record.pid: time.monotonic() + record.stop_seconds for record in records}
        waiting = list(records)
        while waiting:
            for record in list(waiting):
                child = self._children.get(record.pid)
                if child is not None:
                    child.poll()
                if not group_members(record):
                    waiting.remove(record)
                    if child is not None:
                        child.wait()
                        del self._children[record.pid]
                elif time.monotonic() > deadlines[record.pid]:
                    signal_group(record, signal.SIGKILL)
            if waiting:
                time.sleep(POLL_SECONDS)


def is_ready(url: str) -> bool:
    """Ask a process whether it is ready: HTTP answers 200, a Valkey answers at all."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    try:
        if parts.scheme == "redis":
            with socket.create_connection((host, port), timeout=2) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        status, _ = ask_url(url, timeout_seconds=5, max_bytes=MAX_STATUS_BYTES)
        return status == 200
    except (OSError, HttpError):
        return False


def log_tail(record: ProcessRecord, num_lines: int = TAIL_LINES) -> str:
    """The last lines of a process's log, and where it is."""
    try:
        lines = Path(record.log).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    tail = "\n".join(f"    {line}" for line in lines[-num_lines:])
    return f"Its log, {record.log}, ends:\n{tail}" if tail else f"Its log, {record.log}, is empty."


def is_alive(record: ProcessRecord) -> bool:
    """Whether the process with this id is the one that was started, and has not ended."""
    return start_time(record.pid) == record.started != ""


def signal_group(record: ProcessRecord, number: signal.Signals) -> None:
    """Send a signal to the process and to all it started, if they are ours."""
    if group_members(record):
        try:
            os.killpg(record.pid, number)
        except ProcessLookupError:
            return


def group_members(record: ProcessRecord) -> list[int]:
    """The ids of the living processes in the record's group. Empty when the id now belongs to another.

    The leader's id is not given to another process while its group lives.
    """
    leader = start_time(record.pid)
    if leader and leader != record.started:
        return []
    if not PROC.is_dir():
        return [record.pid] if leader else []
    return [
        pid
        for pid, group, started in processes()
        if group == record.pid and started >= int(record.started or 0)
    ]


def start_time(pid: int) -> str:
    """When a process was started, in a form that is good for comparing; empty when it has ended."""
    if PROC.is_dir():
        fields = stat_fields(pid)
        return "" if has_ended(fields) else fields[19]
    listing = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    state, _, started = listing.partition(" ")
    return "" if state.startswith("Z") else started.strip()


def processes() -> Iterator[tuple[int, int, int]]:
    """Yield id, process group and start time of every process that has not ended."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            fields = stat_fields(int(entry.name))
            if not has_ended(fields):
                yield int(entry.name), int(fields[2]), int(fields[19])


def has_ended(fields: Sequence[str]) -> bool:
    """Whether the process of these `stat_fields` has, with all its threads.

    One whose first thread has ended is a zombie already, and is waited for in vain until the others have.
    """
    return not fields or (fields[0] in ("Z", "X") and int(fields[17]) <= 1)


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on, `state`; empty when the process is gone.

    https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html (read 2026-12-01)
    """
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def free_ports(count: int) -> list[int]:
    """Even ports of 127.0.0.1 that nothing listens on now, nor on the port after each.

    They lie below the range that systems take the near ends of connections from (Linux 32768 to 60999): an
    engine listens many seconds later, and none must be taken by then.
    """
    free: list[int] = []
    even = range(PORTS.start + PORTS.start % 2, PORTS.stop - 1, 2)
    for port in random.sample(even, len(even)):
        if len(free) == count:
            return free
        if _is_free(port) and _is_free(port + 1):
            free.append(port)
    raise LabError(f"fewer than {count} ports from {PORTS.start} to {PORTS.stop - 1} are free")


def _is_free(port: int) -> bool:
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
