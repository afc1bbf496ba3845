"""The engines: vLLM with our tier inside, one pod per replica; with `pdSpec` of two kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hypertier.planning.engine import EnginePlan, plan_engine
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import GPU_RESOURCE, InferenceEndpointConfig
from hypertier.spec.endpoint.pods import PdSpec
from hypertier.spec.quantities import format_bytes, parse_bytes, parse_count
from hypertier.spec.roles import EngineRole, pd_spec_of, roles_of
from hypertier.spec.routing import EngineTls
from hypertier_cdk.charts.autoscaling import engine_scaling
from hypertier_cdk.charts.disaggregation import (
    EFA_RESOURCE,
    check_disaggregation,
    efa_interfaces,
    moves_kv,
    same_zone,
    side_channel_ports,
    zone_selector,
)
from hypertier_cdk.charts.engine_arguments import (
    ENGINE_COMMAND,
    check_command,
    drain_seconds,
    engine_arguments,
    engine_environment,
)
from hypertier_cdk.charts.engine_tls import (
    certificates,
    check_arguments,
    engine_mounts,
    engine_probe,
    engine_volumes,
    written_probe,
)
from hypertier_cdk.charts.inputs import ChartInputs, engine_image, l2_url, placeholder_annotations, refuse
from hypertier_cdk.charts.names import ENGINES_LABEL, Names
from hypertier_cdk.charts.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    Object,
    disruption_budget,
    gpu_tolerations,
    group_selector,
    metadata,
    service_account,
    spread,
    tolerations,
)
from hypertier_cdk.charts.refusals import WITHOUT_EFFECT_ANNOTATION, without_effect
from hypertier_cdk.charts.shapes import check_quantities
from hypertier_cdk.charts.tiered_storage import (
    node_memory_mount,
    node_memory_objects,
    node_memory_volume,
    uses_tiered_storage,
)
from hypertier_cdk.charts.weights import Weights, weights_of

HEALTH_PATH = "/health"
LIMITS = "spec.worker.resources.limits"
DISK = "ephemeral-storage"
PROBE_SECONDS = 10
LAMEDUCK_SECONDS = 10  # until every router's watch has told it that the engine leaves
EXIT_SECONDS = 25  # from the last answer to the end of the process, L1 unmapped
TMP_SIZE = "32Gi"  # compiled graphs and kernels


def engine_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> list[Object]:
    """Service account, volumes, and for each kind of engine its service, disruption budget and Deployment."""
    check_command(endpoint)
    check_arguments(endpoint)
    check_disaggregation(deployment, endpoint)
    made = [] if names.engine_account else [service_account(names, "engine", inputs.engine_role_arn)]
    made += certificates(deployment, names)
    objects: list[Object] = [*made, *(node_memory_objects(names) if uses_tiered_storage(endpoint) else ())]
    for role in roles_of(deployment, endpoint):
        with role.named():
            check_quantities(role.endpoint)
            plan = plan_engine(deployment, role.endpoint)
            weights = weights_of(endpoint, names, engine_image(deployment, inputs).value, plan.model)
            objects += [
                _service(role, names),
                disruption_budget(names, role.component),
                _deployment(deployment, role, names, plan, weights, inputs, pd_spec_of(endpoint)),
                *engine_scaling(deployment, role.endpoint, names, role.component),
            ]
    return [*objects, *weights.objects]


def _service(role: EngineRole, names: Names) -> Object:
    """A headless service: router and exporter find every ready engine of the kind by its name."""
    port = role.endpoint.spec.worker.model_invocation_port.container_port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(names, role.component),
        "spec": {
            "clusterIP": "None",
            "selector": names.selector(role.component),
            "ports": [{"name": "http", "port": port, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _annotations(
    deployment: Deployment, endpoint: InferenceEndpointConfig, inputs: ChartInputs
) -> dict[str, str]:
    """What of the manifest stands for nothing yet, or without effect."""
    l2 = [l2_url(endpoint, inputs)] if endpoint.kv_cache.l2_enabled else []
    annotations = placeholder_annotations(engine_image(deployment, inputs), *l2)
    if ineffective := without_effect(endpoint):
        annotations[WITHOUT_EFFECT_ANNOTATION] = "; ".join(ineffective)
    return annotations


def _deployment(
    deployment: Deployment,
    role: EngineRole,
    names: Names,
    plan: EnginePlan,
    weights: Weights,
    inputs: ChartInputs,
    pd_spec: PdSpec | None,
) -> Object:
    endpoint, component = role.endpoint, role.component
    wishes = endpoint.spec.kubernetes or {}
    arguments = engine_arguments(deployment, role, plan, weights.mount_path)
    selector = group_selector(role.group) | dict(role.node_selector) | zone_selector(pd_spec)
    pod_labels = {ENGINES_LABEL: names.endpoint} if moves_kv(role) else {}
    template: Object = {
        "metadata": {"labels": names.labels(component) | pod_labels},
        "spec": {
            "serviceAccountName": names.role("engine"),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": POD_SECURITY,
            "terminationGracePeriodSeconds": LAMEDUCK_SECONDS + drain_seconds(arguments) + EXIT_SECONDS,
            "nodeSelector": selector,
            **same_zone(pd_spec, names),
            "tolerations": [
                *gpu_tolerations(),
                *tolerations(role.group),
                *(wishes.get("tolerations") or ()),
            ],
            "topologySpreadConstraints": spread(names, component),
            "initContainers": [*weights.init_containers, *_own_init_containers(wishes)],
            "containers": [_container(deployment, role, names, plan, weights, inputs, arguments)],
            "volumes": [
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": format_bytes(plan.shm_bytes)}},
                {"name": "tmp", "emptyDir": {"sizeLimit": TMP_SIZE}},
                *engine_volumes(deployment.routing.engine_tls, names),
                *weights.volumes,
                *([node_memory_volume(names)] if uses_tiered_storage(endpoint) else ()),
                *(wishes.get("volumes") or ()),
            ],
        },
    }
    if wishes.get("schedulerName"):
        template["spec"]["schedulerName"] = wishes["schedulerName"]
    if wishes.get("podTemplateAnnotations"):
        template["metadata"]["annotations"] = dict(wishes["podTemplateAnnotations"])
    if not template["spec"]["initContainers"]:
        del template["spec"]["initContainers"]
    scaled = endpoint.spec.auto_scaling_spec is not None
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(names, component, _annotations(deployment, endpoint, inputs)),
        "spec": {
            **({} if scaled else {"replicas": plan.replicas}),
            "selector": {"matchLabels": names.selector(component)},
            # all GPUs are usually taken: a new pod fits when an old one has gone
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "progressDeadlineSeconds": _deploy_seconds(endpoint, plan) + 600,
            "revisionHistoryLimit": 3,
            "template": template,
        },
    }


def _own_init_containers(wishes: Mapping[str, Any]) -> list[Object]:
    """The user's init containers; where they say nothing of security they get what the namespace asks for."""
    return [
        {"securityContext": CONTAINER_SECURITY, **container}
        for container in wishes.get("initContainers") or ()
    ]


