"""The exporter: the engines' metrics into CloudWatch, where alarms watch them."""

from __future__ import annotations

from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.roles import roles_of
from hypertier.spec.watched import num_replica_metrics, router_series
from hypertier_cdk.charts.engine_tls import client_files, client_mounts, client_volumes
from hypertier_cdk.charts.inputs import ChartInputs, placeholder_annotations, router_image
from hypertier_cdk.charts.names import EXPORTER_PORT, ROUTER_METRICS_PORT, Names
from hypertier_cdk.charts.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    Object,
    cpu_group,
    http_probe,
    metadata,
    placement,
    service_account,
)

MEMORY = "256Mi"


def is_exported(endpoint: InferenceEndpointConfig) -> bool:
    """Whether the endpoint's metrics go to CloudWatch: yes, unless `spec.metrics.enabled` is false."""
    metrics = endpoint.spec.metrics
    return metrics is None or metrics.enabled is not False


def exporter_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> list[Object]:
    """Service account and Deployment of the exporter; nothing where metrics are off."""
    if not is_exported(endpoint):
        return []
    return [
        service_account(names, "exporter", inputs.exporter_role_arn),
        _deployment(deployment, endpoint, names, inputs),
    ]


def exporter_arguments(deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names) -> list[str]:
    """The arguments of `hypertier exporter`."""
    port = endpoint.spec.worker.model_invocation_port.container_port
    arguments = ["--endpoint", endpoint.name, "--region", deployment.region]
    for role in roles_of(deployment, endpoint):
        option = "--discover" if role.decodes else "--prefill-discover"
        arguments += [option, names.discover(role.component, port)]
    if router_series(deployment, endpoint):
        arguments += ["--router-discover", names.discover("routers", ROUTER_METRICS_PORT)]
    if num_replica_metrics(deployment, endpoint):
        arguments.append("--per-replica")  # the hook asks which is worth least
    arguments += ["--listen", f"0.0.0.0:{EXPORTER_PORT}"]
    tls = deployment.routing.engine_tls
    if tls is not None:
        for name, value in client_files(tls, names).items():
            arguments += [f"--{name.replace('_', '-')}", value]
    return arguments if endpoint.kv_cache.l1_enabled else [*arguments, "--no-l1"]


def _deployment(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> Object:
    image = router_image(deployment, inputs)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(names, "exporter", placeholder_annotations(image)),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": names.selector("exporter")},
            "strategy": {"type": "Recreate"},  # two at once would publish everything twice
            "revisionHistoryLimit": 3,
            "template": {
                "metadata": {"labels": names.labels("exporter")},
                "spec": {
                    "serviceAccountName": names.role("exporter"),
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "securityContext": POD_SECURITY,
                    "terminationGracePeriodSeconds": 30,
                    **placement(cpu_group(deployment)),
                    "containers": [
                        {
                            "name": "exporter",
                            "image": image.value,
                            "imagePullPolicy": "IfNotPresent",
                            "command": ["hypertier", "exporter"],
                            "args": exporter_arguments(deployment, endpoint, names),
                            "ports": [{"name": "health", "containerPort": EXPORTER_PORT, "protocol": "TCP"}],
                            "resources": {
                                "requests": {"cpu": "100m", "memory": MEMORY},
                                "limits": {"memory": MEMORY},
                            },
                            "securityContext": CONTAINER_SECURITY,
                            "readinessProbe": http_probe(
                                "/health", "health", periodSeconds=10, timeoutSeconds=5, failureThreshold=3
                            ),
                            "livenessProbe": http_probe(
                                "/health", "health", periodSeconds=30, timeoutSeconds=5, failureThreshold=5
                            ),
                            "volumeMounts": [
                                {"name": "tmp", "mountPath": "/tmp"},
                                *client_mounts(deployment.routing.engine_tls),
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
                        *client_volumes(deployment.routing.engine_tls, names),
                    ],
                },
            },
        },
    }
