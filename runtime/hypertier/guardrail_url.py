"""The address of a guardrail, as a deployment file and a router's flag have it. Values alone."""

from __future__ import annotations

import re

from hypertier.errors import ConfigError

_URL = re.compile(
    r"http://(?:\[(?P<address>[0-9a-fA-F:.]+)\]|(?P<name>[^/?#\s@:\[\]]+)):(?P<port>[0-9]{1,5})(?P<path>/[!-~]*)?"
)


def read_guardrail_url(setting: str, text: str) -> tuple[str, int, str]:
    """Host (an IPv6 address without its brackets), port and path. Raises ConfigError that names `setting`."""
    match = _URL.fullmatch(text)
    if match is None or not text.isascii() or not 1 <= int(match["port"]) <= 65535:
        raise ConfigError(setting, text, "http://HOST:PORT/PATH of the service")
    return match["address"] or match["name"], int(match["port"]), match["path"] or "/"
