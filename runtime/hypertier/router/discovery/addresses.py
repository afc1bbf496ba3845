"""Where things are that a router talks to, read from the flags that name them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hypertier.errors import ConfigError
from hypertier.guardrail_url import read_guardrail_url

if TYPE_CHECKING:
    from hypertier.router.http.tls import EngineTls

# Names of Kubernetes: a namespace, a Service, and a port by its number or its name (RFC 6335).
_SERVICE = re.compile(
    r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/([a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)"
    r":([0-9]{1,5}|(?=[0-9-]*[a-z])[a-z0-9](?:[a-z0-9-]{0,13}[a-z0-9])?)"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; `host` is a name or an IP address, without brackets.

    `tls` is how TLS is spoken there; None where it is not.
    """

    host: str
    port: int
    tls: EngineTls | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Service:
    """A Kubernetes Service and a port of its pods: a number, or the name that the Service gives it."""

    namespace: str
    name: str
    port: int | str

    def __str__(self) -> str:
        return f"k8s://{self.namespace}/{self.name}:{self.port}"


def parse_listen(setting: str, text: str) -> Address:
    """Read `HOST:PORT`; port 0 lets the system choose. Raises ConfigError naming `setting`."""
    expected = "HOST:PORT, such as 0.0.0.0:8000; port 0 takes a free one"
    address = _split_address(text)
    if address is None:
        raise ConfigError(setting, text, expected)
    return address


def parse_replica(text: str) -> Address:
    """Read a replica's `http://HOST:PORT`. Raises ConfigError naming `--replica`."""
    expected = "http://HOST:PORT of an engine, without a path; with --replica-ca TLS is spoken there"
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ConfigError("--replica", text, expected) from error
    address = _split_address(parts.netloc)
    if parts.scheme != "http" or address is None or address.port == 0:
        raise ConfigError("--replica", text, expected)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError("--replica", text, expected)
    return address


def parse_discover(text: str) -> Address | Service:
    """Read where engines are listed: `k8s://NAMESPACE/SERVICE:PORT` or `dns://HOST:PORT`.

    Raises ConfigError."""
    return _parse_list("--discover", text, "engines'")


def parse_prefill_discover(text: str) -> Address | Service:
    """Read where engines that prefill are listed, in the same two forms. Raises ConfigError."""
    return _parse_list("--prefill-discover", text, "engines'")


def parse_prefill_replica(text: str) -> Address:
    """Read `http://HOST:PORT` of an engine that prefills. Raises ConfigError."""
    try:
        return parse_replica(text)
    except ConfigError as error:
        raise ConfigError("--prefill-replica", text, error.expected) from error


def parse_peers(text: str) -> Address | Service:
    """Read where routers are listed, in the same two forms. Raises ConfigError."""
    return _parse_list("--peers", text, "routers'")


def _parse_list(setting: str, text: str, whose: str) -> Address | Service:
    scheme, separator, rest = text.partition("://")
    if scheme == "k8s" and separator:
        service = _SERVICE.fullmatch(rest)
        if service is None or (service[3].isdigit() and not 1 <= int(service[3]) <= 65535):
            raise ConfigError(
                setting, text, "k8s://NAMESPACE/SERVICE:PORT, PORT being a number or the name of the port"
            )
        port = int(service[3]) if service[3].isdigit() else service[3]
        return Service(service[1], service[2], port)
    address = _split_address(rest)
    if scheme != "dns" or not separator or address is None or address.port == 0:
        raise ConfigError(
            setting,
            text,
            "k8s://NAMESPACE/SERVICE:PORT, or dns://HOST:PORT, HOST being a headless Service whose addresses "
            f"are the {whose}",
        )
    return address


def parse_peer(text: str) -> Address:
    """Read another router's `HOST:PORT`. Raises ConfigError naming `--peer`."""
    address = _split_address(text)
    if address is None or address.port == 0:
        raise ConfigError("--peer", text, "HOST:PORT of another router's --peer-listen")
    return address


def parse_kv_events(text: str) -> Address:
    """Read `HOST:PORT` of an engine's KV events. Raises ConfigError naming `--kv-events`."""
    address = _split_address(text)
    if address is None or not 1 <= address.port <= 65534:
        raise ConfigError(
            "--kv-events", text, "HOST:PORT of an engine's events; the port after sends replays"
        )
    return address


def parse_guardrail(text: str) -> tuple[Address, str]:
    """Read `http://HOST:PORT/PATH` of a guardrail: where it is, and the path. Raises ConfigError."""
    host, port, path = read_guardrail_url("--guardrail-url", text)
    return Address(host, port), path


def _split_address(text: str) -> Address | None:
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not separator or not host or "@" in host or "/" in host or any(c.isspace() for c in host):
        return None
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        return None
    return Address(host, int(port))