def _container(
    deployment: Deployment,
    role: EngineRole,
    names: Names,
    plan: EnginePlan,
    weights: Weights,
    inputs: ChartInputs,
    arguments: list[str],
) -> Object:
    endpoint, worker = role.endpoint, role.endpoint.spec.worker
    nixl = side_channel_ports(role) if moves_kv(role) else ()
    container: Object = {
        "name": "engine",
        "image": engine_image(deployment, inputs).value,
        "imagePullPolicy": "IfNotPresent",
        "command": list(ENGINE_COMMAND),
        "args": arguments,
        "env": engine_environment(deployment, role, inputs),
        "ports": [
            {"name": "http", "containerPort": worker.model_invocation_port.container_port, "protocol": "TCP"},
            *({"name": f"nixl-{port}", "containerPort": port, "protocol": "TCP"} for port in nixl),
        ],
        "resources": _resources(role, plan, weights),
        "securityContext": CONTAINER_SECURITY,
        "lifecycle": {"preStop": {"sleep": {"seconds": LAMEDUCK_SECONDS}}},
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "tmp", "mountPath": "/tmp"},
            *engine_mounts(deployment.routing.engine_tls),
            weights.mount,
            *([node_memory_mount()] if uses_tiered_storage(endpoint) else ()),
        ],
        **_probes(endpoint, plan, deployment.routing.engine_tls, names),
    }
    if worker.working_dir:
        container["workingDir"] = worker.working_dir
    return container


