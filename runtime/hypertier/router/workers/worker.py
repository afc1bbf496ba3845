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
from hypertier.router.listening import Sockets
from hypertier.router.process_memory import collect_seldom, keep_freed_memory
from hypertier.router.workers.channel import ALIVE_SECONDS, Begin, Channel

log = logging.getLogger("hypertier.router")


async def work(ours: socket.socket) -> int:
    """Serve until told to end, or until the supervisor is gone; the exit status."""
    channel = await Channel.on(ours)
    heard = channel.heard()
    begin = Begin.read(await anext(heard))
    logging.basicConfig(
        format=f"%(asctime)s %(levelname)s worker {begin.slot}: %(message)s", level=logging.INFO
    )
    alive = asyncio.get_running_loop().create_task(_say_alive(channel))
    clients = [[socket.socket(fileno=number) for number in numbers] for numbers in begin.clients]
    sockets = Sockets(
        clients=_copies(clients[begin.slot]),
        admin=socket.socket(fileno=begin.admin),
        peers=None if begin.peers is None else socket.socket(fileno=begin.peers),
        workers=begin.ports,
    )
    try:
        router = Router(begin.settings, sockets=sockets)
        try:
            await router.start()
            collect_seldom()
            channel.tell(ready=len(router.replicas.healthy))
            is_replaced = await _until_told(router, channel, clients)
            for slot in clients:
                for one in slot:
                    one.close()
            await router.drain(is_replaced=is_replaced)
            channel.tell(metrics=router.last_metrics.decode())
            if router.failure is not None:
                raise router.failure
        finally:
            await router.stop()
    except HypertierError as error:
        channel.tell(error=str(error))
        return 1
    finally:
        alive.cancel()
        await channel.close()
    return 0


async def _until_told(router: Router, channel: Channel, clients: Sequence[Sequence[socket.socket]]) -> bool:
    """Cover for others as told until this one is to end; whether another has its sockets."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[bool] = loop.create_future()

    def end(is_replaced: bool = False) -> None:
        if not told.done():
            told.set_result(is_replaced)

    async def listen() -> None:
        async for message in channel.heard():
            if message["do"] == "cover":
                try:
                    await router.cover({slot: _copies(clients[slot]) for slot in message["slots"]})
                except OSError:  # no more files: whoever waits there waits for the next worker of that slot
                    log.exception("can't stand in for workers that are away")
            else:
                end(message["do"] == "leave")
        end()  # without a supervisor nobody would replace or stop it

    router.on_failure = end
    loop.add_signal_handler(signal.SIGTERM, end)
    listening = loop.create_task(listen())
    try:
        return await told
    finally:
        listening.cancel()


async def _say_alive(channel: Channel) -> None:
    while True:
        channel.tell(alive=True)
        await asyncio.sleep(ALIVE_SECONDS)


def _copies(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    return [one.dup() for one in sockets]


if __name__ == "__main__":
    keep_freed_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(work(socket.socket(fileno=int(sys.argv[1])))))
