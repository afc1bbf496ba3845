"""What AWS charges by the hour or the month for the things that a deployment keeps running.

Only prices with a source stand here; what has none is never guessed. None could be read here for the
instances of a HyperPod cluster and for ElastiCache nodes: take yours from AWS's price list files or your
contract, and hand them in as a file (`-c prices=FILE`, see docs/review.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from hypertier.catalog.cache_nodes import CACHE_NODE_TYPES
from hypertier.catalog.instance_types import INSTANCE_TYPES
from hypertier.errors import ConfigError, ManifestError
from hypertier.spec.source import read_documents, read_text
from hypertier.spec.suggest import nearest

HOURS_PER_MONTH = 730

UNVERIFIED = "not AWS's page"
"""Ends the source of a price that a third party tells: AWS's own page writes the number by a script."""

_US = ("us-east-1", "us-east-2", "us-west-2")

# Of US East (Ohio), as of November 2024.
_ALARMS = "https://aws.amazon.com/blogs/compute/faster-scaling-with-amazon-ec2-auto-scaling-target-tracking/"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per unit and hour, where the number comes from, and the date it was read there."""

    usd_per_hour: float
    source: str
    read_on: date


PriceTable = Mapping[tuple[str, str], Price]
"""(item, region) -> price. An item is an instance type, or what the review calls it: `NAT gateway`."""


def _rows(
    item: str, usd_per_hour: float, source: str, read_on: date = date(2026, 12, 1)
) -> dict[tuple[str, str], Price]:
    said = source if source.startswith("https://aws.amazon.com/") else f"{source} ({UNVERIFIED})"
    return {(item, region): Price(usd_per_hour, said, read_on) for region in _US}


PRICES: PriceTable = {
    **_rows(
        "EKS cluster",
        0.10,
        "https://aws.amazon.com/blogs/containers/amazon-eks-extended-support-for-kubernetes-versions-pricing/",
    ),
    **_rows("KMS key", 1 / HOURS_PER_MONTH, "https://aws.amazon.com/kms/pricing/"),
    **_rows(
        "NAT gateway",
        0.045,
        "https://aws.amazon.com/vpc/pricing/",  # its example, of US East (Ohio)
        date(2026, 9, 20),
    ),
    **_rows(
        "VPC interface endpoint",
        0.01,
        "https://abd-ulbasit.github.io/bookstore-kubernetes-guide/14-eks-in-production-a-to-z/08-vpc-endpoints-and-egress/",
    ),
    **_rows(
        "public IPv4 address",
        0.005,
        "https://vishalvyas.com/understand-aws-public-ipv4-address-usage-and-pricing/",
    ),
    **_rows(
        "secret",
        0.40 / HOURS_PER_MONTH,
        "https://aws.amazon.com/secrets-manager/pricing/",  # its examples
        date(2026, 9, 20),
    ),
    **_rows(
        "dashboard",
        3 / HOURS_PER_MONTH,
        "https://www.factualminds.com/blog/amazon-cloudwatch-pricing-metrics-logs-alarms-dashboards.md",
    ),
    **_rows("custom metric", 0.30 / HOURS_PER_MONTH, "https://signoz.io/guides/cloudwatch-pricing"),
    **_rows("alarm", 0.10 / HOURS_PER_MONTH, _ALARMS, date(2026, 12, 3)),
    **_rows("high-resolution alarm", 0.30 / HOURS_PER_MONTH, _ALARMS, date(2026, 12, 3)),
    **_rows(
        "composite alarm",
        0.50 / HOURS_PER_MONTH,
        "https://c3x.dev/resources/aws/aws_cloudwatch_metric_alarm",
        date(2026, 12, 3),
    ),
}
"""Alarms are priced by each metric that they watch; the first ten standard ones of an account are free."""

_NODE = re.compile(r"(?P<family>(ml|cache)\.[a-z0-9-]+)\.(nano|micro|small|medium|metal|\d*x?large)")
_KNOWN_NODES = (*INSTANCE_TYPES, *CACHE_NODE_TYPES)
_KNOWN_FAMILIES = {name.rpartition(".")[0] for name in _KNOWN_NODES}


def load_prices(path: Path | str, region: str) -> PriceTable:
    """Read a team's own prices, for one region: item -> `{usdPerHour, source, date}`, as YAML or JSON.

    Raises:
        ManifestError: the file cannot be read or is no mapping; an entry is no price, or the price of nothing
            that a bill has.
    """
    documents = read_documents(read_text(str(path)), str(path))
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        raise ManifestError(str(path), None, "holds no mapping; expected item: {usdPerHour, source, date}")
    prices = {}
    for item, entry in documents[0].data.items():
        try:
            _check_item(item)
            prices[item, region] = _price(item, entry)
        except ConfigError as error:
            place = documents[0].place((item,))
            raise ManifestError(str(path), place.line, str(error), place.column) from error
    return prices


def _check_item(item: str) -> None:
    """Refuse what no bill would look up; a node of a family that the catalog does not have may be one."""
    others = [*dict.fromkeys(name for name, _ in PRICES)]
    node = _NODE.fullmatch(item)
    if item in (*others, *_KNOWN_NODES) or (node and node["family"] not in _KNOWN_FAMILIES):
        return
    meant = nearest(item, (*others, *_KNOWN_NODES))
    raise ConfigError(
        "prices",
        item,
        f"{meant}?"
        if meant
        else f"an instance or cache node type, such as ml.p5.48xlarge, or {', '.join(others)}",
    )


def _price(item: str, entry: Any) -> Price:
    expected = "{usdPerHour: a number, 0 or more, source: text, date: 2026-12-01}"
    if not isinstance(entry, dict) or set(entry) != {"usdPerHour", "source", "date"}:
        raise ConfigError(f"prices.{item}", entry, expected)
    usd, source, read_on = entry["usdPerHour"], entry["source"], entry["date"]
    if isinstance(read_on, str):
        try:
            read_on = date.fromisoformat(read_on)
        except ValueError:
            raise ConfigError(f"prices.{item}.date", read_on, "a date such as 2026-12-01") from None
    is_number = isinstance(usd, int | float) and not isinstance(usd, bool)
    if not is_number or not 0 <= usd < 1e6 or not isinstance(source, str) or not isinstance(read_on, date):
        raise ConfigError(f"prices.{item}", entry, expected)
    return Price(float(usd), source, read_on)
