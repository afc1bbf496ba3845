"""The sockets of a router with several workers: opened once, by the supervisor, and kept for its whole life.

Each worker has one of a group of sockets that share the clients' port (SO_REUSEPORT,
https://man7.org/linux/man-pages/man7/socket.7.html, read 2026-12-01), and the kernel spreads connections over
the group. The supervisor keeps every socket open, so what waits in one outlives its worker: whoever serves on
that socket next takes it. Where a worker opened its own, its end would reset handshakes on their way.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack

from hypertier.errors import ListenError
from hypertier.router.discovery.addresses import Address


def bind_group(setting: str, address: Address, count: int) -> list[list[socket.socket]]:
    """For each of `count` workers its sockets, bound to the address and not yet listening.

    A name of several addresses gives a worker several. Port 0 takes a free one, the same for all. Raises
    ConfigError naming `setting` where the address is not of this machine, or is taken.
    """
    with ExitStack() as opened:
        try:
            found = socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            port = address.port  # once one has it, all others have the same
            groups: list[list[socket.socket]] = [[] for _ in range(count)]
            for family, where in dict.fromkeys((family, sockaddr) for family, *_, sockaddr in found):
                # Sockets of one user may share a port; with another router that listens there, these may not.
                _bound(family, (where[0], port, *where[2:]), shares=False).close()
                for group in groups:
                    one = opened.enter_context(_bound(family, (where[0], port, *where[2:]), shares=True))
                    port = one.getsockname()[1]
                    group.append(one)
        except OSError as error:
            raise ListenError(setting, str(address), error) from error
        opened.pop_all()
    return groups


def bind(setting: str, address: Address) -> socket.socket:
    """One socket, bound and not yet listening. Raises ConfigError naming `setting`."""
    return bind_group(setting, address, 1)[0][0]


def close(sockets: Sequence[socket.socket]) -> None:
    """Close all."""
    for one in sockets:
        one.close()


def _bound(family: int, where: tuple[object, ...], *, shares: bool) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.setblocking(False)
        one.bind(where)
    except OSError:
        one.close()
        raise
    return one
