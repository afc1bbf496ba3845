"""How a server of L2 is reached: where its name leads, and whom its certificate must come from."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time

from hypertier.errors import ConfigError, TierUnavailableError
from hypertier.tier.address import L2Address, is_ip
from hypertier.tier.asking import Asker

CA_FILE = "secondary_tiers.ca_file"
RESOLVE_SHARE = 0.5  # of the time there is to connect, where an older answer would do


def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Verify the server's certificate and name, by `ca_file` or by the system's authorities.

    TLS 1.2 or newer.

    Raises:
        ConfigError: `ca_file` holds no certificates.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise ConfigError(CA_FILE, ca_file, f"a file of certificates in PEM form ({error})") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Trust:
    """The certificates that servers are verified by: those of `ca_file` as it is now. Used by many threads.

    Raises:
        ConfigError: `ca_file` holds no certificates. One that is broken later leaves those of before.
    """

    def __init__(self, ca_file: str = "") -> None:
        self._ca_file = ca_file
        self._version = self._look()
        self._context = tls_context(ca_file)

    def context(self) -> ssl.SSLContext:
        """What to verify a new connection by."""
        version = self._look()
        if version != self._version:
            with contextlib.suppress(ConfigError):  # it is being written; the next connection looks again
                self._context = tls_context(self._ca_file)
                self._version = version
        return self._context

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._ca_file)
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


class Places:
    """Where a server is: the addresses of its name, asked for at each new connection. Used by many threads.

    A resolver may take many seconds, and keeps no time limit. Where it takes long the addresses are those
    that it told last: a server that is no longer there refuses, or says so.
    """

    def __init__(self, address: L2Address) -> None:
        self._address = address
        self._last: list[str] = [address.host] if is_ip(address.host) else []
        self._asker = Asker(f"the resolver of {address.host}", self._resolve)

    def connect(self, deadline: float) -> socket.socket:
        """Connect to the first address that answers, each being given its share of the time.

        Raises:
            TierUnavailableError: the name leads nowhere.
            OSError: that of the last address.
        """
        hosts = self._hosts(seconds_left(deadline))
        for number, host in enumerate(hosts, start=1):
            share = seconds_left(deadline) / (len(hosts) - number + 1)
            try:
                return socket.create_connection((host, self._address.port), share)
            except OSError:
                if number == len(hosts):
                    raise
        raise TierUnavailableError(f"{self._address.host} has no address")

    def _hosts(self, timeout_seconds: float) -> list[str]:
        if is_ip(self._address.host):
            return self._last
        last = self._last
        try:
            return self._asker.answer(timeout_seconds * (RESOLVE_SHARE if last else 1.0))
        except TierUnavailableError:
            if not last:
                raise
            return last

    def _resolve(self) -> list[str]:
        found = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
        self._last = list(dict.fromkeys(str(address[0]) for *_, address in found))
        return self._last


def seconds_left(deadline: float) -> float:
    """The time until `deadline`, by `time.monotonic`.

    Raises:
        TimeoutError: it has passed.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
