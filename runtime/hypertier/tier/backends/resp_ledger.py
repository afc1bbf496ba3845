"""The ledger of tenants in Valkey: a sorted set for each name, members by when they were last used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypertier.errors import TierProtocolError
from hypertier.tier.backends.resp import RespBackend, number
from hypertier.tier.backends.resp_node import command

BATCH = 512


class RespLedger:
    """Sorted sets beside the values. One set lies on one server, a hundred bytes for each chunk."""

    def __init__(self, backend: RespBackend) -> None:
        self._backend = backend

    def note(
        self,
        name: bytes,
        used_at: Mapping[bytes, float],
        forget_before: float,
        ttl_seconds: int,
        timeout_seconds: float,
    ) -> int:
        """Send ZADD, ZREMRANGEBYSCORE, EXPIRE and ZCARD in one round trip."""
        scored = [part for member, at in used_at.items() for part in (b"%.6f" % at, member)]
        commands = [
            *([command(b"ZADD", name, *scored)] if scored else []),
            command(b"ZREMRANGEBYSCORE", name, b"-inf", b"(%.6f" % forget_before),
            command(b"EXPIRE", name, b"%d" % ttl_seconds),
            command(b"ZCARD", name),
        ]
        return number(self._backend.ask(name, commands, timeout_seconds)[-1])

    def surplus(self, name: bytes, keep: int, count: int, timeout_seconds: float) -> list[bytes]:
        """Send ZRANGE. Up to `BATCH` it ends at a rank from above: two engines at once remove no more."""
        last = -(keep + 1) if count <= BATCH else BATCH - 1
        (reply,) = self._backend.ask(name, [command(b"ZRANGE", name, b"0", b"%d" % last)], timeout_seconds)
        if not isinstance(reply, list):
            raise TierProtocolError("L2 answered ZRANGE with something else than members")
        return [member for member in reply if isinstance(member, bytes)]

    def forget(self, name: bytes, members: Sequence[bytes], timeout_seconds: float) -> None:
        """Send ZREM."""
        self._backend.ask(name, [command(b"ZREM", name, *members)], timeout_seconds)

    def remove_many(self, keys: Sequence[bytes], timeout_seconds: float) -> list[bool]:
        """Send one UNLINK per key."""
        return self._backend.remove_many(keys, timeout_seconds)
