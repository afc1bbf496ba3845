"""One worker, as its supervisor sees it: a process, what it says, and where it is asked."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hypertier.errors import HttpError, WorkerError
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.engine_http import ask
from hypertier.router.settings import RouterSettings
from hypertier.router.workers.channel import Begin, Channel
from hypertier.router.workers.plan import LOOPBACK
from hypertier.router.workers.sockets import bind

MAX_ANSWER_BYTES = 64 * 2**20
ASK_SECONDS = 5.0


class Worker:
    """A process that was started; `ready` is done with its number of healthy replicas once it serves.

    `heard_at` is when it last said anything, `page` its metrics as last read, in seconds of the loop and as
    text.
    """

    def __init__(
        self, slot: int, process: asyncio.subprocess.Process, channel: Channel, admin: Address
    ) -> None:
        loop = asyncio.get_running_loop()
        self.slot = slot
        self.pid = process.pid
        self.is_silent = False
        self.is_leaving = False
        self.page = ""
        self.heard_at = self.started_at = loop.time()
        self.ready: asyncio.Future[int] = loop.create_future()
        self._process = process
        self._channel = channel
        self._admin = admin
        self._error = ""
        self._listening = loop.create_task(self._listen())

    @classmethod
    async def start(
        cls,
        slot: int,
        settings: RouterSettings,
        clients: Sequence[Sequence[socket.socket]],
        peers: socket.socket | None,
        ports: int,
    ) -> Worker:
        """Start one on these sockets, of which it inherits copies."""
        ours, theirs = socket.socketpair()
        admin = bind("--metrics-port", Address(LOOPBACK, 0))
        with theirs, admin:
            numbers = [[one.fileno() for one in group] for group in clients]
            shared = [theirs.fileno(), admin.fileno(), *(number for group in numbers for number in group)]
            own_peers = None if peers is None else peers.fileno()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "hypertier.router.workers.worker", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=shared if own_peers is None else [*shared, own_peers],
                start_new_session=True,  # Ctrl-C is the supervisor's, which tells its workers
            )
            begin = Begin(slot, settings, numbers, admin.fileno(), own_peers, ports)
            channel = await Channel.on(ours)
            channel.tell(**begin.told())
            return cls(slot, process, channel, Address(LOOPBACK, admin.getsockname()[1]))

    @property
    def serves(self) -> bool:
        """It takes connections."""
        return self.ready.done() and not self.is_leaving and self._process.returncode is None

    @property
    def exit_status(self) -> int | None:
        """Of the process; a signal's number below 0; None while it lives."""
        return self._process.returncode

    def tell(self, do: str, **more: Any) -> None:
        """Have it do something, see `channel`."""
        self._channel.tell(do=do, **more)

    async def ended(self) -> int:
        """Return its exit status once it has ended and all that it said was read."""
        status = await self._process.wait()
        await asyncio.shield(self._listening)
        return status

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)

    async def ask(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of what it answers there. Raises HttpError."""
        head = f"{method} {target} HTTP/1.1\r\nHost: worker\r\nContent-Length: {len(body)}\r\n\r\n"
        request = head.encode("latin-1") + body
        return await ask(self._admin, request, timeout_seconds=ASK_SECONDS, max_bytes=MAX_ANSWER_BYTES)

    async def read_page(self) -> bool:
        """Read its metrics into `page`; whether it answered."""
        try:
            status, text = await self.ask("GET", "/metrics")
        except HttpError:
            return False
        if status == 200 and self.exit_status is None:
            self.page = text.decode()
        return status == 200

    async def _listen(self) -> None:
        async for said in self._channel.heard():
            self.heard_at = asyncio.get_running_loop().time()
            if "ready" in said and not self.ready.done():
                self.ready.set_result(said["ready"])
            self._error = said.get("error", self._error)
            self.page = said.get("metrics", self.page)
        await self._channel.close()
        if not self.ready.done():
            status = await self._process.wait()
            problem = self._error or f"worker {self.slot} ended with {status} before it served"
            self.ready.set_exception(WorkerError(problem))
            self.ready.exception()  # whoever waits hears of it; nobody has to
