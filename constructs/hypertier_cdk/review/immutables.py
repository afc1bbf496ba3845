"""What can't be changed once it is deployed: a change replaces the thing, or fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypertier_cdk.create_only import CREATE_ONLY
from hypertier_cdk.review.kubernetes import objects_of, of_kind
from hypertier_cdk.review.templates import Assembly


@dataclass(frozen=True, slots=True)
class Immutable:
    """Properties of one resource that were set and can't change in place, and what to know about them."""

    stack: str
    what: str
    properties: tuple[str, ...]
    note: str


def immutables_of(assembly: Assembly) -> tuple[Immutable, ...]:
    """One line a resource that has such properties set; subnets share one line a stack."""
    return tuple(_of_resources(assembly)) + tuple(_of_endpoints(assembly))


def _of_resources(assembly: Assembly) -> Iterator[Immutable]:
    subnets: dict[str, int] = {}
    for resource in assembly.resources:
        known = CREATE_ONLY.get(resource.type, {})
        set_ones = tuple(name for name in known if _is_set(resource.properties, name.split("/")))
        if not set_ones:
            continue
        if resource.type == "AWS::EC2::Subnet":
            subnets[resource.stack] = subnets.get(resource.stack, 0) + 1
            continue
        notes = "; ".join(dict.fromkeys(known[name] for name in set_ones))
        yield Immutable(resource.stack, resource.path, set_ones, notes)
    for stack, count in subnets.items():
        notes = "; ".join(dict.fromkeys(CREATE_ONLY["AWS::EC2::Subnet"].values()))
        yield Immutable(stack, f"{count} subnets", tuple(CREATE_ONLY["AWS::EC2::Subnet"]), notes)


def _is_set(value: Any, keys: list[str]) -> bool:
    """Whether there is something at `keys`; `*` is any entry of a list."""
    if not keys:
        return value is not None
    if keys[0] == "*":
        return isinstance(value, list) and any(_is_set(entry, keys[1:]) for entry in value)
    return isinstance(value, Mapping) and keys[0] in value and _is_set(value[keys[0]], keys[1:])


def _of_endpoints(assembly: Assembly) -> Iterator[Immutable]:
    for endpoint in of_kind(objects_of(assembly), "InferenceEndpointConfig"):
        yield Immutable(
            "Kubernetes",
            f"InferenceEndpointConfig {endpoint['metadata']['name']}",
            ("spec.intelligentRoutingSpec.enabled",),
            "routing can't be added later: delete the endpoint and create it again",
        )
