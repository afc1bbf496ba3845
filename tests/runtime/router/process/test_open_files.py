"""A router's process takes as many open files as it may have, shows them, and says where these are few."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hypertier.router.process.open_files import FEW

ROUTER = (sys.executable, "-c", "from hypertier.cli.main import main; main()", "router")

RAISED = """
import logging, resource, sys
logging.basicConfig(format="%(message)s")
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, most), most))
from hypertier.router.process.open_files import allow_all_open_files
print(allow_all_open_files(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def raised(most: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RAISED, str(most)], capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("most", [64, FEW - 1, FEW])
def test_limit_is_raised_to_what_the_process_may_have(most: int) -> None:
    assert raised(most).stdout.split() == [str(most)] * 3


@pytest.mark.parametrize(("most", "is_said"), [(FEW - 1, True), (FEW, False)])
def test_few_open_files_are_said_with_what_raises_them(most: int, is_said: bool) -> None:
    said = raised(most).stderr

    assert (f"at most {most} open files" in said, "LimitNOFILE" in said) == (is_said, is_said)


@pytest.mark.cli
@pytest.mark.parametrize("of_workers", [(), ("--workers", "2", "--metrics-port", "0")])
def test_router_has_and_shows_as_many_as_its_process_may_have(of_workers: tuple[str, ...]) -> None:
    flags = shlex.join([*ROUTER, "--listen", "127.0.0.1:0", "--replica", "http://127.0.0.1:9", *of_workers])
    with subprocess.Popen(
        ["sh", "-c", f"ulimit -Sn 200; ulimit -Hn 3000; exec {flags}"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"metrics on (\d+)", line) or re.search(r"127\.0\.0\.1:(\d+)", line)
            assert found is not None, line
            with urlopen(f"http://127.0.0.1:{found[1]}/metrics") as answer:
                page = answer.read().decode()
        finally:
            process.terminate()

    shown = {family.name: family for family in text_string_to_metric_families(page)}
    assert shown["process_max_fds"].samples[0].value == 3000
    assert 0 < shown["process_open_fds"].samples[0].value < 3000
