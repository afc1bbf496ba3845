"""Rules of routing, each broken once and kept once."""

from __future__ import annotations

from fakes_manifests import REMOVED
from rule_cases.case import KVAWARE, ROUTED, SCALED, SELFHOSTED, WORKER, Case

SESSION = {"spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "session"}}

CASES = [
    Case(
        "routing-off-with-strategy",
        {"spec.intelligentRoutingSpec": {"routingStrategy": "kvaware"}},
        "spec.intelligentRoutingSpec.enabled",
        {"spec.intelligentRoutingSpec": ROUTED},
    ),
    Case(
        "kvaware-endpoint",
        {**KVAWARE, "spec.invocationEndpoint": "v1/chat/completions"},
        "spec.invocationEndpoint",
        KVAWARE,
    ),
    Case(
        "kvaware-versions",
        {**KVAWARE, f"{WORKER}image": "vllm/vllm-openai:v0.11.1"},
        "spec.worker.image",
        KVAWARE,
    ),
    Case(
        "kvaware-versions",
        {**KVAWARE, f"{WORKER}image": "lmcache/vllm-openai:v0.4.3"},
        "spec.worker.image",
        {**KVAWARE, f"{WORKER}image": "lmcache/vllm-openai:v0.3.9post2"},
        operator=(3, 1, 2),
        name="old-operator",
    ),
    Case("kvaware-needs-cache", {**KVAWARE, "spec.kvCacheSpec": REMOVED}, "spec.kvCacheSpec", KVAWARE),
    Case(
        "events-data-parallel",
        {**KVAWARE, f"{WORKER}args": ["--model", "/opt/ml/model", "--data-parallel-size", "2"]},
        "spec.worker.args[3]",
        {**KVAWARE, f"{WORKER}args": ["--model", "/opt/ml/model", "--data-parallel-size", "1"]},
        deployment=SELFHOSTED,
    ),
    Case(
        "events-data-parallel",
        {**KVAWARE, "spec.pdSpec": {"decodingSpec": {"args": ["-dp", "2"]}}},
        "spec.pdSpec.decodingSpec.args[1]",
        {**KVAWARE, "spec.pdSpec": {"prefillSpec": {"args": ["-dp", "2"]}}},
        deployment=SELFHOSTED,
        name="engines-that-decode",
    ),
    Case(
        "session-key",
        SESSION,
        "spec.worker.environmentVariables",
        {**SESSION, f"{WORKER}environmentVariables": [{"name": "SESSION_KEY", "value": "x-user"}]},
    ),
    Case(
        "kvaware-session-key",
        {**KVAWARE, f"{WORKER}environmentVariables": [{"name": "PYTHONHASHSEED", "value": "0"}]},
        "spec.worker.environmentVariables",
        KVAWARE,
    ),
    Case(
        "routing-one-replica",
        {"spec.intelligentRoutingSpec": ROUTED, "spec.replicas": 1},
        "spec.intelligentRoutingSpec.enabled",
        {"spec.intelligentRoutingSpec": ROUTED},
    ),
    Case(
        "routing-and-gateway",
        {"spec.intelligentRoutingSpec": ROUTED, "spec.inferenceGateway": {"enabled": True}},
        "spec.inferenceGateway.enabled",
        {"spec.inferenceGateway": {"enabled": True}},
    ),
    Case(
        "routing-immutable",
        {
            "spec.intelligentRoutingSpec": ROUTED,
            "metadata.annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {}}'},
        },
        "spec.intelligentRoutingSpec.enabled",
        {"metadata.annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {}}'}},
    ),
    Case(
        "router-autoscaling-without-router",
        {"spec.intelligentRoutingSpec": {"enabled": False, "autoScalingSpec": SCALED}},
        "spec.intelligentRoutingSpec.autoScalingSpec",
        {"spec.intelligentRoutingSpec": {"enabled": True, "autoScalingSpec": SCALED}},
    ),
    Case(
        "secret-does-not-reach-router",
        {
            "spec.intelligentRoutingSpec": ROUTED,
            f"{WORKER}environmentVariables.0": {
                "name": "VLLM_API_KEY",
                "valueFrom": {"secretKeyRef": {"name": "key", "key": "key"}},
            },
        },
        "spec.worker.environmentVariables[0]",
        {"spec.intelligentRoutingSpec": ROUTED},
    ),
    Case(
        "router-engine-metrics",
        {"spec.intelligentRoutingSpec": ROUTED, f"{WORKER}image": "lmsysorg/sglang:v0.5.0"},
        "spec.worker.args",
        {
            "spec.intelligentRoutingSpec": ROUTED,
            f"{WORKER}image": "lmsysorg/sglang:v0.5.0",
            f"{WORKER}args": ["--enable-metrics"],
        },
    ),
    Case(
        "gateway-engine-version",
        {"spec.inferenceGateway": {"enabled": True}, f"{WORKER}image": "vllm/vllm-openai:v0.9.1"},
        "spec.worker.image",
        {"spec.inferenceGateway": {"enabled": True}},
    ),
]
