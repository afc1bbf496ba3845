"""The routers in front of an endpoint's engines."""

from __future__ import annotations

import math

from hypertier.catalog.instance_types import find_instance_type
from hypertier.errors import ConfigError
from hypertier.router.settings import MIGRATION_BYTES
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.quantities import format_bytes
from hypertier.spec.routing import ClientTls
from hypertier.spec.watched import router_series
from hypertier_cdk.charts.access import access_mounts, access_objects, access_volumes
from hypertier_cdk.charts.autoscaling import router_scaling, router_spec
from hypertier_cdk.charts.captures import capture_mounts, capture_volumes, carriers
from hypertier_cdk.charts.engine_tls import client_mounts, client_volumes
from hypertier_cdk.charts.inputs import ChartInputs, placeholder_annotations, router_image
from hypertier_cdk.charts.names import (
    ROUTER_METRICS_PORT,
    ROUTER_PEER_PORT,
    ROUTER_PORT,
    SERVICE_PORT,
    TLS_SERVICE_PORT,
    Names,
)
from hypertier_cdk.charts.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    Object,
    cpu_group,
    disruption_budget,
    http_probe,
    metadata,
    placement,
    service_account,
    spread,
)
from hypertier_cdk.charts.router_settings import (
    ROUTES_FOLDER,
    TLS_FOLDER,
    router_arguments,
    router_settings,
    routers_share,
)

BASE_BYTES = 512 * 2**20  # Python, connections and their buffers, beside index and request bodies
PRE_STOP_SECONDS = 5  # until kube-proxy on every node knows that the pod leaves
EXIT_SECONDS = 10


def router_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> list[Object]:
    """Service account and its role, service, disruption budget and Deployment of the routers."""
    return [
        service_account(names, "router", None),
        *_slices_role(names),
        _service(deployment, names),
        *([_peers_service(names)] if routers_share(deployment, endpoint) else []),
        *([_metrics_service(names)] if router_series(deployment, endpoint) else []),
        *access_objects(deployment, names),
        disruption_budget(names, "router"),
        _deployment(deployment, endpoint, names, inputs),
        *router_scaling(deployment, endpoint, names, deployment.routing.replicas),
    ]


def _slices_role(names: Names) -> list[Object]:
    """What the routers may ask of Kubernetes: where the pods of Services in their own namespace are."""
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": metadata(names, "router"),
            "rules": [
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": ["list", "watch"],
                }
            ],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata(names, "router"),
            "roleRef": {"apiGroup": group, "kind": "Role", "name": names.of("router")},
            "subjects": [
                {"kind": "ServiceAccount", "name": names.role("router"), "namespace": names.namespace}
            ],
        },
    ]


