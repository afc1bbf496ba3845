"""A worker: a router as any other, on sockets that its supervisor opened. `python -m` runs it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence

import uvloop

from hypertier.errors import HypertierError
from hypertier.router.app import Router
from hypertier.router.http.listening import Sockets
from hypertier.router.process.process_memory import collect_seldom, keep_freed_memory
from hypertier.router.workers.channel import ALIVE_SECONDS, Begin, Channel

log = logging.getLogger("hypertier.router")


async def work(ours: socket.socket) -> int:
    """Serve until told to end, or until the supervisor is gone; the exit status."""
    channel = await Channel.on(ours)
    begin = Begin.read(await anext(channel.heard()))
    logging.basicConfig(
        format=f"%(asctime)s %(levelname)s worker {begin.slot}: %(message)s", level=logging.INFO
    )
    loop = asyncio.get_running_loop()
    beside = [loop.create_task(_say_alive(channel))]
    clients = [[socket.socket(fileno=number) for number in numbers] for numbers in begin.clients]
    sockets = Sockets(
        clients=_copies(clients[begin.slot]),
        admin=socket.socket(fileno=begin.admin),
        peers=None if begin.peers is None else socket.socket(fileno=begin.peers),
        workers=begin.ports,
    )
    told = Told()
    loop.add_signal_handler(signal.SIGTERM, told.end)
    try:
        router = Router(begin.settings, sockets=sockets)
        router.on_failure = told.end
        try:
            await router.start()
            collect_seldom()
            channel.tell(ready=len(router.replicas.healthy))
            beside.append(loop.create_task(_listen(channel, told, router, clients)))
            is_replaced = await told.to_end
            for slot in clients:
                for one in slot:
                    one.close()
            await router.drain(is_replaced=is_replaced, hurry=told.hurry)
            channel.tell(metrics=router.last_metrics.decode())
            if router.failure is not None:
                raise router.failure
        finally:
            await router.stop()
    except HypertierError as error:
        channel.tell(error=str(error))
        return 1
    finally:
        for task in beside:
            task.cancel()
        await channel.close()
    return 0


class Told:
    """`to_end` is done once this one is to, with whether another has its sockets; `hurry` may come then."""

    def __init__(self) -> None:
        self.to_end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.hurry = asyncio.Event()

    def end(self, is_replaced: bool = False) -> None:
        """It is to end; what is told first counts."""
        if not self.to_end.done():
            self.to_end.set_result(is_replaced)


async def _listen(
    channel: Channel, told: Told, router: Router, clients: Sequence[Sequence[socket.socket]]
) -> None:
    """Do as the supervisor says, and cover for others."""
    async for message in channel.heard():
        if message["do"] == "hurry":
            told.hurry.set()
        elif message["do"] == "cover":
            try:
                await router.cover({slot: _copies(clients[slot]) for slot in message["slots"]})
            except OSError:  # no more files: whoever waits there waits for the next worker of that slot
                log.exception("can't stand in for workers that are away")
        else:
            told.end(message["do"] == "leave")
    told.end()  # without a supervisor nobody would replace or stop it


async def _say_alive(channel: Channel) -> None:
    while True:
        channel.tell(alive=True)
        await asyncio.sleep(ALIVE_SECONDS)


def _copies(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    return [one.dup() for one in sockets]


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # who tells all processes of that name means the supervisor
    keep_freed_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(work(socket.socket(fileno=int(sys.argv[1])))))
