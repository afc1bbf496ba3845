"""A simulated cluster for `shards.py`: python servers.py COUNT. Prints the first one's port.

Each server is a port of this process. To "count" on standard input it answers what was asked since, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys

from hypertier.tier.backends.slots import NUM_SLOTS, key_slot


class Servers:
    """Servers with equal shares of the slots, and one store."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.ports: list[int] = []
        self.values: dict[bytes, bytes] = {}
        self.num_pieces = 0
        self.num_commands = 0

    def owner(self, key: bytes) -> int:
        """Which server a key belongs to."""
        return key_slot(key) * self.count // NUM_SLOTS

    def slots(self) -> bytes:
        """The answer to CLUSTER SLOTS."""
        entries = []
        for number, port in enumerate(self.ports):
            first = -(-number * NUM_SLOTS // self.count)
            last = -(-(number + 1) * NUM_SLOTS // self.count) - 1
            node = b"*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$1\r\n%d\r\n" % (port, number % 10)
            entries.append(b"*3\r\n:%d\r\n:%d\r\n%s" % (first, last, node))
        return b"*%d\r\n%s" % (len(entries), b"".join(entries))

    def answer(self, number: int, parts: list[bytes]) -> bytes:
        """Carry out one command as server `number`."""
        if parts[0] == b"CLUSTER":
            return self.slots()
        owner = self.owner(parts[1])
        if owner != number:
            return b"-MOVED %d 127.0.0.1:%d\r\n" % (key_slot(parts[1]), self.ports[owner])
        self.num_commands += 1
        if parts[0] == b"SET":
            self.values[parts[1]] = parts[2]
            return b"+OK\r\n"
        value = self.values.get(parts[1])
        if parts[0] == b"EXISTS":
            return b":%d\r\n" % (value is not None)
        return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


class Client(asyncio.Protocol):
    """One connection to one server."""

    def __init__(self, servers: Servers, number: int) -> None:
        self._servers = servers
        self._number = number
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember whom to answer."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole command at once."""
        self._buffer += data
        answers, end = [], 0
        while (parsed := parse(self._buffer, end)) is not None:
            parts, end = parsed
            answers.append(self._servers.answer(self._number, parts))
        del self._buffer[:end]
        if answers:
            self._servers.num_pieces += 1
            self._transport.write(b"".join(answers))  # type: ignore[attr-defined]


def parse(buffer: bytearray, start: int) -> tuple[list[bytes], int] | None:
    """One command and where it ends, None where it is not there as a whole."""
    line = buffer.find(b"\n", start)
    if line < 0:
        return None
    count, at, parts = int(buffer[start + 1 : line]), line + 1, []
    for _ in range(count):
        line = buffer.find(b"\n", at)
        if line < 0:
            return None
        end = line + 1 + int(buffer[at + 1 : line])
        if len(buffer) < end + 2:
            return None
        parts.append(bytes(buffer[line + 1 : end]))
        at = end + 2
    return parts, at


async def main() -> None:
    """Serve until killed."""
    servers, loop = Servers(int(sys.argv[1])), asyncio.get_running_loop()
    for number in range(servers.count):
        listener = await loop.create_server(lambda number=number: Client(servers, number), "127.0.0.1", 0)
        servers.ports.append(listener.sockets[0].getsockname()[1])
    print(servers.ports[0], flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps({"pieces": servers.num_pieces, "commands": servers.num_commands}), flush=True)
        servers.num_pieces = servers.num_commands = 0


if __name__ == "__main__":
    asyncio.run(main())
