"""The addresses of a name: pods behind a headless Service.

A pod of a dual-stack Service has an address of each family
(https://kubernetes.io/docs/concepts/services-networking/dual-stack/, read 2026-12-02), and is one pod.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

Found = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str | int, ...] | tuple[int, bytes]]
"""One answer of `getaddrinfo`."""


def hosts_of_one_family(found: Iterable[Found]) -> list[str]:
    """Each address once, sorted: IPv4 where there is any, else IPv6."""
    by_family: dict[int, set[str]] = {socket.AF_INET: set(), socket.AF_INET6: set()}
    for family, *_, sockaddr in found:
        by_family.setdefault(family, set()).add(str(sockaddr[0]))
    return sorted(by_family[socket.AF_INET] or by_family[socket.AF_INET6])
