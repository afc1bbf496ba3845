"""Sizes, rates and durations as people write them in manifests, and back."""

from __future__ import annotations

import re
from decimal import Decimal

from hypertier.errors import ConfigError

BINARY_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
DECIMAL_SUFFIXES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
RATE_UNITS = {"MB/s": 10**6, "GB/s": 10**9, "MiB/s": 2**20, "GiB/s": 2**30}
DURATION_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_QUANTITY = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)(m|Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?")
_RATE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*(MB/s|GB/s|MiB/s|GiB/s)")
_DURATION = re.compile(r"([0-9]{1,9})(s|m|h|d)")


def parse_bytes(setting: str, value: object) -> int:
    """A Kubernetes memory quantity in bytes: `800Gi`, `1500M`, `1073741824`.

    Raises:
        ConfigError: for anything that Kubernetes would not read as an amount of memory.
    """
    match = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is None or match[2] == "m":
        raise ConfigError(
            setting, value, "an amount of memory as Kubernetes writes it, such as 800Gi or 500Mi"
        )
    factor = (BINARY_SUFFIXES | DECIMAL_SUFFIXES).get(match[2] or "", 1)
    return int(Decimal(match[1]) * factor)


def parse_count(setting: str, value: object) -> float:
    """A Kubernetes CPU or device quantity: `8`, `"8"`, `1500m` (1.5)."""
    match = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is None or match[2] in BINARY_SUFFIXES:
        raise ConfigError(setting, value, "a number as Kubernetes writes it, such as 8 or 1500m")
    factor = Decimal("0.001") if match[2] == "m" else Decimal(DECIMAL_SUFFIXES.get(match[2] or "", 1))
    return float(Decimal(match[1]) * factor)


def parse_bytes_per_second(setting: str, value: object) -> int:
    """A bandwidth in bytes per second: `8GB/s`, `500MiB/s`."""
    match = _RATE.fullmatch(str(value).strip())
    if match is None:
        raise ConfigError(setting, value, "a bandwidth with its unit, such as 8GB/s or 500MB/s")
    return int(Decimal(match[1]) * RATE_UNITS[match[2]])


def parse_seconds(setting: str, value: object) -> int:
    """A duration in seconds: `30s`, `15m`, `24h`, `7d`."""
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ConfigError(setting, value, "a duration with its unit, such as 30s, 15m, 24h or 7d")
    return int(match[1]) * DURATION_UNITS[match[2]]


def format_bytes(num_bytes: int) -> str:
    """The shortest exact Kubernetes quantity: 858993459200 is `800Gi`."""
    for suffix, factor in sorted(BINARY_SUFFIXES.items(), key=lambda item: -item[1]):
        if num_bytes >= factor and num_bytes % factor == 0:
            return f"{num_bytes // factor}{suffix}"
    return str(num_bytes)
