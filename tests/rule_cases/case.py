"""What a case is, and the manifests that cases of several files break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fakes_manifests import cluster, deployment, endpoint, gateway, jumpstart, service_account

from hypertier.spec.rules.rule import CLUSTER, DEPLOYMENT, ENDPOINT, GATEWAY, JUMPSTART, SERVICE_ACCOUNT

BASES = {
    ENDPOINT: endpoint,
    JUMPSTART: jumpstart,
    DEPLOYMENT: deployment,
    GATEWAY: gateway,
    CLUSTER: cluster,
    SERVICE_ACCOUNT: service_account,
}
HF = {"modelId": "meta-llama/Llama-3.1-8B-Instruct", "commitSHA": "0" * 40}
L2 = {"enableL1Cache": True, "enableL2Cache": True}
REDIS = {**L2, "l2CacheSpec": {"l2CacheBackend": "redis", "l2CacheLocalUrl": "rediss://cache.internal:6379"}}
TIERED = {**L2, "l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}
ROUTED = {"enabled": True, "routingStrategy": "prefixaware"}
KVAWARE = {
    "spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "kvaware"},
    "spec.invocationEndpoint": "v1/completions",
    "spec.worker.environmentVariables": [
        {"name": "PYTHONHASHSEED", "value": "0"},
        {"name": "SESSION_KEY", "value": "x-user"},
    ],
}
AMP = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0a1b2c3d"
PROMETHEUS = {"serverAddress": AMP, "query": "sum(vllm:num_requests_waiting)", "targetValue": 5}
SCALED = {"minReplicaCount": 1, "maxReplicaCount": 3, "prometheusTrigger": PROMETHEUS}
WORKER = "spec.worker."
LIMITS = f"{WORKER}resources.limits."
REQUESTS = f"{WORKER}resources.requests."
OPERATOR = {**deployment(), "serving": "operator"}
SELFHOSTED = {**deployment(), "serving": "selfhosted"}


@dataclass(frozen=True)
class Case:
    """`broken` makes `rule` speak at `at` of a valid base; `whole` is a change that keeps it silent."""

    rule: str
    broken: Mapping[str, Any]
    at: str
    whole: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ENDPOINT
    deployment: Mapping[str, Any] | None = None
    operator: tuple[int, ...] | None = None
    siblings: tuple[Mapping[str, Any], ...] = ()
    name: str = ""