def _resources(role: EngineRole, plan: EnginePlan, weights: Weights) -> Object:
    """What the manifest asks for; memory, GPUs and EFA as planned, requests and limits alike."""
    endpoint = role.endpoint
    written = endpoint.spec.worker.resources
    requests, limits = dict(written.requests or {}), dict(written.limits or {})
    planned: dict[str, Any] = {"memory": format_bytes(plan.memory_bytes)}
    if plan.gpus:
        planned[GPU_RESOURCE] = plan.gpus
    if moves_kv(role):
        planned[EFA_RESOURCE] = efa_interfaces(role, plan)
    for name in sorted({*requests, *limits} - {GPU_RESOURCE}):
        if "/" in name or name.startswith("hugepages-"):
            planned[name] = _same(endpoint, name, requests.get(name), limits.get(name))
    if weights.disk_bytes is not None:
        requests.setdefault(DISK, format_bytes(weights.disk_bytes))
    if DISK in requests and DISK in limits:
        most_bytes = parse_bytes(f"{endpoint.name}: {LIMITS}.{DISK}", limits[DISK])
        if parse_bytes(f"{endpoint.name}: {DISK}", requests[DISK]) > most_bytes:
            raise refuse(
                endpoint, f"{LIMITS}.{DISK}", limits[DISK], f"{requests[DISK]} or more, which is requested"
            )
    cpus = plan.cpus
    if "cpu" in limits:
        most = parse_count(f"{endpoint.name}: {LIMITS}.cpu", limits["cpu"])
        if "cpu" in requests and cpus > most:
            raise refuse(
                endpoint,
                f"{LIMITS}.cpu",
                limits["cpu"],
                f"{requests['cpu']} or more, which is requested",
            )
        cpus = min(cpus, most)
    resources: Object = {
        "requests": {**requests, "cpu": f"{round(cpus * 1000)}m", **planned},
        "limits": {**limits, **planned},
    }
    if cpus == int(cpus):
        resources["requests"]["cpu"] = str(int(cpus))
    return resources


def _same(endpoint: InferenceEndpointConfig, name: str, request: Any, limit: Any) -> Any:
    """The amount of a device, which Kubernetes wants requested and limited alike."""
    if request is not None and limit is not None and str(request) != str(limit):
        raise refuse(
            endpoint,
            f"{LIMITS}.{name}",
            limit,
            f"{request}, as is requested: Kubernetes gives devices whole or not at all",
        )
    return limit if request is None else request


def _probes(
    endpoint: InferenceEndpointConfig, plan: EnginePlan, tls: EngineTls | None, names: Names
) -> Object:
    """The manifest's probes; where it has none, ours, which wait for as long as the model takes to load."""
    written = endpoint.spec.worker.probes
    port = endpoint.spec.worker.model_invocation_port.container_port

    def probe(timeout_seconds: int, failure_threshold: int) -> Object:
        timing = {"periodSeconds": PROBE_SECONDS, "timeoutSeconds": timeout_seconds}
        return engine_probe(tls, names, port, HEALTH_PATH, **timing, failureThreshold=failure_threshold)

    ours = {
        "startupProbe": probe(5, math.ceil(_deploy_seconds(endpoint, plan) / PROBE_SECONDS)),
        "readinessProbe": probe(5, 3),
        "livenessProbe": probe(10, 6),
    }
    if written is None:
        return ours
    theirs = {
        "startupProbe": written.startup_probe,
        "readinessProbe": written.readiness_probe,
        "livenessProbe": written.liveness_probe,
    }
    return {
        name: written_probe(tls, names, port, wanted) if (wanted := theirs[name]) else own
        for name, own in ours.items()
    }


def _deploy_seconds(endpoint: InferenceEndpointConfig, plan: EnginePlan) -> int:
    """How long an engine may take to answer: the manifest's word, or the plan's if that is longer."""
    return max(plan.startup_seconds, endpoint.spec.max_deploy_time_in_seconds or 0)
