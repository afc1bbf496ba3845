"""Everything that can be computed of a deployment before it runs: fit, capacity, break-even, start,
addresses, bill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypertier.catalog.instance_types import find_instance_type
from hypertier.catalog.models import ModelShape
from hypertier.catalog.prices import PRICES, PriceTable
from hypertier.errors import ConfigError
from hypertier.planning.bill import Bill, plan_bill, plan_store_of, usd_per_million_tokens
from hypertier.planning.break_even import (
    CONTEXTS,
    FLOW_BYTES_PER_SECOND,
    PREFILL_EFFICIENCY_RATIO,
    BreakEven,
    break_even,
    efficiency_of,
    prefill_tokens_per_second,
)
from hypertier.planning.capacity import Capacity, plan_capacity
from hypertier.planning.disaggregation import (
    DisaggregationPlan,
    least_token_seconds,
    plan_splits,
    transfer_bytes_per_second,
)
from hypertier.planning.engine import (
    DAEMONS_PER_NODE,
    IMAGE_PULL_SECONDS,
    PREFAULT_BYTES_PER_SECOND,
    WARM_UP_SECONDS,
    WEIGHTS_BYTES_PER_SECOND,
    EnginePlan,
    kv_bytes_per_element,
    plan_engine,
)
from hypertier.planning.store import StorePlan
from hypertier.spec.arguments import option_value
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.endpoint.pods import PdSpec
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.pre_pull import pulls_ahead
from hypertier.spec.roles import DECODE, PREFILL, EngineRole, pd_spec_of, roles_of, threshold_of


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds from an empty node to an engine that answers, by cause; the node itself is not in it.

    `image_seconds` is 0 where nodes get the image ahead (`images.prePull`).
    """

    image_seconds: float
    weights_seconds: float
    prefault_seconds: float
    warm_up_seconds: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.image_seconds + self.weights_seconds + self.prefault_seconds + self.warm_up_seconds


