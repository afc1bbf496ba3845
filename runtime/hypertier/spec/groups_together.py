"""Groups of nodes as the whole of one cluster: what they become together, and what they cannot be.

By CloudFormation's schema of `AWS::SageMaker::Cluster`, read 2026-12-01.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hypertier.errors import ConfigError
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.unique import check_unique

MAX_GROUPS = 100

Group = TypeVar("Group", bound=InstanceGroup)


def settled(groups: Sequence[Group], *, tiered_storage: bool) -> tuple[Group, ...]:
    """The groups as a cluster of all of them gets them.

    GPU groups get no default taints where tiered storage runs, since whether its daemon tolerates them is not
    documented, and where all nodes have GPUs, since everything else must run there too.
    """
    somewhere_else = any(group.count and not group.has_gpus for group in groups)
    if not tiered_storage and somewhere_else:
        return tuple(groups)
    return tuple(replace(group, taints=()) if group.taints is None else group for group in groups)


def check_together(groups: Sequence[InstanceGroup], setting: str) -> None:
    """Refuse groups that no cluster can have together.

    Raises:
        ConfigError: no group, too many, or two of the same name; names `setting`.
    """
    if not groups:
        raise ConfigError(setting, [], "at least one group of nodes")
    if len(groups) > MAX_GROUPS:
        raise ConfigError(setting, f"{len(groups)} groups", f"1 to {MAX_GROUPS} groups")
    check_unique(setting, (group.name for group in groups))


def are_closed(groups: Sequence[InstanceGroup], *, autoscaling: bool = False) -> bool:
    """Whether no pod without tolerations could run: a group without nodes is open to none.

    Unless `autoscaling` adds nodes to it, or no group has any.
    """
    filled = [group for group in groups if group.count]
    return all(group.is_closed for group in (groups if autoscaling or not filled else filled))


def check_open(groups: Sequence[InstanceGroup], setting: str, *, autoscaling: bool = False) -> None:
    """Refuse a new cluster whose every node has taints: CoreDNS and other add-ons tolerate none of yours.

    Raises:
        ConfigError: names `setting`.
    """
    if are_closed(groups, autoscaling=autoscaling):
        raise ConfigError(
            setting,
            [f"{group.name}: {taint.key}" for group in groups for taint in group.applied_taints],
            "a group with nodes and without taints of NoSchedule or NoExecute: CoreDNS and the other add-ons "
            "run there, and tolerate none",
        )
