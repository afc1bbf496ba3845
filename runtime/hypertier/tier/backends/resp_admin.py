"""Looking through all of L2, and removing from it: for people, not for engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hypertier.errors import TierProtocolError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.connecting import Trust
from hypertier.tier.backends.resp_node import Connection, Node, command
from hypertier.tier.backends.resp_reader import ErrorReply, Reply
from hypertier.tier.backends.topology import Topology, refusal
from hypertier.tier.credentials import CredentialSource
from hypertier.tier.inventory import Value
from hypertier.tier.names import PATTERN, parse_entry_name, parse_facts_name

SCAN_COUNT = 1000
TIMEOUT_SECONDS = 10.0


class RespAdmin:
    """All values of ours on one server or on all primaries of a cluster.

    Raises `TierUnavailableError` when a server does not answer or refuses, `TierProtocolError` when it talks
    nonsense.
    """

    def __init__(self, address: L2Address, credentials: CredentialSource, ca_file: str = "") -> None:
        self._topology = Topology(address, credentials, Trust(ca_file) if address.tls else None)

    def values(self) -> Iterator[Value]:
        """Yield every value with its size and the time that it has left."""
        for node, names in self._names():
            yield from look_at(node, names)

    def find(self, names: Sequence[bytes]) -> dict[bytes, Value]:
        """The values under some names, as far as there are any."""
        self._topology.primaries(TIMEOUT_SECONDS)
        by_node: dict[Node, list[bytes]] = {}
        for name in names:
            by_node.setdefault(self._topology.node_of(name, TIMEOUT_SECONDS), []).append(name)
        found = (look_at(node, batch) for node, asked in by_node.items() for batch in batches(asked))
        return {value.name: value for values in found for value in values}

    def facts(self) -> dict[bytes, bytes]:
        """The descriptions of all namespaces that hold something, by namespace; empty where there is none."""
        found: dict[bytes, bytes] = {}
        for node, names in self._names():
            for entry in filter(None, map(parse_entry_name, names)):
                found.setdefault(entry.namespace, b"")
            described = [(name, namespace) for name in names if (namespace := parse_facts_name(name))]
            replies = ask_each(node, [command(b"GET", name) for name, _ in described])
            for (_, namespace), reply in zip(described, replies, strict=True):
                if isinstance(reply, bytes):
                    found[namespace] = reply
        return found

    def remove(self, is_chosen: Callable[[Value], bool]) -> Iterator[int]:
        """Remove the values that are chosen, by name and time left; yields how many, now and then."""
        for node, names in self._chosen(is_chosen):
            replies = ask_each(node, [command(b"UNLINK", name) for name in names])
            yield sum(reply for reply in replies if isinstance(reply, int))

    def count(self, is_chosen: Callable[[Value], bool]) -> int:
        """How many values `remove` would remove."""
        return sum(len(names) for _, names in self._chosen(is_chosen))

    def close(self) -> None:
        """Give up all connections."""
        self._topology.close()

    def _chosen(self, is_chosen: Callable[[Value], bool]) -> Iterator[tuple[Node, list[bytes]]]:
        for node, names in self._names():
            times = ask_each(node, [command(b"TTL", name) for name in names])
            lives = [time if isinstance(time, int) and time >= 0 else None for time in times]
            values = [Value(name, 0, life) for name, life in zip(names, lives, strict=True)]
            yield node, [value.name for value in values if is_chosen(value)]

    def _names(self) -> Iterator[tuple[Node, list[bytes]]]:
        for node in self._topology.primaries(TIMEOUT_SECONDS):
            seen: set[bytes] = set()
            cursor = b"0"
            while True:
                cursor, names = scan(node, cursor)
                fresh = [name for name in dict.fromkeys(names) if name not in seen]
                seen.update(fresh)
                if fresh:
                    yield node, fresh
                if cursor == b"0":
                    break


def batches(names: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Cut names into as many as one request has."""
    return (names[start : start + SCAN_COUNT] for start in range(0, len(names), SCAN_COUNT))


def look_at(node: Node, names: Sequence[bytes]) -> Iterator[Value]:
    """The values under names of one server, without using them."""
    sizes = ask_each(node, [command(b"STRLEN", name) for name in names], leave_untouched=True)
    times = ask_each(node, [command(b"TTL", name) for name in names])
    for name, size, time in zip(names, sizes, times, strict=True):
        if isinstance(size, int) and isinstance(time, int) and time != -2:  # -2: there is none
            yield Value(name, size, None if time < 0 else time)


def scan(node: Node, cursor: bytes) -> tuple[bytes, list[bytes]]:
    """One step of a SCAN: the next cursor, b"0" at the end, and some names."""
    scan_command = command(b"SCAN", cursor, b"MATCH", PATTERN, b"COUNT", b"%d" % SCAN_COUNT)
    match ask_each(node, [scan_command]):
        case [[bytes(next_cursor), list(names)]]:
            return next_cursor, [name for name in names if isinstance(name, bytes)]
        case _:
            raise TierProtocolError("L2 answered SCAN with something else than a cursor and names")


def ask_each(node: Node, commands: Sequence[bytes], *, leave_untouched: bool = False) -> list[Reply]:
    """Send commands at once and return their replies. A key of another type is no error, its reply is one.

    With `leave_untouched`, looking at a value does not count as a use of it, as far as the server can do that
    (Valkey, and Redis 7.2 or newer: https://valkey.io/commands/client-no-touch/, read 2026-12-01).

    Raises:
        TierUnavailableError: the server refuses.
    """

    def exchange(connection: Connection) -> list[Reply]:
        if leave_untouched:
            connection.send([command(b"CLIENT", b"NO-TOUCH", b"on")])
            connection.read()  # an older server refuses, and evicts in a slightly worse order
        connection.send([b"".join(commands)])
        return [connection.read() for _ in commands]

    replies = node.call(exchange, TIMEOUT_SECONDS) if commands else []
    for reply in replies:
        if isinstance(reply, ErrorReply) and reply.code != "WRONGTYPE":
            raise refusal(reply)
    return replies
