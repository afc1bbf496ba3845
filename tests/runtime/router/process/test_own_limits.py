"""What this machine has no more of to give is counted, said once, and told to who asks."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import shlex
import subprocess
import sys
from urllib.request import urlopen

import pytest
from fakes_engine import RawClient, eventually, run_loop
from prometheus_client.parser import text_string_to_metric_families

from hypertier.router.process.own_limits import OwnLimits, first_kept, limit_of

ROUTER = (sys.executable, "-c", "from hypertier.cli.main import main; main()", "router")


@pytest.mark.parametrize(("most", "kept"), [(64, 8), (1024, 128), (1_048_576, 512), (4, 0)])
def test_an_eighth_of_the_files_is_kept_and_no_more_than_512(most: int, kept: int) -> None:
    assert most - first_kept(most) == kept


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (OSError(errno.EMFILE, ""), "files"),
        (OSError(errno.ENFILE, ""), "system_files"),
        (OSError(errno.EADDRNOTAVAIL, ""), "ports"),
        (OSError(errno.ENOBUFS, ""), "memory"),
        (ConnectionRefusedError(errno.ECONNREFUSED, ""), None),
        (TimeoutError(), None),
    ],
)
def test_only_this_machines_limits_are_its_own(error: Exception, limit: str | None) -> None:
    assert limit_of(error) == limit


def test_a_shortage_is_said_once_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    limits = OwnLimits(lambda: now[0], most=64)
    caplog.set_level(logging.WARNING, "hypertier.router")

    for _ in range(1000):
        now[0] += 1.0
        limits.takes(56)
        limits.sweep()
    now[0] += 60.0
    limits.sweep()

    said = [record.getMessage() for record in caplog.records]
    assert limits.counts == {("client", "files"): 1000}
    assert ["ulimit -Hn" in line for line in said] == [True, False]
    assert said[1] == "files suffice again, after 1000 times that they did not"


@pytest.mark.cli
def test_clients_beyond_the_open_files_are_told_and_counted_and_metrics_are_served() -> None:
    """The event loop closes such connections, and says so to nobody."""
    flags = shlex.join(
        [*ROUTER, "--listen", "127.0.0.1:0", "--replica", "http://127.0.0.1:9", "--metrics-port", "0"]
    )

    async def act(port: int) -> list[bytes]:
        clients = [await RawClient.connect(port) for _ in range(100)]
        reads = [asyncio.create_task(client.reader.read()) for client in clients]

        def told() -> list[bytes]:
            return [read.result() for read in reads if read.done() and read.exception() is None]

        await eventually(lambda: any(told()))  # those that are served are told nothing yet
        return told()

    with subprocess.Popen(
        ["sh", "-c", f"ulimit -n 80; exec {flags}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            port, metrics_port = re.findall(r"http://127\.0\.0\.1:(\d+): .* metrics on (\d+)", line)[0]
            told = run_loop(act(int(port)))
            with urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
                page = answer.read().decode()
        finally:
            process.terminate()
        said = process.stderr.read()

    counted = {
        sample.labels["at"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "hypertier_router_own_limits_total"
    }
    assert any(b"HTTP/1.1 503" in answer and b"retry-after: 1" in answer for answer in told)
    assert counted["client"] > 0
    assert said.count("may have no more open files than 80") == 1
