"""Who may talk to whom: clients to the router, router and exporter to the engines, engines to L2 and AWS."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from hypertier.spec.capturing import router_capture
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.roles import EngineRole, roles_of
from hypertier.spec.watched import router_series
from hypertier.tier.address import parse_l2_url
from hypertier_cdk.charts.disaggregation import moves_kv, side_channel_ports
from hypertier_cdk.charts.engine_arguments import publishes_kv_events
from hypertier_cdk.charts.exporter import is_exported
from hypertier_cdk.charts.inputs import TOKEN_MARK, ChartInputs, client_cidrs, l2_url
from hypertier_cdk.charts.names import (
    KV_EVENTS_PORT,
    KV_REPLAY_PORT,
    ROUTER_METRICS_PORT,
    ROUTER_PEER_PORT,
    ROUTER_PORT,
    SERVICE_PORT,
    TLS_SERVICE_PORT,
    Names,
)
from hypertier_cdk.charts.pods import Object, metadata
from hypertier_cdk.charts.pre_pull import PRE_PULL, pre_pull_groups
from hypertier_cdk.charts.router_settings import routers_share
from hypertier_cdk.charts.tiered_storage import DAEMON_PORT, uses_tiered_storage

# https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/ (read 2026-12-01)
NODE_LOCAL_DNS = "169.254.20.10/32"
DEFAULT_L2_PORT = 6379
ANYWHERE = "0.0.0.0/0"
METADATA_SERVICE = "169.254.169.254/32"
EKS_SERVICE_CIDRS = ("10.100.0.0/16", "172.20.0.0/16")
"""Where EKS puts Services unless told otherwise (read 2026-12-01):
https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html"""
# https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html (read 2026-12-01)
POD_IDENTITY_AGENT = "169.254.170.23/32"


def network_policies(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> list[Object]:
    """One policy for each component; what is not listed is refused."""
    engine_port = endpoint.spec.worker.model_invocation_port.container_port
    readers = ["router", "exporter"] if is_exported(endpoint) else ["router"]
    to_aws = _aws_apis(deployment, inputs)
    roles = roles_of(deployment, endpoint)
    to_engines = _rule("to", [_pods(names, role.component) for role in roles], engine_port)
    policies = [
        _policy(
            names,
            role.component,
            [
                _rule("from", [_pods(names, reader) for reader in readers], engine_port),
                *(_kv_events(endpoint, "from", _pods(names, "router")) if role.decodes else ()),
                *_nixl(deployment, role, roles, "from", names),
            ],
            [
                _dns(),
                to_aws,
                _pod_identity(),
                *_to_l2(endpoint, inputs),
                *_collector(deployment, inputs),
                *_nixl(deployment, role, roles, "to", names),
            ],
        )
        for role in roles
    ]
    policies.append(
        _policy(
            names,
            "router",
            [
                _rule(
                    "from", [*_clients(deployment, endpoint, inputs), {"namespaceSelector": {}}], ROUTER_PORT
                ),
                _rule("from", [{"namespaceSelector": {}}], ROUTER_METRICS_PORT),
                *_peers(deployment, endpoint, "from", names),
            ],
            [
                _dns(),
                _api_server(inputs),
                to_engines,
                *_kv_events(endpoint, "to", _pods(names, roles[-1].component)),
                *_peers(deployment, endpoint, "to", names),
                *_jwks(deployment),
                *_guardrail(deployment, inputs),
                *([to_aws, _pod_identity()] if router_capture(endpoint) else []),
                *_collector(deployment, inputs),
            ],
        )
    )
    if is_exported(endpoint):
        to_routers = _rule("to", [_pods(names, "router")], ROUTER_METRICS_PORT)
        reads = [to_engines, *([to_routers] if router_series(deployment, endpoint) else [])]
        policies.append(_policy(names, "exporter", [], [_dns(), to_aws, _pod_identity(), *reads]))
    if pre_pull_groups(deployment, endpoint):
        policies.append(_policy(names, PRE_PULL, [], []))  # the kubelet pulls, not the pod
    if deployment.verify is not None:
        policies.append(
            _policy(names, "verify", [], [_dns(), to_aws, _pod_identity(), _to_router(deployment, names)])
        )
    return policies


def _policy(names: Names, component: str, ingress: list[Object], egress: list[Object]) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(names, component),
        "spec": {
            "podSelector": {"matchLabels": names.selector(component)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _rule(direction: str, peers: list[Object], port: int) -> Object:
    return {direction: peers, "ports": [{"protocol": "TCP", "port": port}]}


def _to_router(deployment: Deployment, names: Names) -> Object:
    """By its Service's port as the pod sends it, and the router's as it arrives; policies look at either."""
    service = SERVICE_PORT if deployment.routing.tls is None else TLS_SERVICE_PORT
    ports = [{"protocol": "TCP", "port": port} for port in (service, ROUTER_PORT)]
    return {"to": [_pods(names, "router")], "ports": ports}


def _kv_events(endpoint: InferenceEndpointConfig, direction: str, pods: Object) -> list[Object]:
    """From router to engine, where it asks what engines hold."""
    if not publishes_kv_events(endpoint):
        return []
    ports = [{"protocol": "TCP", "port": port} for port in (KV_EVENTS_PORT, KV_REPLAY_PORT)]
    return [{direction: [pods], "ports": ports}]


def _nixl(
    deployment: Deployment, role: EngineRole, roles: Sequence[EngineRole], direction: str, names: Names
) -> list[Object]:
    """Between engines that prefill and that decode: the side channels, and with UCX any port.

    What goes by EFA passes no policy: it does not go through the kernel.
    """
    if not moves_kv(role):
        return []
    reached = roles if direction == "to" else [role]
    ports = sorted({port for each in reached for port in side_channel_ports(each)})
    rule: Object = {direction: [_pods(names, each.component) for each in roles]}
    if deployment.disaggregation.backend == "UCX":
        return [rule]
    return [rule | {"ports": [{"protocol": "TCP", "port": port} for port in ports]}]


def _peers(
    deployment: Deployment, endpoint: InferenceEndpointConfig, direction: str, names: Names
) -> list[Object]:
    """From router to router, where they tell one another what is in flight; nobody else may."""
    if not routers_share(deployment, endpoint):
        return []
    ports = range(ROUTER_PEER_PORT, ROUTER_PEER_PORT + deployment.routing.cpus)  # one for each process
    rule = {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
    return [{direction: [_pods(names, "router")], **rule}]


def _jwks(deployment: Deployment) -> list[Object]:
    """From router to who issues JWTs, where their keys are fetched: a name's address is nobody's to know."""
    jwt = deployment.access.jwt if deployment.access is not None else None
    if jwt is None or not jwt.jwks_is_url:
        return []
    anywhere = {"ipBlock": {"cidr": ANYWHERE, "except": [METADATA_SERVICE]}}
    return [_rule("to", [anywhere], urlsplit(jwt.jwks).port or 443)]


def _guardrail(deployment: Deployment, inputs: ChartInputs) -> list[Object]:
    """To who looks at requests: pods of the cluster, or the VPC; anywhere where that is not known."""
    guardrail = deployment.routing.guardrail
    if guardrail is None:
        return []
    return [_rule("to", [*_networks(inputs), {"namespaceSelector": {}}], guardrail.port)]


def _collector(deployment: Deployment, inputs: ChartInputs) -> list[Object]:
    """To who collects traces: pods of the cluster, or the VPC; anywhere where that is not known."""
    tracing = deployment.routing.tracing
    if tracing is None:
        return []
    parts = urlsplit(tracing.endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return [_rule("to", [*_networks(inputs), {"namespaceSelector": {}}], port)]


def _pods(names: Names, component: str) -> Object:
    return {"podSelector": {"matchLabels": names.selector(component)}}


def _networks(inputs: ChartInputs) -> list[Object]:
    """The VPC's networks; anywhere but the metadata service where they are not known."""
    if inputs.vpc_cidrs:
        return [{"ipBlock": {"cidr": cidr}} for cidr in inputs.vpc_cidrs]
    return [{"ipBlock": {"cidr": ANYWHERE, "except": [METADATA_SERVICE]}}]


