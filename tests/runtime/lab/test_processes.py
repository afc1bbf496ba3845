from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hypertier.errors import LabError
from hypertier.lab.process_spec import ProcessSpec
from hypertier.lab.processes import Processes, ProcessRecord, free_ports, is_alive, stat_fields
from hypertier.lab.state import LabState, forget_state, load_state, save_state

SERVER = """
import http.server, signal, subprocess, sys
port, ignore, child = int(sys.argv[1]), sys.argv[2] == "stubborn", sys.argv[3] == "parent"
if ignore:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if child:
    print("child", subprocess.Popen(["sleep", "600"]).pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
READY_SECONDS = 60.0


def server(name: str = "server", *, stubborn: bool = False, parent: bool = False) -> ProcessSpec:
    """A small web server that may ignore SIGTERM and may have a child."""
    (port,) = free_ports(1)
    options = ("stubborn" if stubborn else "-", "parent" if parent else "-")
    argv = (sys.executable, "-c", SERVER, str(port), *options)
    seconds = 0.3 if stubborn else 20.0
    return ProcessSpec(name, argv, f"http://127.0.0.1:{port}/health", dict(os.environ), "", seconds)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Processes with logs in a directory of their own, ended after the test."""
    started: list[ProcessRecord] = []

    class Remembering(Processes):
        def start(self, spec: ProcessSpec) -> ProcessRecord:
            record = super().start(spec)
            started.append(record)
            return record

    remembering = Remembering(tmp_path)
    yield remembering
    remembering.stop(started)


def test_wait_ready_returns_when_all_answer(processes: Processes) -> None:
    records = [processes.start(server("a")), processes.start(server("b"))]
    ready: list[str] = []

    processes.wait_ready(records, READY_SECONDS, lambda record, seconds: ready.append(record.name))

    assert sorted(ready) == ["a", "b"]


def test_a_process_that_ends_while_it_starts_is_told_with_the_end_of_its_log(processes: Processes) -> None:
    spec = replace(server(), argv=(sys.executable, "-c", "raise SystemExit('no memory')"))
    record = processes.start(spec)

    with pytest.raises(LabError, match=r"server ended while it started(.|\n)*no memory"):
        processes.wait_ready([record], READY_SECONDS)


def test_a_process_that_is_not_ready_in_time_is_told(processes: Processes) -> None:
    spec = replace(server(), argv=("sleep", "600"))
    record = processes.start(spec)

    with pytest.raises(LabError, match="server was not ready after"):
        processes.wait_ready([record], 0.0)


def test_a_program_that_does_not_exist_is_told(processes: Processes) -> None:
    with pytest.raises(LabError, match="server did not start: /no/such/program: No such file"):
        processes.start(replace(server(), argv=("/no/such/program",)))


def test_what_is_written_to_standard_input_arrives(processes: Processes, tmp_path: Path) -> None:
    record = processes.start(ProcessSpec("cat", ("cat",), "", dict(os.environ), "secret\n"))

    os.waitid(os.P_PID, record.pid, os.WEXITED | os.WNOWAIT)

    assert Path(record.log).read_text() == "secret\n"


def test_stop_ends_a_process_with_all_it_started(processes: Processes) -> None:
    record = processes.start(server(parent=True))
    processes.wait_ready([record], READY_SECONDS)
    child = int(Path(record.log).read_text().split()[1])

    processes.stop([record])

    assert not is_alive(record)
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]


def test_stop_kills_what_does_not_end_in_its_time(processes: Processes) -> None:
    record = processes.start(server(stubborn=True))
    processes.wait_ready([record], READY_SECONDS)

    processes.stop([record])

    assert not is_alive(record)


def test_another_object_stops_what_it_finds_in_the_records(processes: Processes, tmp_path: Path) -> None:
    record = processes.start(server())
    processes.wait_ready([record], READY_SECONDS)

    Processes(tmp_path).stop([record])

    assert not processes.is_running(record)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_a_process_has_ended_once_all_its_threads_have(processes: Processes, tmp_path: Path) -> None:
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    record = processes.start(ProcessSpec("leaderless", (sys.executable, "-c", program), "", {}, "", 20.0))
    while stat_fields(record.pid)[0] != "Z":
        os.sched_yield()

    was_alive = is_alive(record)
    Processes(tmp_path).stop([record])

    assert was_alive
    assert not processes.is_running(record)


def test_a_foreign_process_with_a_recorded_id_is_left_alone(processes: Processes) -> None:
    foreign = subprocess.Popen(["sleep", "600"], start_new_session=True)
    record = ProcessRecord("engine-0", foreign.pid, "1", "/nowhere", "")

    processes.stop([record])

    assert foreign.poll() is None
    foreign.send_signal(signal.SIGKILL)
    foreign.wait()


def test_the_state_is_found_again_and_forgotten(tmp_path: Path) -> None:
    record = ProcessRecord("engine-0", 1, "2", "log", "http://127.0.0.1:3/health")
    state = LabState("vllm", "m", "http://r", ("http://e",), (record,))
    save_state(tmp_path, state)

    found = load_state(tmp_path)
    forget_state(tmp_path)

    assert (found, load_state(tmp_path)) == (state, None)


def test_a_state_that_is_none_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")

    with pytest.raises(LabError, match=r"state\.json is not a lab's state"):
        load_state(tmp_path)


def test_free_ports_are_free_and_not_those_of_outgoing_connections() -> None:
    ports = free_ports(50)

    assert len(set(ports)) == 50
    assert all(20_000 <= port < 30_000 for port in ports)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            assert port not in free_ports(50)
