"""A router that is told something while it loads does so: each module whose import takes time is a case."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

TOLD_AT_IMPORT = """
import os, sys

class Tell:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Tell)
from hypertier.cli.main import main
main()
"""
ONE = ("router", "--listen", "127.0.0.1:0", "--replica", "http://127.0.0.1:9")
SEVERAL = (*ONE, "--metrics-port", "0", "--workers", "2")
MODULES = ("click", "hypertier.cli.router", "hypertier.router.app", "uvloop")


def told(module: str, number: signal.Signals, flags: tuple[str, ...]) -> subprocess.Popen[str]:
    """A router that gets the signal as it imports the module."""
    code = TOLD_AT_IMPORT.format(module=module, number=int(number))
    return subprocess.Popen([sys.executable, "-c", code, *flags], stdout=subprocess.PIPE, text=True)


@pytest.mark.cli
@pytest.mark.parametrize("flags", [pytest.param(ONE, id="one"), pytest.param(SEVERAL, id="workers")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("module", MODULES)
def test_router_that_is_told_to_stop_while_it_loads_ends_with_0(
    module: str, number: signal.Signals, flags: tuple[str, ...]
) -> None:
    with told(module, number, flags) as process:
        said, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert said == ""  # it did not serve first


@pytest.mark.cli
@pytest.mark.parametrize("flags", [pytest.param(ONE, id="one"), pytest.param(SEVERAL, id="workers")])
@pytest.mark.parametrize("module", MODULES)
def test_router_that_is_told_to_reload_while_it_loads_serves(module: str, flags: tuple[str, ...]) -> None:
    with told(module, signal.SIGHUP, flags) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)

    assert line.startswith("router on http://127.0.0.1:")
    assert process.returncode == 0


def test_other_commands_hold_no_signals() -> None:
    """Ctrl-C ends those at any time."""
    code = (
        "import signal, sys\n"
        "from hypertier.cli.main import main\n"
        "sys.argv = ['hypertier', 'router', 'key', 'salt']\n"
        "try:\n    main()\n"
        "finally:\n    print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "set()"
