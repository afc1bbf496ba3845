"""Where L2 is: its URL, read and checked."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from hypertier.errors import ConfigError

URL_VARIABLE = "HYPERTIER_L2_URL"
EXPECTED = "redis://HOST:PORT or rediss://HOST:PORT"
DAEMON_SCHEME = "sagemaker-hyperpod"
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_VARIABLE = re.compile(r"\$\([a-z0-9_]+\)")  # with the underscore that Kubernetes' and Docker's names have


@dataclass(frozen=True)
class L2Address:
    """Host and port of Valkey or Redis, or, with `is_daemon`, of HyperPod's daemon on the node.

    `tls` asks for an encrypted, verified connection.
    """

    host: str
    port: int
    tls: bool = False
    database: int = 0
    is_daemon: bool = False


def parse_l2_url(url: str, setting: str = URL_VARIABLE) -> L2Address:
    """Read `redis://HOST:PORT[/DATABASE]`, or `rediss://` for TLS, or `sagemaker-hyperpod://HOST:PORT`.

    Raises:
        ConfigError: another scheme, no host, no valid port, or credentials in the URL, which are never
        repeated in
            the message.
    """
    shown = without_credentials(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(setting, shown, f"{EXPECTED}, with a port from 1 to 65535") from error
    if parts.scheme not in ("redis", "rediss", DAEMON_SCHEME):
        raise ConfigError(
            setting,
            shown,
            f"{EXPECTED}: L2 speaks the protocol of Redis; or {DAEMON_SCHEME}://HOST:PORT for HyperPod's",
        )
    if "@" in parts.netloc:
        raise ConfigError(
            setting,
            shown,
            f"{EXPECTED}, without credentials, which would show up in manifests and logs: set "
            "HYPERTIER_L2_USERNAME and HYPERTIER_L2_PASSWORD, or HYPERTIER_L2_SECRET_ARN",
        )
    if not parts.hostname:
        raise ConfigError(setting, shown, f"{EXPECTED}: the host is missing")
    if not is_host(parts.hostname):
        raise ConfigError(setting, shown, f"{EXPECTED}: the host is no name, and no address")
    if port is None or port == 0:
        raise ConfigError(setting, shown, f"{EXPECTED}: the port is missing; Valkey's usual one is 6379")
    if parts.query or parts.fragment:
        raise ConfigError(setting, shown, f"{EXPECTED}, without ? and #: options are settings of the tier")
    database = parts.path.strip("/")
    if parts.scheme == DAEMON_SCHEME:
        if database:
            raise ConfigError(setting, shown, f"{DAEMON_SCHEME}://HOST:PORT and nothing behind it")
        return L2Address(parts.hostname, port, is_daemon=True)
    if database and not (database.isascii() and database.isdecimal()):
        raise ConfigError(setting, shown, f"{EXPECTED}, or with /DATABASE, a number")
    return L2Address(parts.hostname, port, parts.scheme == "rediss", int(database or 0))


def is_host(name: str) -> bool:
    """Whether this can be the name of a host, or its number; or a variable of a pod, as `$(NODE_IP)`."""
    if is_ip(name) or _VARIABLE.fullmatch(name):
        return True
    labels = name.removesuffix(".").split(".")
    return not labels[-1].isdecimal() and all(_LABEL.fullmatch(label) for label in labels)


def is_ip(name: str) -> bool:
    """Whether a host is given by its number."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def without_credentials(url: str) -> str:
    """Return the URL with everything between scheme and `@` blotted out."""
    head, at, tail = url.rpartition("@")
    if not at:
        return url
    scheme = head.partition("://")[0] if "://" in head else ""
    return f"{scheme}://***@{tail}" if scheme else f"***@{tail}"
