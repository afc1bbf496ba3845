"""Real vLLM that asks who calls: its routers, its probe, and nobody else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes_access import router_process
from fakes_kv_publisher import two_free_ports
from fakes_tls import Authority

from hypertier.lab.client import ask
from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.model import build_model
from hypertier.lab.processes import free_ports
from hypertier.tier import probe
from hypertier.tier.launch import kv_events_config

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent
NAME, MODEL = "llama-engine.inference.svc", "llama"
FLAGS = ("--dtype", "float32", "--enforce-eager", "--block-size", "128", "--max-model-len", "8192")
SMALL = ("--kv-cache-memory-bytes", str(64 * 2**20), "--distributed-executor-backend", "uni")


class Secret:
    """A folder with `tls.crt`, `tls.key` and `ca.crt`."""

    def __init__(self, folder: Path, authority: Authority, name: str) -> None:
        self.folder = folder
        self._authority = authority
        self._name = name
        self.renew()
        shutil.copy(authority.ca, folder / "ca.crt")

    def renew(self) -> str:
        """Another certificate; the one that is shown from then on."""
        self._authority.issue("renewed", host=self._name, at=self.folder)
        return ssl.PEM_cert_to_DER_cert((self.folder / "tls.crt").read_text()).hex()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Secret:
    return Secret(tmp_path_factory.mktemp("engine"), authority, NAME)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, secret: Secret) -> Iterator[tuple[int, int]]:
    """The port of an engine by TLS, and that of its KV events."""
    model = build_model(tmp_path_factory.mktemp("model"))
    (port,), events = free_ports(1), two_free_ports()
    files = secret.folder
    argv = [str(find_engine_python(os.environ, ROOT)), "-m", "hypertier.tier.launch", "serve", str(model)]
    argv += ["--served-model-name", MODEL, "--port", str(port), "--host", "127.0.0.1", *FLAGS, *SMALL]
    argv += ["--ssl-certfile", str(files / "tls.crt"), "--ssl-keyfile", str(files / "tls.key")]
    argv += ["--ssl-ca-certs", str(files / "ca.crt"), "--ssl-cert-reqs", "2", "--enable-ssl-refresh"]
    argv += ["--kv-events-config", json.dumps(kv_events_config(events, events + 1))]
    quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    quiet["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # a process less to start
    with subprocess.Popen(argv, env={**os.environ, **quiet}) as process:
        try:
            while asked(port, secret):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    assert process.wait(1) is None
            yield port, events
        finally:
            process.terminate()


def asked(port: int, secret: Secret, name: str = NAME) -> int:
    """How the engine's own probe ends."""
    words = ["--folder", str(secret.folder), "--server-name", name]
    return probe.main([f"https://127.0.0.1:{port}/health", *words])


def test_routers_show_their_certificate_and_everything_goes_by_tls(
    engine: tuple[int, int], authority: Authority, secret: Secret
) -> None:
    port, events = engine
    cert, key = authority.issue("router")
    flags = ["--strategy", "kvaware", "--replica", f"http://127.0.0.1:{port}"]
    flags += ["--kv-events", f"127.0.0.1:{events}", "--replica-ca", authority.ca]
    flags += ["--replica-cert", cert, "--replica-key", key, "--replica-server-name", NAME]

    with router_process(None, *flags) as (url, metrics):
        answer = ask(url, MODEL, "What ends in a hit?", max_tokens=4)
        verified = f'hypertier_router_kvaware_verified{{replica="http://127.0.0.1:{port}"}} 1.0'
        while verified not in page(metrics):
            pass

    assert answer.text


def page(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
        return str(response.read().decode())


def test_who_shows_nothing_and_who_looks_for_another_name_gets_nothing(
    engine: tuple[int, int], authority: Authority, secret: Secret
) -> None:
    port, _ = engine

    with pytest.raises(OSError):
        urllib.request.urlopen(f"https://127.0.0.1:{port}/health", context=authority.client(), timeout=30)
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30)

    assert asked(port, secret, "another.inference.svc") == 1
    assert asked(port, secret) == 0


def test_a_renewed_certificate_is_shown_without_a_restart(
    engine: tuple[int, int], authority: Authority, secret: Secret
) -> None:
    port, _ = engine

    for _ in range(2):
        renewed = secret.renew()
        while shown(port) != renewed:
            pass

    assert asked(port, secret) == 0


def shown(port: int) -> str:
    """What an engine shows to whoever connects."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port))).hex()
