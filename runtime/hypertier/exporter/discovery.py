"""Where the replicas are: a fixed list, or every address of a headless Service."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from urllib.parse import SplitResult, urlsplit

from hypertier.dns_answers import hosts_of_one_family
from hypertier.errors import ConfigError, ScrapeError

Discover = Callable[[], list[str]]
"""Gives the replicas' URLs; raises ScrapeError where they cannot be known."""


def fixed(urls: Sequence[str], option: str = "--replica") -> Discover:
    """Return a discovery of exactly `urls`, which were given by `option`.

    Raises:
        ConfigError: one is no http or https URL of a host.
    """
    for url in urls:
        parts = _parts(url)
        if parts is None or parts.scheme not in ("http", "https"):
            raise ConfigError(option, url, "http://HOST:PORT of an engine; /metrics is added to it")
    replicas = sorted({url.rstrip("/") for url in urls})
    return lambda: replicas


def by_dns(target: str, scheme: str = "http", option: str = "--discover") -> Discover:
    """Return a discovery of every address that HOST of `dns://HOST:PORT` has at the time of asking.

    `option` is what `target` was given by.

    Raises:
        ConfigError: `target` has another form.
    """
    expected = "dns://HOST:PORT, HOST a headless Service and PORT the engines' port"
    parts = _parts(target)
    if parts is None or parts.scheme != "dns" or parts.port is None or parts.path:
        raise ConfigError(option, target, expected)
    host, port = parts.hostname, parts.port

    def resolve() -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ScrapeError(f"{target} cannot be resolved: {error}") from error
        return sorted(f"{scheme}://{_bracketed(host)}:{port}" for host in hosts_of_one_family(found))

    return resolve


def _parts(url: str) -> SplitResult | None:
    """The parts of `url`, or None where nothing could be reached under it."""
    if any(character.isspace() for character in url):
        return None
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0 and not set("?#@") & set(url)
        (parts.hostname or "").encode("idna")  # as the resolver does
    except ValueError:
        return None
    return parts if is_whole else None


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
