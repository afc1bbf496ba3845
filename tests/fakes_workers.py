"""`hypertier router --workers` as processes, and what its port for operators says."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fakes_engine import Answer, RawClient, get, post

ROUTER = (sys.executable, "-c", "from hypertier.cli.main import main; main()", "router")
CHAT = b"/v1/chat/completions"


@dataclass
class Workers:
    """A router that runs, with its ports."""

    process: subprocess.Popen[str]
    port: int
    admin_port: int

    async def told(self, path: str) -> Answer:
        """What the port for operators answers."""
        client = await RawClient.connect(self.admin_port)
        client.send(get(path.encode()))
        answer = await client.answer()
        client.close()
        return answer

    async def health(self) -> dict[str, Any]:
        """Its `/healthz`."""
        found: dict[str, Any] = json.loads((await self.told("/healthz")).body)
        return found

    async def pids(self) -> list[int]:
        """Of the workers that serve, by their slots."""
        workers = (await self.health())["workers"]
        return [one["pid"] for one in sorted(workers, key=lambda one: int(one["worker"])) if one["serves"]]

    async def metric(self, name: str) -> float:
        """The sum of all series of a metric."""
        page = (await self.told("/metrics")).body.decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE))

    async def chat(self, *headers: bytes) -> Answer:
        """One chat on a connection of its own."""
        client = await RawClient.connect(self.port)
        client.send(post(CHAT, b"{}", *headers))
        answer = await client.answer()
        client.close()
        return answer


@asynccontextmanager
async def workers_of(*args: str, listen_port: int = 0) -> AsyncIterator[Workers]:
    """Start a router on free ports, and wait in threads, for the engines live in this loop."""
    with subprocess.Popen(
        [*ROUTER, "--listen", f"127.0.0.1:{listen_port}", "--metrics-port", "0", *args],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            line = await asyncio.to_thread(process.stdout.readline)
            found = re.search(r"http://127\.0\.0\.1:(\d+).*metrics on (\d+)", line)
            assert found is not None, line
            yield Workers(process, int(found[1]), int(found[2]))
        finally:
            process.kill()
