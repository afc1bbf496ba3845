"""The two functions behind the custom resource: `on_event` starts the wait, `is_complete` looks again.

They are called by the CDK's provider framework, which waits between looks, answers CloudFormation, and turns
what is raised here into the resource's failure with the same message.
https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.custom_resources-readme.html
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from .cluster import list_nodes
from .decision import judge, read_node
from .errors import ClusterError, NotReadyError, PropertyError

MARGIN_SECONDS = 18.0  # describing the cluster may take two tries of 3 + 5 seconds
MAX_TIMEOUT_SECONDS = 3600  # CloudFormation's own limit for a custom resource


@dataclass(frozen=True, slots=True)
class Wish:
    """What the resource asks for: ready nodes by instance group, and how long to wait for them."""

    cluster_name: str
    hyperpod_name: str
    groups: Mapping[str, int]
    timeout_seconds: int


class LambdaContext(Protocol):
    """The one thing that the hook asks of Lambda's context object."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the function."""


def on_event(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Start the wait: check the properties and set the deadline. Nothing is made, so nothing is deleted.

    Raises:
        PropertyError: a property that cannot work.
    """
    answer: dict[str, Any] = {}
    if event["RequestType"] == "Delete":
        answer["PhysicalResourceId"] = event["PhysicalResourceId"]
    else:
        wish = read_wish(event.get("ResourceProperties", {}))
        answer["PhysicalResourceId"] = f"ready-nodes-of-{wish.hyperpod_name}"
        answer["Deadline"] = (datetime.now(UTC) + timedelta(seconds=wish.timeout_seconds)).isoformat()
    _write({"hook": "readiness", "request": event["RequestType"]} | answer)
    return answer


def is_complete(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Look at the nodes once.

    Raises:
        NotReadyError: the deadline has passed; says what is missing.
    """

    # Less a margin for the answer: Lambda ends the function without one.
    def remaining() -> float:
        return context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS

    return look(event, lambda name: list_nodes(name, remaining), datetime.now(UTC))


def look(
    event: Mapping[str, Any], list_nodes: Callable[[str], list[dict[str, Any]]], now: datetime
) -> dict[str, Any]:
    """Say whether the nodes are there; a cluster that cannot be asked may answer next time.

    Raises:
        NotReadyError: `now` is at the event's deadline or past it; says what is missing.
    """
    if event["RequestType"] == "Delete":
        return {"IsComplete": True}
    wish = read_wish(event.get("ResourceProperties", {}))
    try:
        verdict = judge(wish.groups, [read_node(node) for node in list_nodes(wish.cluster_name)])
    except ClusterError as error:
        is_ready, missing = False, str(error)
    else:
        is_ready, missing = verdict.is_ready, verdict.missing
    _write({"hook": "readiness", "is_ready": is_ready, "waiting_for": missing})
    if not is_ready and now >= datetime.fromisoformat(event["Deadline"]):
        raise NotReadyError(
            f"gave up after {wish.timeout_seconds // 60} minutes waiting for nodes: {missing}. See "
            f"`aws sagemaker list-cluster-nodes --cluster-name {wish.hyperpod_name}` and "
            f"`aws sagemaker list-cluster-events --cluster-name {wish.hyperpod_name}`"
        )
    return {"IsComplete": is_ready}


def read_wish(properties: Mapping[str, Any]) -> Wish:
    """Read the resource's properties; CloudFormation hands every number over as text.

    Raises:
        PropertyError: one is missing or cannot work.
    """
    names = {}
    for name in ("ClusterName", "HyperPodName"):
        names[name] = properties.get(name)
        if not isinstance(names[name], str) or not names[name]:
            raise PropertyError(name, names[name], "the name of a cluster")
    groups = properties.get("Groups")
    if not isinstance(groups, Mapping) or not groups:
        raise PropertyError("Groups", groups, "a mapping from instance groups to numbers of nodes")
    seconds = _whole_number("TimeoutSeconds", properties.get("TimeoutSeconds"))
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise PropertyError("TimeoutSeconds", seconds, f"1 to {MAX_TIMEOUT_SECONDS} seconds")
    return Wish(
        cluster_name=str(names["ClusterName"]),
        hyperpod_name=str(names["HyperPodName"]),
        groups={str(group): _whole_number(f"Groups.{group}", count) for group, count in groups.items()},
        timeout_seconds=seconds,
    )


def _whole_number(name: str, value: object) -> int:
    text = str(value)
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise PropertyError(name, value, "a whole number, 0 or more")
    return int(text)


def _write(line: Mapping[str, Any]) -> None:
    print(json.dumps(line), flush=True)
