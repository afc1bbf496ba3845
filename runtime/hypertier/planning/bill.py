"""What a deployment costs by the hour and month, and a million prompt tokens, as far as prices are known."""

from __future__ import annotations

from dataclasses import dataclass

from hypertier.catalog.prices import HOURS_PER_MONTH, PRICES, Price, PriceTable
from hypertier.planning.store import StorePlan, plan_store
from hypertier.spec.deployment import Deployment


@dataclass(frozen=True, slots=True)
class BillRow:
    """`count` of an item that runs all the time; `price` is None where nobody published one."""

    item: str
    count: int
    price: Price | None

    @property
    def usd_per_hour(self) -> float | None:
        """US dollars an hour for all of them."""
        return None if self.price is None else self.count * self.price.usd_per_hour


@dataclass(frozen=True, slots=True)
class Bill:
    """The rows, and what can be said of them all. Nodes of the groups `uncounted` come by pods that wait."""

    rows: tuple[BillRow, ...]
    uncounted: tuple[str, ...] = ()

    @property
    def known_usd_per_hour(self) -> float:
        """The sum of the rows whose price is known."""
        return sum(row.usd_per_hour or 0.0 for row in self.rows)

    @property
    def known_usd_per_month(self) -> float:
        """The same for a month of 730 hours."""
        return self.known_usd_per_hour * HOURS_PER_MONTH

    @property
    def unknown(self) -> tuple[str, ...]:
        """Items without a price, each once."""
        return tuple(dict.fromkeys(row.item for row in self.rows if row.price is None))


def plan_store_of(deployment: Deployment) -> StorePlan | None:
    """The Valkey nodes that the deployment's L2 needs, or None where no endpoint uses one, or it exists."""
    if not any(endpoint.kv_cache.l2_backend == "redis" for endpoint in deployment.endpoints):
        return None
    l2 = deployment.cache.l2
    if l2.existing is not None:
        return None
    return plan_store(l2.bandwidth_bytes_per_second, l2.size_bytes, family=l2.node_family)


def plan_bill(deployment: Deployment, prices: PriceTable = PRICES) -> Bill:
    """Nodes of every instance group and of the store; traffic, storage and logs are not in it."""
    rows = [
        BillRow(group.instance_type, group.count, prices.get((group.instance_type, deployment.region)))
        for group in deployment.instance_groups
    ]
    store = plan_store_of(deployment)
    if store is not None:
        name = store.node_type.name
        rows.append(BillRow(name, store.num_nodes, prices.get((name, deployment.region))))
    return Bill(tuple(rows), uncounted_groups(deployment))


def uncounted_groups(deployment: Deployment) -> tuple[str, ...]:
    """The groups that Karpenter fills, of which nobody knows how many nodes there will be."""
    if not deployment.cluster.autoscaling:
        return ()
    return tuple(group.name for group in deployment.instance_groups if group.count == 0)


def usd_per_million_tokens(
    usd_per_node_hour: float | None, engines_per_node: int, tokens_per_second: float
) -> float | None:
    """US dollars for a million prompt tokens at a replica's prefill rate; None without a price."""
    if usd_per_node_hour is None or tokens_per_second <= 0:
        return None
    return usd_per_node_hour / engines_per_node / (tokens_per_second * 3600) * 1e6