def _clients(deployment: Deployment, endpoint: InferenceEndpointConfig, inputs: ChartInputs) -> list[Object]:
    """Where requests come from: the VPC, and what the deployment names beside it.

    A load balancer stands in the VPC, wherever that is; it holds its own clients to what is named.
    """
    if endpoint.spec.tls_config is not None and not inputs.vpc_cidrs:
        return _networks(inputs)
    known = client_cidrs(deployment, inputs)
    return [{"ipBlock": {"cidr": cidr}} for cidr in known] or _networks(inputs)


def _dns() -> Object:
    """CoreDNS, or NodeLocal DNSCache where it stands in between."""
    return {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            },
            {"ipBlock": {"cidr": NODE_LOCAL_DNS}},
        ],
        "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
    }


def _aws_apis(deployment: Deployment, inputs: ChartInputs) -> Object:
    """HTTPS alone: Secrets Manager, CloudWatch, STS, and Hugging Face where weights come from there.

    In a closed network all of these are endpoints of the VPC.
    """
    closed = deployment.cluster.closed_network
    return _rule("to", _networks(inputs if closed else ChartInputs()), 443)


def _api_server(inputs: ChartInputs) -> Object:
    """Kubernetes' API: by its Service's address as the pod sends it, and where it is, as it arrives.

    Policies may look at either; EKS serves on 443, other clusters mostly on 6443.
    """
    services = [{"ipBlock": {"cidr": cidr}} for cidr in EKS_SERVICE_CIDRS] if inputs.vpc_cidrs else []
    ports = (443,) if inputs.vpc_cidrs else (443, 6443)
    return {
        "to": [*_networks(inputs), *services],
        "ports": [{"protocol": "TCP", "port": port} for port in ports],
    }


def _pod_identity() -> Object:
    return _rule("to", [{"ipBlock": {"cidr": POD_IDENTITY_AGENT}}], 80)


def _to_l2(endpoint: InferenceEndpointConfig, inputs: ChartInputs) -> list[Object]:
    if not endpoint.kv_cache.l2_enabled:
        return []
    if uses_tiered_storage(endpoint):
        return [_rule("to", _networks(inputs), DAEMON_PORT)]  # the node's address is one of the VPC's
    url = l2_url(endpoint, inputs).value
    port = _port_of_token(url) if TOKEN_MARK in url else parse_l2_url(url).port
    # a Service's or ElastiCache's name has no stable address: its networks, and pods that serve Valkey here;
    # a store of somebody's own may be anywhere
    networks = _networks(inputs if inputs.l2_url and inputs.l2_in_vpc else ChartInputs())
    return [_rule("to", [*networks, {"namespaceSelector": {}}], port)]


def _port_of_token(url: str) -> int:
    """The port of a URL whose host is known at deployment alone; the usual one where the port is, too."""
    written = re.search(r":([0-9]+)$", url)
    return int(written[1]) if written else DEFAULT_L2_PORT