def _service(deployment: Deployment, names: Names) -> Object:
    port = {"name": "http", "port": SERVICE_PORT}
    if deployment.routing.tls is not None:
        port = {"name": "https", "port": TLS_SERVICE_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(names, "router"),
        "spec": {
            "type": "ClusterIP",
            "selector": names.selector("router"),
            "ports": [{**port, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _peers_service(names: Names) -> Object:
    """A name for all routers; also of those that no engine makes ready yet, whose requests count as well."""
    return _headless(names, "peers", {"name": "peers", "port": ROUTER_PEER_PORT, "targetPort": "peers"})


def _metrics_service(names: Names) -> Object:
    """A name under which the exporter finds every router's metrics."""
    port = {"name": "metrics", "port": ROUTER_METRICS_PORT, "targetPort": "metrics"}
    return _headless(names, "routers", port)


def _headless(names: Names, name: str, port: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(names, "router") | {"name": names.of(name)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": names.selector("router"),
            "ports": [{**port, "protocol": "TCP"}],
        },
    }


def _deployment(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> Object:
    image = router_image(deployment, inputs)
    group = cpu_group(deployment)
    _check_cpus(deployment, group)
    settings = router_settings(deployment, endpoint, names)
    processes = settings.workers or 1  # each has an index of its own; they divide what bodies may take
    streams = MIGRATION_BYTES if settings.migration_limit else 0
    own = processes * (settings.index_bytes + BASE_BYTES + streams)
    memory = format_bytes(own + settings.max_buffered_bytes)
    tls = deployment.routing.tls
    beside = carriers(deployment, endpoint, image.value)
    grace = PRE_STOP_SECONDS + math.ceil(settings.lameduck_seconds + settings.drain_seconds) + EXIT_SECONDS
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(names, "router", placeholder_annotations(image)),
        "spec": {
            **({} if router_spec(endpoint) else {"replicas": deployment.routing.replicas}),
            "selector": {"matchLabels": names.selector("router")},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 3,
            "template": {
                "metadata": {"labels": names.labels("router")},
                "spec": {
                    "serviceAccountName": names.role("router"),
                    "automountServiceAccountToken": True,  # the role above is all that it is good for
                    "enableServiceLinks": False,
                    "securityContext": POD_SECURITY,
                    "terminationGracePeriodSeconds": grace,
                    **placement(group),
                    "topologySpreadConstraints": spread(names, "router"),
                    **({"initContainers": beside} if beside else {}),
                    "containers": [
                        {
                            "name": "router",
                            "image": image.value,
                            "imagePullPolicy": "IfNotPresent",
                            "command": ["hypertier", "router"],
                            "args": router_arguments(settings),
                            "ports": [
                                {"name": "http", "containerPort": ROUTER_PORT, "protocol": "TCP"},
                                {"name": "metrics", "containerPort": ROUTER_METRICS_PORT, "protocol": "TCP"},
                                *_peers_port(deployment, endpoint),
                            ],
                            "resources": {
                                "requests": {"cpu": str(deployment.routing.cpus), "memory": memory},
                                "limits": {"memory": memory},
                            },
                            "securityContext": CONTAINER_SECURITY,
                            "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
                            "readinessProbe": http_probe(
                                "/health",
                                "http",
                                tls=tls is not None,
                                periodSeconds=5,
                                timeoutSeconds=3,
                                failureThreshold=2,
                            ),
                            # /health is 503 while no engine is healthy, which a restart would not mend
                            "livenessProbe": http_probe(
                                "/metrics", "metrics", periodSeconds=10, timeoutSeconds=5, failureThreshold=6
                            ),
                            "volumeMounts": [
                                {"name": "tmp", "mountPath": "/tmp"},
                                {"name": "routes", "mountPath": ROUTES_FOLDER, "readOnly": True},
                                *access_mounts(deployment),
                                *capture_mounts(endpoint),
                                *client_mounts(deployment.routing.engine_tls),
                                *([_tls_mount()] if tls else ()),
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
                        # made by who operates the endpoint, at any time; a deployment never resets it
                        {"name": "routes", "configMap": {"name": names.of("routes"), "optional": True}},
                        *access_volumes(deployment, names),
                        *capture_volumes(endpoint),
                        *client_volumes(deployment.routing.engine_tls, names),
                        *([_tls_volume(tls)] if tls else ()),
                    ],
                },
            },
        },
    }


def _tls_mount() -> Object:
    """A folder, since a single file mounted would never change."""
    return {"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True}


def _tls_volume(tls: ClientTls) -> Object:
    """The certificate and its key. Where the Secret is missing, no router starts."""
    return {"name": "tls", "secret": {"secretName": tls.secret_name, "defaultMode": 0o440}}


def _check_cpus(deployment: Deployment, group: InstanceGroup | None) -> None:
    """Refuse more CPUs than a node of the routers' group has; what else runs there takes a tenth."""
    node = find_instance_type(group.instance_type) if group else None
    if group is not None and node is not None and deployment.routing.cpus > node.vcpus * 0.9:
        raise ConfigError(
            "routing.cpus",
            deployment.routing.cpus,
            f"at most {int(node.vcpus * 0.9)}: routers run on instance group {group.name}, {node.name}",
        )


def _peers_port(deployment: Deployment, endpoint: InferenceEndpointConfig) -> list[Object]:
    if not routers_share(deployment, endpoint):
        return []
    return [{"name": "peers", "containerPort": ROUTER_PEER_PORT, "protocol": "TCP"}]
