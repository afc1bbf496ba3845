"""Certificates of a Secret that Kubernetes swaps reach vLLM, each time, and not only once."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes_tls import Authority

from hypertier.errors import ConfigError
from hypertier.lab.engine_env import find_engine_python
from hypertier.tier.certificates import copied_arguments, copy, hand_on, remove, sweep

ROOT = Path(__file__).parents[3]
# vLLM's own refresher, as `vllm.entrypoints.launchers.launcher.serve_http` starts it, without a model.
SERVER = """
import asyncio, os, sys
import uvicorn
from vllm.entrypoints.launchers.utils.ssl import SSLCertRefresher

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})

def is_watching():
    for number in os.listdir("/proc/self/fd"):
        try:
            with open(f"/proc/self/fdinfo/{number}") as told:
                if "inotify wd:" in told.read():
                    return True
        except OSError:
            pass  # closed meanwhile
    return False

async def main(cert, key):
    files = {"ssl_certfile": cert, "ssl_keyfile": key}
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="off", **files)
    config.load()
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    SSLCertRefresher(ssl_context=config.ssl, key_path=key, cert_path=cert)
    while not is_watching():
        await asyncio.sleep(0)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await serving

asyncio.run(main(*sys.argv[1:]))
"""


class Mounted:
    """A Secret as Kubernetes mounts it: links to a folder that is swapped whole."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self._folder = folder
        self._authority = authority
        self._number = 0
        self.swap()
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(f"..data/{name}")

    @property
    def files(self) -> tuple[str, str]:
        """Of the certificate and of its key."""
        return str(self._folder / "tls.crt"), str(self._folder / "tls.key")

    def swap(self) -> str:
        """A new certificate in place of the old one; what servers show then."""
        self._number += 1
        old = (self._folder / "..data").resolve() if self._number > 1 else None
        new = self._folder / f"..{self._number}"
        cert, _ = self._authority.issue(f"engine-{self._number}", at=new)
        (self._folder / "..new").symlink_to(new.name)
        (self._folder / "..new").replace(self._folder / "..data")
        if old is not None:
            shutil.rmtree(old)
        return ssl.PEM_cert_to_DER_cert(Path(cert).read_text()).hex()


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    (tmp_path / "secret").mkdir()
    return Mounted(tmp_path / "secret", Authority(tmp_path))


@pytest.mark.parametrize("equals", [False, True], ids=["two-words", "one-word"])
def test_vllm_is_given_copies_where_it_is_to_look_at_them_again(equals: bool) -> None:
    pair = ["--ssl-certfile=/a/tls.crt"] if equals else ["--ssl-certfile", "/a/tls.crt"]
    changed = ["--ssl-certfile=/m/certfile.pem"] if equals else ["--ssl-certfile", "/m/certfile.pem"]

    asked = copied_arguments(["--model", "m", *pair, "--enable-ssl-refresh"], Path("/m"))
    plain = copied_arguments(["--model", "m", *pair], Path("/m"))

    assert asked == (["--model", "m", *changed, "--enable-ssl-refresh"], {"/a/tls.crt": "/m/certfile.pem"})
    assert plain == (["--model", "m", *pair], {})


def test_one_file_for_several_options_is_copied_for_all_of_them() -> None:
    pem, refresh = "/a/all.pem", "--enable-ssl-refresh"

    changed, copies = copied_arguments(["--ssl-keyfile", pem, "--ssl-certfile", pem, refresh], Path("/m"))

    assert {changed[1], changed[3]} == set(copies.values())


def test_copies_keep_their_place_and_are_for_nobody_else(mounted: Mounted, tmp_path: Path) -> None:
    copies = {file: str(tmp_path / Path(file).name) for file in mounted.files}
    copy(copies)
    before = os.stat(tmp_path / "tls.key")

    unchanged = copy(copies)
    mounted.swap()
    changed = copy(copies)

    after = os.stat(tmp_path / "tls.key")
    assert (unchanged, changed) == (False, True)
    assert before.st_ino == after.st_ino
    assert after.st_mode & 0o777 == 0o600
    assert [Path(copies[file]).read_bytes() for file in mounted.files] == [
        Path(file).read_bytes() for file in mounted.files
    ]


def test_no_copy_outlives_the_process_that_it_was_made_for(mounted: Mounted, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "keeper = [sys.executable, '-m', 'hypertier.tier.certificates', *sys.argv[1:]]\n"
        "child = subprocess.Popen(keeper, stdout=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    folder = tmp_path / "copies"
    folder.mkdir()
    words = [word for file in mounted.files for word in (file, str(folder / Path(file).name))]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    while len(list(folder.iterdir())) < len(mounted.files):
        assert process.poll() is None

    process.communicate("")

    while folder.exists():
        assert process.returncode == 0


def test_what_killed_engines_left_behind_is_swept_and_nothing_else(tmp_path: Path) -> None:
    shm, proc = tmp_path / "shm", tmp_path / "proc"
    folders = {name: shm / f"hypertier-tls-{name}" for name in ("used", "left", "new")}
    for folder in (*folders.values(), shm / "somebody-elses"):
        folder.mkdir(parents=True)
        (folder / "keyfile.pem").write_text("key")
        os.utime(folder, (0, 0))
    os.utime(folders["new"])
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cmdline").write_bytes(b"vllm\0--ssl-keyfile\0%s/keyfile.pem\0" % bytes(folders["used"]))
    (proc / "8").mkdir()  # has ended meanwhile
    (proc / "stat").touch()

    sweep(shm, proc)

    assert {path.name for path in shm.iterdir()} == {
        "hypertier-tls-used",
        "hypertier-tls-new",
        "somebody-elses",
    }


def test_what_is_no_copy_is_left_where_it_is(tmp_path: Path) -> None:
    own, other = tmp_path / "cert.pem", tmp_path / "other"
    for file in (own, other):
        file.touch()

    remove([str(own)])

    assert list(tmp_path.iterdir()) == [other]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is '/nowhere/tls\.crt'; expected files"):
        hand_on(["--ssl-certfile", "/nowhere/tls.crt", "--enable-ssl-refresh"], tmp_path)


@contextmanager
def vllms_server(cert: str, key: str) -> Iterator[int]:
    """The port of a server with vLLM's refresher."""
    python = str(find_engine_python(os.environ, ROOT))
    with subprocess.Popen([python, "-c", SERVER, cert, key], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.engine
def test_vllm_shows_every_new_certificate_of_a_mounted_secret(mounted: Mounted, tmp_path: Path) -> None:
    copies = {file: str(tmp_path / Path(file).name) for file in mounted.files}
    copy(copies)
    words = [word for pair in copies.items() for word in pair]
    keeper = subprocess.Popen([sys.executable, "-m", "hypertier.tier.certificates", *words])
    try:
        with vllms_server(*copies.values()) as port:
            for _ in range(3):
                expected = mounted.swap()
                while shown(port) != expected:
                    assert keeper.poll() is None
    finally:
        keeper.kill()
        keeper.wait()


def shown(port: int) -> str:
    """The certificate that is shown to who connects."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port))).hex()
