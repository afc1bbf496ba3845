"""Tenants acme and zeta, their keys, and the files that a router reads of them."""

from __future__ import annotations

import base64
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypertier.router.access import keys, salt

ACME, ZETA = "sk-ht-acme-acme-acme-acme", "sk-ht-zeta-zeta-zeta-zeta"
SALT_KEY = bytes(range(32))
CHAT = b"/v1/chat/completions"


def bearer(key: str) -> bytes:
    """The header of a key, as OpenAI's clients send it."""
    return b"Authorization: Bearer " + key.encode()


def salt_of(tenant: str) -> str:
    """What the tenant's bodies carry."""
    return salt.derive(SALT_KEY, tenant).decode()


class AccessFolder:
    """The files of `--api-keys`, `--salt-key` and, where there is a policy, `--access`."""

    def __init__(self, path: Path, policy: str | None = None) -> None:
        self.keys = path / "keys"
        self.salt_key = path / "salt-key"
        self.policy = path / "access.yaml"
        self.write_keys(keys.line(ACME, "acme", None), keys.line(ZETA, "zeta", None))
        self.salt_key.write_bytes(base64.b64encode(SALT_KEY) + b"\n")
        if policy is not None:
            self.policy.write_text(policy)

    def write_keys(self, *lines: str) -> None:
        """Put these in the place of the keys, as Kubernetes does: a new file, moved there."""
        made = self.keys.with_suffix(".new")
        made.write_text("\n".join(lines))
        made.replace(self.keys)

    @property
    def settings(self) -> dict[str, Any]:
        """As `RouterSettings` takes them."""
        found: dict[str, Any] = {
            "api_keys": str(self.keys),
            "salt_key": str(self.salt_key),
            "metrics_port": 0,
        }
        return found | ({"access": str(self.policy)} if self.policy.exists() else {})


@contextmanager
def router_process(folder: AccessFolder | None, *args: str) -> Iterator[tuple[str, str]]:
    """`hypertier router` as a process that asks for keys, where there are any: its URL, and its metrics'."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics_port = free.getsockname()[1]
    files = [] if folder is None else ["--api-keys", str(folder.keys), "--salt-key", str(folder.salt_key)]
    command = [sys.executable, "-c", "from hypertier.cli.main import main; main()", "router"]
    command += ["--listen", "127.0.0.1:0", "--metrics-port", str(metrics_port), *files, *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None
            yield found[0], f"http://127.0.0.1:{metrics_port}"
        finally:
            process.kill()
