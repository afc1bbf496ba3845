from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypertier.errors import ConfigError, LabError, TierUnavailableError
from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.processes import Processes, free_ports
from hypertier.lab.valkey import find_server, valkey_process
from hypertier.tier.address import L2Address
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.credentials import Credentials, FixedCredentials


def test_valkey_serves_who_knows_the_password(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    processes = Processes(tmp_path)
    record = processes.start(valkey_process(find_server(os.environ), port, "sesame", os.environ))
    try:
        processes.wait_ready([record], 60.0)
        friend = RespBackend(L2Address("127.0.0.1", port), FixedCredentials(Credentials("sesame")))
        stranger = RespBackend(L2Address("127.0.0.1", port), FixedCredentials())

        friend.put(b"key", [b"value"], 60, 10.0)
        found = friend.exists_many([b"key"], 10.0)
        with pytest.raises(TierUnavailableError):
            stranger.exists_many([b"key"], 10.0)
        friend.close()
        stranger.close()
    finally:
        processes.stop([record])

    assert found == [True]
    assert "sesame" not in " ".join(valkey_process(Path("v"), port, "sesame", {}).argv)


def test_a_server_that_cannot_run_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="HYPERTIER_VALKEY_SERVER is '/no/such'; expected the path"):
        find_server({"HYPERTIER_VALKEY_SERVER": "/no/such"})


def test_no_vllm_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"no Python with vLLM: .* Run `make setup`"):
        find_engine_python({}, tmp_path, tmp_path / "elsewhere" / ".venv")


def test_the_engines_python_is_found_in_a_folder_above(tmp_path: Path) -> None:
    python = tmp_path / ".venv-engine" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)

    assert find_engine_python({}, tmp_path / "a" / "b") == python


def test_the_engines_python_is_found_beside_the_environment_that_asks(tmp_path: Path) -> None:
    python = tmp_path / "checkout" / ".venv-engine" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)

    assert find_engine_python({}, tmp_path / "mine", tmp_path / "checkout" / ".venv") == python
