"""Valkey, or Redis 6.2 or newer, as L2, over raw RESP: values are received straight into L1's slots."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hypertier.errors import TierError, TierPartError, TierProtocolError, TierUnavailableError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.backend import Buffer, Listener
from hypertier.tier.backends.connecting import Trust
from hypertier.tier.backends.resp_node import Connection, Node, command
from hypertier.tier.backends.resp_reader import ErrorReply, Reply
from hypertier.tier.backends.slots import parse_redirect
from hypertier.tier.backends.topology import Topology, refusal
from hypertier.tier.circuit import Circuit
from hypertier.tier.credentials import CredentialSource

T = TypeVar("T")

MAX_REDIRECTS = 5
CONNECT_SHARE = 0.25  # of what is left, for one server of several to be connected to
ASKING = command(b"ASKING")
FULL = "OOM"  # what a server of maxmemory-policy noeviction answers, once it is full


@dataclass(frozen=True)
class Wanted:
    """One key of several, and the command on it; `asking` after a server said ASK."""

    index: int
    command: bytes
    asking: bool = False


class RespBackend:
    """Valkey or Redis, one server or a cluster. Connects at the first call, and again after any failure."""

    replaces_values = True

    def __init__(self, address: L2Address, credentials: CredentialSource, ca_file: str = "") -> None:
        self._seed = address
        self._topology = Topology(address, credentials, Trust(ca_file) if address.tls else None)

    def exists_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Send one EXISTS per key, all at once, to all servers at once; with no keys, send PING.

        One server of a cluster that does not answer holds none of its keys, and is left alone for a while.
        """
        if not keys:
            self._topology.node_at(self._seed).call(ping, timeout_seconds)
            return []
        return self._for_each(keys, [command(b"EXISTS", key) for key in keys], timeout_seconds)

    def refresh_many(
        self, keys: Sequence[bytes], ttl_seconds: Sequence[int], timeout_seconds: float
    ) -> list[bool]:
        """Send one EXPIRE per key, as `exists_many` sends its commands."""
        commands = [command(b"EXPIRE", key, b"%d" % ttl) for key, ttl in zip(keys, ttl_seconds, strict=True)]
        return self._for_each(keys, commands, timeout_seconds)

    def remove_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Send one UNLINK per key, as `exists_many` sends its commands."""
        return self._for_each(keys, [command(b"UNLINK", key) for key in keys], timeout_seconds)

    def ask(self, key: bytes, commands: Sequence[bytes], timeout_seconds: float) -> list[Reply]:
        """Send commands on `key` at once and return their replies.

        Raises:
            TierUnavailableError: the server refuses one of them, or does not answer.
        """
        requests = [[each] for each in commands]
        replies: list[Reply] | ErrorReply = self._call(key, requests, Connection.read, timeout_seconds)
        if isinstance(replies, ErrorReply):
            raise refusal(replies)
        return replies

    def _for_each(
        self, keys: Sequence[bytes], commands: Sequence[bytes], timeout_seconds: float
    ) -> list[bool]:
        """Send one command for each key, all at once, to all servers at once; is the answer above 0?"""
        deadline = time.monotonic() + timeout_seconds
        found = [False] * len(keys)
        batches: dict[Node, list[Wanted]] = {}
        for index, (key, to_send) in enumerate(zip(keys, commands, strict=True)):
            try:
                node = self._topology.node_of(key, timeout_seconds)
            except TierUnavailableError:
                continue  # nobody serves its slot: nobody holds it
            batches.setdefault(node, []).append(Wanted(index, to_send))
        if not batches:
            raise TierUnavailableError("no server of L2 has a slot of any key")
        for _ in range(MAX_REDIRECTS):
            batches = self._ask_all(batches, found, deadline)
            if not batches:
                break
        return found

    def get_into(
        self,
        key: bytes,
        buffers: Sequence[memoryview],
        ttl_seconds: int,
        timeout_seconds: float,
        listener: Listener | None = None,
    ) -> int | None:
        """Send GETEX ... EX and receive into `buffers`. A key that holds no string holds no value."""
        request = [command(b"GETEX", key, b"EX", b"%d" % ttl_seconds)]
        lengths = self._call(
            key, [request], lambda connection: connection.read_into(buffers, listener), timeout_seconds
        )
        if isinstance(lengths, ErrorReply):
            if lengths.code == "WRONGTYPE":
                return None
            raise refusal(lengths)
        return lengths[0]

    def put(self, key: bytes, buffers: Sequence[Buffer], ttl_seconds: int, timeout_seconds: float) -> None:
        """Send SET ... EX with the buffers as they lie."""
        length = sum(map(len, buffers))
        head = b"*5\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key, length)
        ttl = b"%d" % ttl_seconds
        tail = b"\r\n$2\r\nEX\r\n$%d\r\n%s\r\n" % (len(ttl), ttl)
        request = [head, *buffers, tail]
        replies = self._call(key, [request], Connection.read, timeout_seconds, is_put=True)
        expect(replies if isinstance(replies, ErrorReply) else replies[0], b"OK")

    def close(self) -> None:
        """Break off all connections."""
        self._topology.close()

    def _call(
        self,
        key: bytes,
        commands: Sequence[Sequence[Buffer]],
        read: Callable[[Connection], T | ErrorReply],
        timeout_seconds: float,
        *,
        is_put: bool = False,
    ) -> list[T] | ErrorReply:
        """Have the server of `key` carry out commands, wherever redirections lead, all again where one is
        redirected; returns what `read` has made of the last one's answers, or the first error among them.

        Raises:
            TierPartError: one server of a cluster refuses or does not answer, now or a moment ago; of what
                `is_put`, one that is full, now or a moment ago.
        """
        deadline = time.monotonic() + timeout_seconds
        node = self._topology.node_of(key, timeout_seconds)
        asking = False
        for _ in range(MAX_REDIRECTS):
            is_part = self._topology.is_cluster
            if is_part and is_put and not node.room.admits():
                raise TierPartError(f"{node.address.host}:{node.address.port} is full, and gets no values")
            if is_part and not node.circuit.admits():
                if is_put:
                    node.room.abstained()
                raise TierPartError(f"{node.address.host}:{node.address.port} is left alone for a while")
            try:
                answer = node.call(exchange_of(commands, read, asking), deadline - time.monotonic())
                redirect = parse_redirect(answer, node.address) if isinstance(answer, ErrorReply) else None
            except TierError as error:
                self._topology.doubt()
                if not is_part:
                    raise
                node.circuit.failed()
                if is_put:
                    node.room.abstained()
                raise TierPartError(str(error)) from error
            if is_part:
                node.circuit.succeeded()
            if is_part and is_put:
                note_room(node.room, answer)
            if redirect is None:
                if is_part and isinstance(answer, ErrorReply) and answer.code != "WRONGTYPE":
                    raise TierPartError(str(refusal(answer)))
                return answer
            node, asking = self._topology.follow(redirect), redirect.asking
        return answer

    def _ask_all(
        self, batches: dict[Node, list[Wanted]], found: list[bool], deadline: float
    ) -> dict[Node, list[Wanted]]:
        """Ask several servers at once; returns what they redirected.

        Raises:
            TierPartError: no server of a cluster answered, but only one was asked, or none.
            TierError: that of the first server, when no server answered.
        """
        redirected: dict[Node, list[Wanted]] = {}
        errors: list[TierError] = []
        is_cluster = self._topology.is_cluster
        asked = [node for node in batches if not is_cluster or node.circuit.admits()]
        asked.sort(key=lambda node: not node.is_connected)  # connecting takes a while, and others wait for it
        waiting: list[tuple[Node, list[Wanted], Callable[[], list[Reply]]]] = []
        for place, node in enumerate(asked, start=1):
            batch, left = batches[node], deadline - time.monotonic()
            share = left if place == len(asked) else CONNECT_SHARE * left
            finish = node.start([joined(batch)], partial(read_batch, batch), left, share)
            waiting.append((node, batch, finish))
        for node, batch, finish in waiting:
            try:
                for wanted, reply in zip(batch, finish(), strict=True):
                    redirect = parse_redirect(reply, node.address) if isinstance(reply, ErrorReply) else None
                    if redirect is None:
                        found[wanted.index] = number(reply) > 0
                    else:
                        again = Wanted(wanted.index, wanted.command, redirect.asking)
                        redirected.setdefault(self._topology.follow(redirect), []).append(again)
            except TierError as error:
                errors.append(error)
                node.circuit.failed()
                self._topology.doubt()
            else:
                node.circuit.succeeded()
        if len(errors) == len(waiting):
            if len(errors) < 2 and is_cluster:
                raise TierPartError(str(errors[0] if errors else "all servers of these keys are left alone"))
            raise errors[0]
        return redirected


def joined(batch: Sequence[Wanted]) -> bytes:
    """The commands of a batch."""
    return b"".join((ASKING if wanted.asking else b"") + wanted.command for wanted in batch)


def read_batch(batch: Sequence[Wanted], connection: Connection) -> list[Reply]:
    """Read the replies to `joined`."""
    replies: list[Reply] = []
    for wanted in batch:
        if wanted.asking:
            connection.read()
        replies.append(connection.read())
    return replies


def exchange_of(
    commands: Sequence[Sequence[Buffer]], read: Callable[[Connection], T | ErrorReply], asking: bool
) -> Callable[[Connection], list[T] | ErrorReply]:
    """Send commands at once and read their answers, or the first error. Where a server demanded ASKING, it
    goes before each: it holds for one.
    """

    def exchange(connection: Connection) -> list[T] | ErrorReply:
        first = [ASKING] if asking else []
        connection.send([buffer for each in commands for buffer in (*first, *each)])
        answers: list[T] = []
        error: ErrorReply | None = None
        for _ in commands:
            if asking:
                connection.read()
            answer = read(connection)
            if not isinstance(answer, ErrorReply):
                answers.append(answer)
            elif error is None:
                error = answer
        return answers if error is None else error

    return exchange


def ping(connection: Connection) -> None:
    """See whether a server is there."""
    connection.send([command(b"PING")])
    expect(connection.read(), b"PONG")


def note_room(room: Circuit, answer: object) -> None:
    """What the answer to a value that was put says of the room for others."""
    if not isinstance(answer, ErrorReply):
        room.succeeded()
    elif answer.code == FULL:
        room.failed()
    else:
        room.abstained()


def expect(reply: Reply, wanted: bytes) -> None:
    """Check that a reply is `wanted`."""
    if isinstance(reply, ErrorReply):
        raise refusal(reply)
    if reply != wanted:
        raise TierProtocolError(f"L2 answered {str(reply)[:64]} where {wanted.decode()} was expected")


def number(reply: Reply) -> int:
    """Check that a reply is a whole number."""
    if isinstance(reply, ErrorReply):
        raise refusal(reply)
    if not isinstance(reply, int):
        raise TierProtocolError(f"L2 answered {str(reply)[:64]} where a number was expected")
    return reply
