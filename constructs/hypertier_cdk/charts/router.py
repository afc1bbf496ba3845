"""The routers in front of an endpoint's engines."""

from __future__ import annotations

from typing import Any

from hypertier.planning.engine import plan_engine
from hypertier.router.settings import BY_PROMPT, STRATEGIES, RouterSettings
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.quantities import format_bytes
from hypertier.spec.roles import PREFILL, pd_spec_of, roles_of, threshold_of
from hypertier_cdk.charts.access import (
    ACCESS_FILE,
    KEYS_FILE,
    SALT_KEY_FILE,
    access_mounts,
    access_objects,
    access_volumes,
    has_secret,
)
from hypertier_cdk.charts.autoscaling import router_scaling, router_spec
from hypertier_cdk.charts.inputs import ChartInputs, placeholder_annotations, refuse, router_image
from hypertier_cdk.charts.names import (
    KV_EVENTS_PORT,
    ROUTER_METRICS_PORT,
    ROUTER_PEER_PORT,
    ROUTER_PORT,
    SERVICE_PORT,
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

ROUTES_FOLDER = "/etc/hypertier/routes"
MIN_REPLICAS = 2  # one may go at any time
SESSION_KEY = "x-session-id"  # where the manifest names no other in SESSION_KEY, as AWS's samples do
PLAIN_STRATEGY = "roundrobin"  # what stands for intelligent routing that is off
BASE_BYTES = 512 * 2**20  # Python, connections and their buffers, beside index and request bodies
PRE_STOP_SECONDS = 5  # until kube-proxy on every node knows that the pod leaves
LAMEDUCK_SECONDS = 15  # until a load balancer's health checks have noticed
DRAIN_SECONDS = 300  # the longest answer that a rollout waits for
EXIT_SECONDS = 10


def router_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> list[Object]:
    """Service account and its role, service, disruption budget and Deployment of the routers."""
    return [
        service_account(names, "router", None),
        *_slices_role(names),
        _service(names),
        *([_peers_service(names)] if routers_share(deployment, endpoint) else []),
        *access_objects(deployment, names),
        disruption_budget(names, "router"),
        _deployment(deployment, endpoint, names, inputs),
        *router_scaling(deployment, endpoint, names, MIN_REPLICAS),
    ]


def routers_share(deployment: Deployment, endpoint: InferenceEndpointConfig) -> bool:
    """Its routers tell one another what they have in flight: every strategy but turns counts that.

    Limits of tenants and the queue are divided by how many they are.
    """
    strategy = endpoint.routing_strategy or PLAIN_STRATEGY
    return strategy != "roundrobin" or deployment.access is not None


def router_settings(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names
) -> RouterSettings:
    """The settings that the container's arguments spell out.

    Raises:
        ConfigError: a strategy that the router does not have.
    """
    strategy = endpoint.routing_strategy or PLAIN_STRATEGY
    if strategy not in STRATEGIES:
        raise refuse(
            endpoint,
            "spec.intelligentRoutingSpec.routingStrategy",
            strategy,
            f"one of {', '.join(STRATEGIES)}; prefixaware keeps requests with a common prefix together",
        )
    port = endpoint.spec.worker.model_invocation_port.container_port
    shares = routers_share(deployment, endpoint)
    pd_spec = pd_spec_of(endpoint)
    split: dict[str, Any] = {}
    if pd_spec is not None:
        # the router's are prompts of more tokens, the manifest's of as many
        threshold = max(threshold_of(pd_spec) - 1, 0)
        split = {"prefill_discover": names.slices(PREFILL, port), "prefill_threshold": threshold}
    served = roles_of(deployment, endpoint)[-1]
    return RouterSettings(
        listen=f"0.0.0.0:{ROUTER_PORT}",
        metrics_port=ROUTER_METRICS_PORT,
        strategy=strategy,
        discover=names.slices(served.component, port),
        **split,
        peers=names.slices("peers", ROUTER_PEER_PORT) if shares else None,
        peer_listen=f"0.0.0.0:{ROUTER_PEER_PORT}" if shares else None,
        routes=f"{ROUTES_FOLDER}/routes.yaml",
        drain_seconds=DRAIN_SECONDS,
        lameduck_seconds=LAMEDUCK_SECONDS,
        kv_events_port=KV_EVENTS_PORT,
        session_key=endpoint.spec.worker.environment_value("SESSION_KEY") or SESSION_KEY,
        access=ACCESS_FILE if deployment.access is not None else None,
        api_keys=KEYS_FILE if has_secret(deployment) else None,
        salt_key=SALT_KEY_FILE if has_secret(deployment) else None,
        l1_tokens=(plan_engine(deployment, served.endpoint).l1_tokens or 0) if strategy in BY_PROMPT else 0,
    )


def router_arguments(settings: RouterSettings) -> list[str]:
    """The settings as arguments of `hypertier router`, memory limits among them."""
    arguments = ["--listen", settings.listen, "--metrics-port", str(settings.metrics_port)]
    arguments += ["--strategy", settings.strategy, "--discover", str(settings.discover)]
    if settings.prefill_discover is not None:
        arguments += ["--prefill-discover", settings.prefill_discover]
        arguments += ["--prefill-threshold", str(settings.prefill_threshold)]
    if settings.peers is not None:
        arguments += ["--peers", settings.peers, "--peer-listen", str(settings.peer_listen)]
    if settings.strategy == "session":
        arguments += ["--session-key", settings.session_key]
    if settings.access is not None:
        arguments += ["--access", settings.access]
    if settings.api_keys is not None:
        arguments += ["--api-keys", settings.api_keys, "--salt-key", str(settings.salt_key)]
    if settings.strategy == "kvaware":
        arguments += ["--kv-events-port", str(settings.kv_events_port)]
    arguments += ["--routes", str(settings.routes)]
    arguments += ["--index-bytes", str(settings.index_bytes)]
    if settings.l1_tokens:
        arguments += ["--l1-tokens", str(settings.l1_tokens)]
    arguments += ["--max-buffered-bytes", str(settings.max_buffered_bytes)]
    arguments += ["--lameduck-seconds", f"{settings.lameduck_seconds:g}"]
    arguments += ["--drain-seconds", f"{settings.drain_seconds:g}"]
    return arguments


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


def _service(names: Names) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(names, "router"),
        "spec": {
            "type": "ClusterIP",
            "selector": names.selector("router"),
            "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _peers_service(names: Names) -> Object:
    """A name for all routers; also of those that no engine makes ready yet, whose requests count as well."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(names, "router") | {"name": names.of("peers")},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": names.selector("router"),
            "ports": [{"name": "peers", "port": ROUTER_PEER_PORT, "targetPort": "peers", "protocol": "TCP"}],
        },
    }


def _deployment(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> Object:
    image = router_image(deployment, inputs)
    settings = router_settings(deployment, endpoint, names)
    memory = format_bytes(settings.index_bytes + settings.max_buffered_bytes + BASE_BYTES)
    grace = PRE_STOP_SECONDS + LAMEDUCK_SECONDS + DRAIN_SECONDS + EXIT_SECONDS
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(names, "router", placeholder_annotations(image)),
        "spec": {
            **({} if router_spec(endpoint) else {"replicas": MIN_REPLICAS}),
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
                    **placement(cpu_group(deployment)),
                    "topologySpreadConstraints": spread(names, "router"),
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
                                "requests": {"cpu": "1", "memory": memory},
                                "limits": {"memory": memory},
                            },
                            "securityContext": CONTAINER_SECURITY,
                            "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
                            "readinessProbe": http_probe(
                                "/health", "http", periodSeconds=5, timeoutSeconds=3, failureThreshold=2
                            ),
                            # /health is 503 while no engine is healthy, which a restart would not mend
                            "livenessProbe": http_probe(
                                "/metrics", "metrics", periodSeconds=10, timeoutSeconds=5, failureThreshold=6
                            ),
                            "volumeMounts": [
                                {"name": "tmp", "mountPath": "/tmp"},
                                {"name": "routes", "mountPath": ROUTES_FOLDER, "readOnly": True},
                                *access_mounts(deployment),
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
                        # made by who operates the endpoint, at any time; a deployment never resets it
                        {"name": "routes", "configMap": {"name": names.of("routes"), "optional": True}},
                        *access_volumes(deployment, names),
                    ],
                },
            },
        },
    }


def _peers_port(deployment: Deployment, endpoint: InferenceEndpointConfig) -> list[Object]:
    if not routers_share(deployment, endpoint):
        return []
    return [{"name": "peers", "containerPort": ROUTER_PEER_PORT, "protocol": "TCP"}]
