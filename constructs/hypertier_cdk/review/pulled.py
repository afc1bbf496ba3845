"""Which nodes get an image ahead of the pods that need it."""

from __future__ import annotations

from hypertier.spec.instance_group import GROUP_LABEL
from hypertier_cdk.charts.pre_pull import PRE_PULL
from hypertier_cdk.review.kubernetes import objects_of, of_kind
from hypertier_cdk.review.templates import Assembly

COMPONENT = "app.kubernetes.io/component"


def pulled_in(assembly: Assembly) -> tuple[str, ...]:
    """Names of the instance groups whose nodes get an engine's image ahead, in order."""
    groups: dict[str, None] = {}
    for entry in of_kind(objects_of(assembly), "DaemonSet"):
        if entry["metadata"].get("labels", {}).get(COMPONENT) == PRE_PULL:
            affinity = entry["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
            for term in affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]:
                for expression in term["matchExpressions"]:
                    if expression["key"] == GROUP_LABEL:
                        groups |= dict.fromkeys(expression["values"])
    return tuple(groups)