@dataclass(frozen=True, slots=True)
class EndpointPlan:
    """One endpoint: its replica, what the tiers hold, where L2 wins, how long a start takes, what a token
    costs. With `pdSpec` there are two of them, by `role`: `prefill` and `decode`; otherwise it is `engine`.

    `break_even`, `prefill_tokens_per_second` and `usd_per_million_prompt_tokens` are empty or None where
    the model's shape, the GPU's rate or the price is not known.
    """

    name: str
    role: str
    group: str
    engine: EnginePlan
    capacity: Capacity
    cold_start: ColdStart
    break_even: tuple[BreakEven, ...]
    prefill_tokens_per_second: float | None
    usd_per_million_prompt_tokens: float | None


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One instance group: pods on a node against the addresses of its one network interface."""

    name: str
    instance_type: str
    count: int
    engines_per_node: int
    pods_per_node: int
    max_pods: int | None
    ip_addresses: int | None

    @property
    def fits(self) -> bool:
        """Whether every pod of a node gets an address."""
        return self.max_pods is None or self.pods_per_node <= self.max_pods


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """The whole deployment. `ip_addresses` is what the nodes' subnets must have free.

    `disaggregations` are of the endpoints with `pdSpec`.
    """

    name: str
    endpoints: tuple[EndpointPlan, ...]
    disaggregations: tuple[DisaggregationPlan, ...]
    groups: tuple[GroupPlan, ...]
    store: StorePlan | None
    bill: Bill

    @property
    def ip_addresses(self) -> int:
        """Addresses that all nodes together take from their subnets."""
        return sum(group.ip_addresses or 0 for group in self.groups)


def plan_deployment(
    deployment: Deployment,
    *,
    model: ModelShape | None = None,
    prefill_tokens_per_second: float | None = None,
    kv_transfer_bytes_per_second: float | None = None,
    prices: PriceTable = PRICES,
) -> DeploymentPlan:
    """Compute everything.

    Args:
        model: the shape of a model that the catalog does not have; it stands for every endpoint.
        prefill_tokens_per_second: of one replica, measured on prompts of a few thousand tokens; without it
            the GPUs' peak times 0.4 is taken.
        kv_transfer_bytes_per_second: between two engines of an endpoint with `pdSpec`, measured; without it a
            half of EFA's line rate is taken.
        prices: of nodes by the hour.

    Raises:
        ConfigError: something does not fit, or a setting cannot work; names it.
    """
    if prefill_tokens_per_second is not None and prefill_tokens_per_second <= 0:
        raise ConfigError("prefill_tokens_per_second", prefill_tokens_per_second, "more than 0")
    endpoints = tuple(
        _plan_role(deployment, role, roles, model, prefill_tokens_per_second, prices)
        for endpoint in deployment.endpoints
        for roles in (roles_of(deployment, endpoint),)
        for role in roles
    )
    return DeploymentPlan(
        name=deployment.name,
        endpoints=endpoints,
        disaggregations=tuple(
            _plan_disaggregation(
                deployment,
                endpoint,
                pd_spec,
                [plan for plan in endpoints if plan.name == endpoint.name],
                prefill_tokens_per_second,
                kv_transfer_bytes_per_second,
            )
            for endpoint in deployment.endpoints
            if (pd_spec := pd_spec_of(endpoint)) is not None
        ),
        groups=tuple(_plan_group(deployment, group, endpoints) for group in deployment.instance_groups),
        store=plan_store_of(deployment),
        bill=plan_bill(deployment, prices),
    )


def _plan_role(
    deployment: Deployment,
    role: EngineRole,
    beside: Sequence[EngineRole],
    model: ModelShape | None,
    measured: float | None,
    prices: PriceTable,
) -> EndpointPlan:
    endpoint = role.endpoint
    with role.named():
        engine = plan_engine(deployment, endpoint, model)
        capacity = plan_capacity(deployment, endpoint, engine)
    shape, flops = engine.model, engine.flops
    args = endpoint.spec.worker.args or ()
    rows: tuple[BreakEven, ...] = ()
    rate = usd = None
    if shape is not None and flops:
        ratio = PREFILL_EFFICIENCY_RATIO if measured is None else efficiency_of(shape, measured, flops)
        rate = prefill_tokens_per_second(shape, flops, ratio)
        price = prices.get((engine.node.name, deployment.region))
        usd = usd_per_million_tokens(price.usd_per_hour if price else None, engine.engines_per_node, rate)
        if endpoint.kv_cache.l2_backend is not None:
            rows = break_even(
                shape,
                flops=flops,
                bytes_per_second=_l2_bytes_per_second(deployment, endpoint),
                replicas=sum(each.endpoint.replicas for each in beside),
                kv_bytes_per_element=kv_bytes_per_element(args),
                efficiency_ratio=ratio,
                contexts=_contexts(option_value(args, "--max-model-len")),
            )
    return EndpointPlan(
        name=endpoint.name,
        role=role.component,
        group=role.group.name,
        engine=engine,
        capacity=capacity,
        cold_start=ColdStart(
            # A node that is added for an engine that waits pulls for it, whatever is told before.
            image_seconds=0
            if role.group.count and pulls_ahead(deployment, role.group)
            else IMAGE_PULL_SECONDS,
            weights_seconds=engine.weights_bytes / WEIGHTS_BYTES_PER_SECOND,
            prefault_seconds=engine.l1_bytes / PREFAULT_BYTES_PER_SECOND,
            warm_up_seconds=WARM_UP_SECONDS,
        ),
        break_even=rows,
        prefill_tokens_per_second=rate,
        usd_per_million_prompt_tokens=usd,
    )


def _plan_disaggregation(
    deployment: Deployment,
    endpoint: InferenceEndpointConfig,
    pd_spec: PdSpec,
    plans: Sequence[EndpointPlan],
    measured: float | None,
    measured_transfer: float | None,
) -> DisaggregationPlan:
    prefill, decode = (next(plan.engine for plan in plans if plan.role == role) for role in (PREFILL, DECODE))
    role = next(role for role in roles_of(deployment, endpoint) if role.component == DECODE)
    args = role.endpoint.spec.worker.args or ()
    threshold = threshold_of(pd_spec)
    rate = measured_transfer
    if rate is None:
        rate = transfer_bytes_per_second(prefill, decode, deployment.disaggregation.backend)
    ratio = PREFILL_EFFICIENCY_RATIO
    if measured is not None and prefill.model is not None and prefill.flops:
        ratio = efficiency_of(prefill.model, measured, prefill.flops)
    lengths = _contexts(option_value(args, "--max-model-len"))
    return DisaggregationPlan(
        name=endpoint.name,
        threshold_tokens=threshold,
        transfer_bytes_per_second=rate,
        is_measured=measured_transfer is not None,
        token_seconds=least_token_seconds(decode),
        prefill_replicas=prefill.replicas,
        splits=plan_splits(
            prefill,
            decode,
            bytes_per_second=rate,
            efficiency_ratio=ratio,
            args=args,
            contexts=[length for length in lengths if length >= threshold] or lengths[-1:],
        ),
    )


def _l2_bytes_per_second(deployment: Deployment, endpoint: InferenceEndpointConfig) -> int:
    """What the planned store sustains; of tiered storage no rate is documented, so what the file asks for."""
    store = plan_store_of(deployment) if endpoint.kv_cache.l2_backend == "redis" else None
    return store.bandwidth_bytes_per_second if store else deployment.cache.l2.bandwidth_bytes_per_second


def l2_bytes_per_second_of_one_engine(deployment: Deployment, endpoint: InferenceEndpointConfig) -> int:
    """What one engine should get of the planned store, over as many connections as load at once; 0 where
    nobody knows: of a store that exists, and of tiered storage.
    """
    store = plan_store_of(deployment) if endpoint.kv_cache.l2_backend == "redis" else None
    if store is None:
        return 0
    return min(store.bandwidth_bytes_per_second, deployment.cache.l2.connections * FLOW_BYTES_PER_SECOND)


def _contexts(max_model_len: str | None) -> tuple[int, ...]:
    """The prompt lengths to look at: up to what the engine takes, the shortest at least."""
    if max_model_len is None or not max_model_len.isdecimal():
        return CONTEXTS
    longest = int(max_model_len[:12])
    return tuple(context for context in CONTEXTS if context <= longest) or CONTEXTS[:1]


def _plan_group(
    deployment: Deployment, group: InstanceGroup, endpoints: tuple[EndpointPlan, ...]
) -> GroupPlan:
    node = find_instance_type(group.instance_type)
    here = [plan.engine.engines_per_node for plan in endpoints if plan.group == group.name]
    engines = max(here, default=0)
    # One that brings the image, for each endpoint.
    pullers = {plan.name for plan in endpoints if plan.group == group.name and pulls_ahead(deployment, group)}
    return GroupPlan(
        name=group.name,
        instance_type=group.instance_type,
        count=group.count,
        engines_per_node=engines,
        pods_per_node=DAEMONS_PER_NODE + engines + len(pullers),
        max_pods=node.max_pods if node else None,
        ip_addresses=node.ips_per_interface * group.count if node else None,
    )
