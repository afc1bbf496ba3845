"""Certificates that change while vLLM runs, handed on: `python -m hypertier.tier.certificates FROM TO`

vLLM's `--enable-ssl-refresh` watches the file that a path leads to when it starts. Kubernetes swaps a mounted
Secret by symbolic links: vLLM 0.32 sees that once, as the file's end, and never again (tried 2026-12-02). So
vLLM gets plain copies in memory, which this process writes anew where the originals changed, for as long as
the process lives that started it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hypertier.errors import ConfigError
from hypertier.spec.arguments import find_option

REFRESH = "--enable-ssl-refresh"
FILES = ("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs")
POLL_SECONDS = 2.0
PREFIX = "hypertier-tls-"
NEW_SECONDS = 60.0


def copied_arguments(arguments: Sequence[str], folder: Path) -> tuple[list[str], dict[str, str]]:
    """The arguments with copies in `folder` in the place of certificates, and what is copied where.

    Nothing is where vLLM is not told to look at them again.
    """
    changed, copies = list(arguments), dict[str, str]()
    if REFRESH not in arguments:
        return changed, {}
    for name in FILES:
        found = find_option(arguments, name)
        if found is None:
            continue
        index, file = found
        copies.setdefault(file, str(folder / f"{name.removeprefix('--ssl-')}.pem"))
        changed[index] = changed[index].removesuffix(file) + copies[file]
    return changed, copies


def hand_on(arguments: Sequence[str], shm: Path, proc: Path = Path("/proc")) -> list[str]:
    """The arguments of a vLLM whose certificates are handed on from now on, by a process of their own.

    Raises:
        ConfigError: a file that can't be read.
    """
    if not copied_arguments(arguments, shm)[1]:
        return list(arguments)
    sweep(shm, proc)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=shm if shm.is_dir() else None))
    changed, copies = copied_arguments(arguments, folder)
    for source in copies:
        try:
            copy({source: copies[source]})
        except OSError as error:
            setting = "--ssl-certfile, --ssl-keyfile, --ssl-ca-certs"
            raise ConfigError(setting, source, f"files that can be read ({error})") from error
    words = [word for pair in copies.items() for word in pair]
    subprocess.Popen([sys.executable, "-m", "hypertier.tier.certificates", *words])
    return changed


def sweep(shm: Path, proc: Path) -> None:
    """Remove the copies of engines that are gone: a container that is killed leaves private keys behind, and
    its shared memory outlives it. A folder is in use while a process of this container has been told of it,
    and while it is new: an engine that starts now has told none yet.
    """
    found = [path for path in shm.glob(f"{PREFIX}*") if path.is_dir() and is_old(path.stat())]
    lines = [command_line(process) for process in proc.iterdir() if process.name.isdecimal()] if found else []
    for folder in found:
        if not any(bytes(folder) in line for line in lines):
            shutil.rmtree(folder, ignore_errors=True)


def is_old(status: os.stat_result) -> bool:
    """Whether a folder is ours and was made a while ago."""
    return status.st_uid == os.geteuid() and time.time() - status.st_mtime > NEW_SECONDS


def command_line(process: Path) -> bytes:
    """What a process was started with; nothing of one that has ended."""
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def copy(copies: Mapping[str, str]) -> bool:
    """Write what differs, in place, for whoever watches the copies; whether something did. Raises OSError."""
    is_changed = False
    for source, target in copies.items():
        data = Path(source).read_bytes()
        file = os.open(target, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(file, "r+b") as opened:
            if opened.read() != data:
                opened.seek(0)
                opened.write(data)
                opened.truncate()
                is_changed = True
    return is_changed


def main(words: Sequence[str]) -> None:
    """Copy until the process is gone that started this one, then leave no copy behind."""
    copies = dict(zip(words[::2], words[1::2], strict=True))
    parent = os.getppid()
    problem = ""
    while os.getppid() == parent:
        try:
            if copy(copies):
                print("hypertier: certificates changed; vLLM gets the new ones", file=sys.stderr, flush=True)
            problem = ""
        except OSError as error:  # while Kubernetes swaps them, say
            if str(error) != problem:
                print(f"hypertier: certificates can't be read: {error}", file=sys.stderr, flush=True)
            problem = str(error)
        time.sleep(POLL_SECONDS)
    remove(copies.values())


def remove(targets: Iterable[str]) -> None:
    """Remove copies, and the folder that was made for them, where nothing else is in it."""
    paths = [Path(target) for target in targets]
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        with suppress(OSError):
            folder.rmdir()


if __name__ == "__main__":
    main(sys.argv[1:])
