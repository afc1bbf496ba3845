"""Which server of a cluster a key belongs to. Pure.

https://valkey.io/topics/cluster-spec/ and https://valkey.io/commands/cluster-slots/ (read 2026-12-01)
"""

from __future__ import annotations

import binascii
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypertier.errors import TierProtocolError
from hypertier.tier.address import L2Address, is_ip
from hypertier.tier.backends.resp_reader import ErrorReply, Reply

NUM_SLOTS = 16_384


@dataclass(frozen=True)
class Redirect:
    """Where a slot is instead: from now on (MOVED), or for this one command, after ASKING (ASK)."""

    address: L2Address
    asking: bool
    slot: int


def key_slot(key: bytes) -> int:
    """The slot of a key: CRC16 of it, or of what stands in its first pair of braces."""
    tag, closed, _ = key.partition(b"{")[2].partition(b"}")
    return binascii.crc_hqx(tag if closed and tag else key, 0) % NUM_SLOTS


def parse_redirect(error: ErrorReply, asked: L2Address) -> Redirect | None:
    """Read `MOVED 3999 10.0.0.1:6379` or `ASK ...`, None for any other error.

    Without a host, the one that was asked is meant.

    Raises:
        TierProtocolError: a redirection to nowhere.
    """
    if error.code not in ("MOVED", "ASK"):
        return None
    match error.message.split(" "):
        case [_, slot, place] if slot.isdecimal() and int(slot) < NUM_SLOTS:
            host, colon, port = place.rpartition(":")
            if colon and port.isdecimal() and 0 < int(port) < 65_536:
                address = replace(asked, host=host or asked.host, port=int(port))
                return Redirect(address, error.code == "ASK", int(slot))
    raise TierProtocolError(f"L2 redirected to nowhere: {error.message[:64]}")


def parse_slots(reply: Reply, asked: L2Address) -> list[L2Address | None]:
    """Read the answer to CLUSTER SLOTS: for each slot the primary that serves it, None where there is none.

    A name is preferred to an address: certificates are made out to names.

    Raises:
        TierProtocolError: the answer is something else.
    """
    primaries: list[L2Address | None] = [None] * NUM_SLOTS
    if not isinstance(reply, list):
        raise TierProtocolError(f"L2 answered {str(reply)[:64]} where its slots were expected")
    for entry in reply:
        match entry:
            case [int(first), int(last), [host, int(port), *details], *_] if (
                0 <= first <= last < NUM_SLOTS and 0 < port < 65_536 and isinstance(host, bytes | None)
            ):
                name = host_name(host, details, asked.host)
                address = replace(asked, host=name, port=port)
                primaries[first : last + 1] = [address] * (last + 1 - first)
            case _:
                raise TierProtocolError(f"L2 answered {str(entry)[:64]} where a range of slots was expected")
    return primaries


def host_name(host: bytes | None, details: Sequence[Reply], asked: str) -> str:
    """The name of a node: its preferred endpoint, the name beside an address, or the one that was asked."""
    name = (host or b"").decode("ascii", "replace")
    if name in ("", "?"):
        return asked
    metadata = details[1] if len(details) > 1 and isinstance(details[1], list) else []
    if is_ip(name):
        for label, value in itertools.pairwise(metadata):
            if label == b"hostname" and isinstance(value, bytes) and value:
                return value.decode("ascii", "replace")
    return name
