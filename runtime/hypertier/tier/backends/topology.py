"""The servers that L2 consists of: one, or a cluster that is learnt from its redirections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hypertier.errors import TierError, TierUnavailableError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.connecting import Trust
from hypertier.tier.backends.resp_node import Connection, Node, command
from hypertier.tier.backends.resp_reader import ErrorReply, Reply
from hypertier.tier.backends.slots import NUM_SLOTS, Redirect, key_slot, parse_slots
from hypertier.tier.credentials import PASSWORD_VARIABLE, SECRET_VARIABLE, CredentialSource

NO_CLUSTER = ("cluster support disabled", "unknown command")  # what a server that is alone answers
NO_AUTH = "NOAUTH"
REFRESH_SECONDS = 1.0  # a cluster that changes is not asked for its slots more often


class Topology:
    """Finds the server of a key. Used by many threads.

    Until the first redirection every key belongs to the server that was named, `seed`; that may be an
    endpoint with the addresses of several. Nothing is asked of a server that is none of a cluster.
    """

    def __init__(
        self,
        seed: L2Address,
        credentials: CredentialSource,
        trust: Trust | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seed = seed
        self._credentials = credentials
        self._trust = trust
        self._clock = clock
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        self._nodes: dict[L2Address, Node] = {}
        self._slots: list[L2Address | None] = []  # empty while L2 seems to be one server
        self._refreshed_at = float("-inf")
        self._is_stale = False
        self._is_closed = False

    def node_of(self, key: bytes, timeout_seconds: float) -> Node:
        """The server that `key` belongs to, by what is known; a stale map is renewed first, by one thread.

        Raises:
            TierUnavailableError: no server has the key's slot.
        """
        if self._is_stale:
            self._refresh(timeout_seconds)
        address = self._slots[key_slot(key)] if self._slots else self._seed
        if address is None:
            self.doubt()
            raise TierUnavailableError(f"no server has slot {key_slot(key)}")
        return self.node_at(address)

    @property
    def is_cluster(self) -> bool:
        """Whether L2 is known to be several servers."""
        return bool(self._slots)

    def node_at(self, address: L2Address) -> Node:
        """The server at an address."""
        with self._lock:
            if address not in self._nodes:
                if self._is_closed:
                    raise TierUnavailableError("L2 is closed")
                self._nodes[address] = Node(address, self._credentials, self._trust)
            return self._nodes[address]

    def follow(self, redirect: Redirect) -> Node:
        """The server that a redirection names; after MOVED the map is renewed before the next key.

        What MOVED tells is kept, for a user may not be allowed to ask for the map.
        """
        if not redirect.asking:
            self._slots = self._slots or [self._seed] * NUM_SLOTS
            self._slots[redirect.slot] = redirect.address
            self.doubt()
        return self.node_at(redirect.address)

    def doubt(self) -> None:
        """Something did not answer as expected: have the map renewed, if there is one."""
        self._is_stale = bool(self._slots)

    def primaries(self, timeout_seconds: float) -> list[Node]:
        """Ask who holds keys: every primary of a cluster, or the one server that there is."""
        seed = self.node_at(self._seed)
        reply = seed.call(ask_for_slots, timeout_seconds)
        if isinstance(reply, ErrorReply) and any(words in reply.message for words in NO_CLUSTER):
            return [seed]
        if isinstance(reply, ErrorReply):
            raise refusal(reply)
        self._adopt(parse_slots(reply, self._seed))
        return [self.node_at(address) for address in dict.fromkeys(self._slots) if address]

    def close(self) -> None:
        """Break off all connections."""
        with self._lock:
            self._is_closed = True
            nodes = list(self._nodes.values())
        for node in nodes:
            node.close()

    def _refresh(self, timeout_seconds: float) -> None:
        if self._clock() - self._refreshed_at < REFRESH_SECONDS or not self._refreshing.acquire(
            blocking=False
        ):
            return  # another thread is at it, or was just now: the redirections lead on
        try:
            self._refreshed_at = self._clock()
            self._is_stale = False
            deadline = self._clock() + timeout_seconds
            for node in self._witnesses():
                left = deadline - self._clock()
                if left <= 0:
                    break
                try:
                    reply = node.call(ask_for_slots, left / 2)
                    self._adopt(parse_slots(reply, node.address))
                except TierError:
                    continue  # another server may know
                return
            self._is_stale = True
        finally:
            self._refreshing.release()

    def _witnesses(self) -> list[Node]:
        addresses = dict.fromkeys([self._seed, *(address for address in self._slots if address)])
        return [self.node_at(address) for address in addresses]

    def _adopt(self, slots: list[L2Address | None]) -> None:
        keep = {self._seed, *slots}
        with self._lock:
            self._slots = slots
            gone = [self._nodes.pop(address) for address in list(self._nodes) if address not in keep]
        for node in gone:
            node.retire()


def ask_for_slots(connection: Connection) -> Reply:
    """Ask a server of a cluster who serves what."""
    connection.send([command(b"CLUSTER", b"SLOTS")])
    return connection.read()


def refusal(reply: ErrorReply) -> TierUnavailableError:
    """The error for a command that the server refuses to carry out."""
    hint = f" Its password is read from {PASSWORD_VARIABLE} or {SECRET_VARIABLE}."
    return TierUnavailableError(f"L2 answered: {reply.message[:200]}{hint if reply.code == NO_AUTH else ''}")
