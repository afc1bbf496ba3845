"""The bill of what runs all the time, per hour and month, each price with its source and date.

Usage (requests, bytes, log lines) is no line here: it is named as such, so that nobody takes it for free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hypertier.catalog.prices import HOURS_PER_MONTH, Price, PriceTable
from hypertier.errors import ConfigError
from hypertier_cdk.review.templates import Assembly, Resource

CLUSTER = "AWS::SageMaker::Cluster"
MINUTE_SECONDS = 60
BY_USAGE = {
    "AWS::Lambda::Function": "requests and run time",
    "AWS::Lambda::LayerVersion": "storage",
    "AWS::Logs::LogGroup": "bytes ingested and kept",
    "AWS::S3::Bucket": "bytes and requests",
    "AWS::SNS::Topic": "messages",
    "AWS::SQS::Queue": "requests",
    "AWS::EC2::FlowLog": "bytes logged",
    "AWS::APS::Workspace": "samples and queries",
    "AWS::Events::Rule": "events",
    "AWS::Scheduler::Schedule": "calls",
}
"""Types that cost by usage alone."""


@dataclass(frozen=True, slots=True)
class BillLine:
    """`quantity` units of `item` that run all the time; `price` is None where none is known."""

    item: str
    quantity: int
    unit: str
    price: Price | None
    note: str = ""

    @property
    def usd_per_hour(self) -> float | None:
        """What the line costs an hour, or None where the price is unknown."""
        return None if self.price is None else self.price.usd_per_hour * self.quantity

    @property
    def usd_per_month(self) -> float | None:
        """The same for a month of 730 hours."""
        return None if self.usd_per_hour is None else self.usd_per_hour * HOURS_PER_MONTH


@dataclass(frozen=True, slots=True)
class Bill:
    """The lines, most expensive first and unknown ones on top, and what costs by usage."""

    region: str
    lines: tuple[BillLine, ...]
    by_usage: tuple[tuple[str, str, int], ...]

    @property
    def known_usd_per_hour(self) -> float:
        """The sum of the lines whose price is known; a lower bound where one is not."""
        return sum(line.usd_per_hour or 0.0 for line in self.lines)

    @property
    def known_usd_per_month(self) -> float:
        """The same for a month of 730 hours."""
        return self.known_usd_per_hour * HOURS_PER_MONTH

    @property
    def unknown(self) -> tuple[str, ...]:
        """The items without a price."""
        return tuple(line.item for line in self.lines if line.price is None)


def bill_of(assembly: Assembly, region: str, prices: PriceTable, num_custom_metrics: int = 0) -> Bill:
    """Count what `assembly` keeps running in `region`. Lines of one item are added up."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for resource in assembly.resources:
        for item, quantity, unit, note in _meters(resource):
            counted[item, unit, note] += quantity
    if num_custom_metrics:
        counted["custom metric", "metrics", "written by exporters and verifications"] += num_custom_metrics
    lines = [
        BillLine(item, quantity, unit, prices.get((item, region)), note)
        for (item, unit, note), quantity in counted.items()
        if quantity
    ]
    lines.sort(key=lambda line: (line.price is not None, -(line.usd_per_hour or 0.0), line.item))
    types = Counter(resource.type for resource in assembly.resources)
    usage = [(kind, meaning, types[kind]) for kind, meaning in BY_USAGE.items() if types[kind]]
    usage += [added for cluster in assembly.of_type(CLUSTER) if (added := _added_nodes(cluster))]
    return Bill(region, tuple(lines), tuple(usage))


def within_budget(bill: Bill, monthly_budget_usd: float) -> str:
    """Say that the bill stays within what a month may cost, or what keeps one from knowing.

    Raises:
        ConfigError: what is known alone costs more.
    """
    if bill.known_usd_per_month > monthly_budget_usd:
        raise ConfigError(
            "scaling.monthlyBudgetUsd",
            monthly_budget_usd,
            f"{bill.known_usd_per_month:,.2f} or more, which is what runs all the time costs a month",
        )
    if bill.unknown:
        return f"{monthly_budget_usd:,.2f} USD; cannot be held to it without the prices of what is unknown"
    return f"within {monthly_budget_usd:,.2f} USD per month, before usage"


