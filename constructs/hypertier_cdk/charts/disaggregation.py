"""What pods need where some engines prefill and others decode: EFA, NIXL's side channel, one zone."""

from __future__ import annotations

import re
from typing import Any

from hypertier.catalog.zones import ZONE_NAME
from hypertier.planning.engine import EnginePlan
from hypertier.spec.arguments import option_value
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.endpoint.pods import PdSpec
from hypertier.spec.roles import DECODE, PREFILL, WHOLE, EngineRole, pd_spec_of, topology_of
from hypertier.tier.transfer import Transfer
from hypertier_cdk.charts.inputs import refuse
from hypertier_cdk.charts.names import ENGINES_LABEL, NIXL_PORT, Names
from hypertier_cdk.charts.pods import Object

EFA_RESOURCE = "vpc.amazonaws.com/efa"
ZONE_LABEL = "topology.kubernetes.io/zone"
SIDE_CHANNEL_HOST = "VLLM_NIXL_SIDE_CHANNEL_HOST"  # where other engines find this one
SIDE_CHANNEL_PORT = "VLLM_NIXL_SIDE_CHANNEL_PORT"
MAX_DATA_PARALLEL = 64
# libfabric's own: https://ofiwg.github.io/libfabric/main/man/fi_efa.7.html (read 2026-12-01)
LIBFABRIC_ENVIRONMENT = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}


def check_disaggregation(deployment: Deployment, endpoint: InferenceEndpointConfig) -> None:
    """Refuse what has no place beside `pdSpec`, or that its pods could not follow.

    Raises:
        ConfigError: names the field.
    """
    pd_spec = pd_spec_of(endpoint)
    if pd_spec is None:
        return
    if endpoint.spec.auto_scaling_spec is not None:
        raise refuse(
            endpoint,
            "spec.autoScalingSpec",
            "a section",
            "none beside pdSpec: spec.pdSpec.autoScalingSpec scales each kind of engine",
        )
    for component, side, key in (
        (PREFILL, pd_spec.prefill_spec, "prefillSpec"),
        (DECODE, pd_spec.decoding_spec, "decodingSpec"),
    ):
        bounds, replicas = deployment.scaling.bounds(component), side.replicas or 1
        if bounds is not None and not bounds.min <= replicas <= bounds.max:
            named = f"max is {bounds.max}" if replicas > bounds.max else f"min is {bounds.min}"
            why = f"as scaling.{component}.{named}: the hook steps from there"
            field = f"spec.pdSpec.{key}.replicas"
            raise refuse(endpoint, field, replicas, f"{bounds.min} to {bounds.max}, {why}")
    zone = topology_of(pd_spec).availability_zone
    if zone is not None and not ZONE_NAME.fullmatch(zone):
        raise refuse(
            endpoint,
            "spec.pdSpec.topologySpec.availabilityZone",
            zone,
            "a zone's name, such as us-west-2b, which nodes have for a label",
        )


def transfer_of(deployment: Deployment, role: EngineRole) -> Transfer | None:
    """How KV cache moves between engines; None where one engine does both."""
    if not moves_kv(role):
        return None
    return Transfer("kv_consumer" if role.decodes else "kv_producer", deployment.disaggregation.backend)


def moves_kv(role: EngineRole) -> bool:
    """Its engines give KV cache to others, or take it from them."""
    return role.component != WHOLE


def efa_interfaces(role: EngineRole, plan: EnginePlan) -> int:
    """An engine's share of its node's EFA interfaces, by its GPUs.

    Raises:
        ConfigError: a node without EFA, over which KV cache would crawl.
    """
    node = plan.node
    if not node.efa_interfaces or not plan.gpus:
        raise refuse(
            role.endpoint,
            "spec.pdSpec",
            f"{plan.gpus} GPUs of {node.name}",
            "GPUs on nodes with EFA, such as ml.p5.48xlarge: KV cache moves from GPU to GPU by it",
        )
    return max(node.efa_interfaces * plan.gpus // node.gpus, 1)


def side_channel_ports(role: EngineRole) -> range:
    """Where an engine tells others how to read its KV cache: a port for each of its data-parallel ranks.

    Raises:
        ConfigError: the engine's own port is among them, or no number of ranks.
    """
    endpoint = role.endpoint
    written = option_value(endpoint.spec.worker.args or (), "--data-parallel-size", "-dp") or "1"
    if not re.fullmatch(r"[0-9]{1,3}", written) or not 1 <= int(written) <= MAX_DATA_PARALLEL:
        expected = f"1 to {MAX_DATA_PARALLEL} beside pdSpec"
        raise refuse(endpoint, "spec.worker.args --data-parallel-size", written, expected)
    ports = range(NIXL_PORT, NIXL_PORT + int(written))
    port = endpoint.spec.worker.model_invocation_port.container_port
    if port in ports:
        raise refuse(
            endpoint,
            "spec.worker.modelInvocationPort.containerPort",
            port,
            f"another port: with pdSpec engines tell one another of KV cache from {NIXL_PORT} on",
        )
    return ports


def nixl_environment(deployment: Deployment) -> list[Object]:
    """NIXL's side channel listens on the pod's own address; the data goes by EFA."""
    return [
        {"name": SIDE_CHANNEL_HOST, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": SIDE_CHANNEL_PORT, "value": str(NIXL_PORT)},
        *(
            {"name": name, "value": value}
            for name, value in LIBFABRIC_ENVIRONMENT.items()
            if deployment.disaggregation.backend == "LIBFABRIC"
        ),
    ]


def zone_selector(pd_spec: PdSpec | None) -> Object:
    """The label of the zone that the manifest names."""
    zone = topology_of(pd_spec).availability_zone if pd_spec else None
    return {ZONE_LABEL: zone} if zone else {}


def same_zone(pd_spec: PdSpec | None, names: Names) -> dict[str, Any]:
    """Keep the engines in one zone, which the first of them chooses, unless the manifest says otherwise."""
    if pd_spec is None or topology_of(pd_spec).same_az is False:
        return {}
    selector = {"matchLabels": {ENGINES_LABEL: names.endpoint}}
    term = {"topologyKey": ZONE_LABEL, "labelSelector": selector}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
