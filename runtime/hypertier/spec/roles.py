"""The kinds of engine pods of an endpoint: one, or with `pdSpec` those that prefill and those that decode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import AutoScalingSpec, InferenceEndpointConfig
from hypertier.spec.endpoint.pods import PdAutoScaling, PdRole, PdSpec, PdTopology
from hypertier.spec.instance_group import GROUP_LABEL, InstanceGroup
from hypertier.spec.scaling import ToZero

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
ROUTING_THRESHOLD_TOKENS = 4096  # the CRD's default
PREFILL, DECODE, WHOLE = "prefill", "decode", "engine"


@dataclass(frozen=True, slots=True)
class EngineRole:
    """Engine pods of one kind, by the name of their component: `engine`, or `prefill` and `decode`.

    `endpoint` is the endpoint as it would be with these pods alone: their replicas, arguments, resources and
    scaling. `written` says where in the manifest these stand. They run on nodes of `group` with the labels of
    `node_selector`.
    """

    component: str
    endpoint: InferenceEndpointConfig
    group: InstanceGroup
    written: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, Any] = field(default_factory=dict)

    @property
    def decodes(self) -> bool:
        """Clients' requests go to it: all but the engines that prefill for others."""
        return self.component != PREFILL

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name in errors the fields of `pdSpec` that were written."""
        try:
            yield
        except ConfigError as error:
            setting = error.setting
            for field_path, place in self.written.items():
                setting = setting.replace(field_path, place)
            raise ConfigError(setting, error.got, error.expected) from error


def pd_spec_of(endpoint: InferenceEndpointConfig) -> PdSpec | None:
    """The endpoint's `pdSpec`, read.

    Raises:
        ConfigError: a field of it that is missing or of a wrong type.
    """
    written = endpoint.spec.pd_spec
    if written is None:
        return None
    return codec.decode_or_raise(PdSpec, written, f"{endpoint.name}: spec.pdSpec")


def topology_of(pd_spec: PdSpec) -> PdTopology:
    """Where its pods stand."""
    return pd_spec.topology_spec or PdTopology()


def threshold_of(pd_spec: PdSpec) -> int:
    """Prompts of at least as many tokens are prefilled by other engines."""
    threshold = pd_spec.routing_threshold
    return ROUTING_THRESHOLD_TOKENS if threshold is None else threshold


def roles_of(deployment: Deployment, endpoint: InferenceEndpointConfig) -> tuple[EngineRole, ...]:
    """The endpoint's engine pods, those that serve clients last.

    Raises:
        ConfigError: no instance group has nodes for them.
    """
    pd_spec = pd_spec_of(endpoint)
    if pd_spec is None:
        return (EngineRole(WHOLE, endpoint, deployment.group_for(endpoint)),)
    scaling = pd_spec.auto_scaling_spec or PdAutoScaling()
    sides = (
        (PREFILL, pd_spec.prefill_spec, scaling.prefill_auto_scaling),
        (DECODE, pd_spec.decoding_spec, scaling.decoding_auto_scaling),
    )
    return tuple(_role(deployment, endpoint, *side) for side in sides)


def least_replicas(deployment: Deployment, role: EngineRole) -> int:
    """Engine pods of the kind that there are never fewer of; 0 where KEDA may stop them all."""
    if deployment.scaling.is_stepped(role.component):
        # the hook begins with the manifest's, and steps from there
        return deployment.scaling.least(role.component)
    scaling = role.endpoint.spec.auto_scaling_spec
    if scaling is None:
        return role.endpoint.replicas
    return 1 if scaling.min_replica_count is None else scaling.min_replica_count


def sleeps(deployment: Deployment, endpoint: InferenceEndpointConfig) -> ToZero | None:
    """How its engines go to no replica and come back; None where one always stays."""
    return None if endpoint.spec.pd_spec else deployment.scaling.sleeps


def _role(
    deployment: Deployment,
    endpoint: InferenceEndpointConfig,
    component: str,
    side: PdRole,
    scaling: AutoScalingSpec | None,
) -> EngineRole:
    """Arguments go behind the worker's, where the last one wins; resources stand in their place."""
    key = "prefillSpec" if component == PREFILL else "decodingSpec"
    place = f"spec.pdSpec.{key}"
    written = {"spec.autoScalingSpec": f"spec.pdSpec.autoScalingSpec.{key.removesuffix('Spec')}AutoScaling"}
    worker = endpoint.spec.worker
    if side.args:
        worker = replace(worker, args=(*(worker.args or ()), *side.args))
        written["spec.worker.args"] = f"{place}.args"
    if side.resources is not None:
        worker = replace(worker, resources=side.resources)
        written["spec.worker.resources"] = f"{place}.resources"
    selector = side.node_selector or {}
    group = _group(deployment, endpoint, selector, f"{endpoint.name}: {place}.nodeSelector")
    spec = replace(
        endpoint.spec,
        replicas=side.replicas,
        auto_scaling_spec=scaling,
        worker=worker,
        pd_spec=None,
        instance_type=group.instance_type,
        instance_types=None,
    )
    return EngineRole(component, replace(endpoint, spec=spec), group, written, selector)


def _group(
    deployment: Deployment, endpoint: InferenceEndpointConfig, selector: Mapping[str, Any], setting: str
) -> InstanceGroup:
    if not selector:
        return deployment.group_for(endpoint)
    found = group_with(deployment.instance_groups, endpoint.instance_types, selector)
    if found is not None:
        return found
    raise ConfigError(
        setting,
        dict(selector),
        f"labels of an instance group with nodes of {' or '.join(endpoint.instance_types)}; those of the "
        "deployment are "
        + ", ".join(f"{group.name} ({group.instance_type})" for group in deployment.instance_groups),
    )


def group_with(
    groups: Sequence[InstanceGroup], instance_types: Sequence[str], selector: Mapping[str, Any]
) -> InstanceGroup | None:
    """The first group of the first instance type that is there, whose nodes have the labels of `selector`.

    A label that no group has may be another's, such as a zone's: it says nothing of the group.
    """
    known = {key for group in groups for key in _labels_of(group)}
    wanted = {key: value for key, value in selector.items() if key in known}
    for instance_type in instance_types:
        for group in groups:
            if group.instance_type == instance_type and _labels_of(group).items() >= wanted.items():
                return group
    return None


def _labels_of(group: InstanceGroup) -> dict[str, str]:
    """The labels of its nodes, as far as the deployment says."""
    return {**group.labels, GROUP_LABEL: group.name, INSTANCE_TYPE_LABEL: group.instance_type}