def _added_nodes(cluster: Resource) -> tuple[str, str, int] | None:
    """The groups without nodes that an autoscaler fills, by pods that wait: nobody knows how many."""
    filled = [
        str(group["InstanceGroupName"])
        for group in cluster.get("InstanceGroups", default=())
        if int(group["InstanceCount"]) == 0
    ]
    if not cluster.get("AutoScaling") or not filled:
        return None
    return CLUSTER, f"nodes that Karpenter adds to {', '.join(filled)}", len(filled)


Meter = tuple[str, int, str, str]


def _meters(resource: Resource) -> Iterator[Meter]:
    read = _READERS.get(resource.type)
    if read is not None:
        yield from read(resource)


def _instance_groups(resource: Resource) -> Iterator[Meter]:
    for group in resource.get("InstanceGroups", default=()):
        types = (group.get("InstanceRequirements") or {}).get("InstanceTypes") or [group.get("InstanceType")]
        spot = "Spot" in (group.get("CapacityRequirements") or {})
        note = ", ".join(
            text
            for text in (
                f"group {group['InstanceGroupName']}",
                "spot: the price moves" if spot else "",
                "paid by its training plan" if group.get("TrainingPlanArn") else "",
                f"or {', '.join(types[1:])}" if len(types) > 1 else "",
            )
            if text
        )
        yield types[0], int(group["InstanceCount"]), "nodes", note


def _cache_nodes(resource: Resource) -> Iterator[Meter]:
    shards = int(resource.get("NumNodeGroups", default=1))
    replicas = int(resource.get("ReplicasPerNodeGroup", default=0))
    note = f"L2, {shards} shards with {replicas} replicas each"
    yield str(resource.get("CacheNodeType")), shards * (1 + replicas), "nodes", note


def _endpoint_zones(resource: Resource) -> Iterator[Meter]:
    if resource.get("VpcEndpointType") == "Interface":
        zones = len(resource.get("SubnetIds", default=()))
        yield "VPC interface endpoint", zones, "in zones", "and by bytes"


def _alarm_metrics(resource: Resource) -> Iterator[Meter]:
    """Each metric that an alarm watches is charged; what computes with them is not.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html: a period below a
    minute makes it a high-resolution one (read 2026-12-03).
    """
    watched = [entry["MetricStat"] for entry in resource.get("Metrics", default=()) if "MetricStat" in entry]
    periods = [stat["Period"] for stat in watched] or [resource.get("Period", default=MINUTE_SECONDS)]
    is_fine = min(map(int, periods)) < MINUTE_SECONDS
    yield "high-resolution alarm" if is_fine else "alarm", len(periods), "metrics", ""


def _one(item: str, note: str = "") -> Callable[[Resource], Iterator[Meter]]:
    def read(_: Resource) -> Iterator[Meter]:
        yield item, 1, "", note

    return read


_READERS: dict[str, Callable[[Resource], Iterator[Meter]]] = {
    CLUSTER: _instance_groups,
    "AWS::ElastiCache::ReplicationGroup": _cache_nodes,
    "AWS::EC2::VPCEndpoint": _endpoint_zones,
    "AWS::EC2::NatGateway": _one("NAT gateway", "and by bytes"),
    "AWS::EC2::EIP": _one("public IPv4 address"),
    "AWS::EKS::Cluster": _one("EKS cluster", "while its version is in standard support"),
    "AWS::KMS::Key": _one("KMS key", "and by requests; each rotation adds one"),
    "AWS::SecretsManager::Secret": _one("secret"),
    "AWS::CloudWatch::Alarm": _alarm_metrics,
    "AWS::CloudWatch::CompositeAlarm": _one("composite alarm"),
    "AWS::CloudWatch::Dashboard": _one("dashboard"),
}
