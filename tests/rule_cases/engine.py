"""Rules of engine, each broken once and kept once."""

from __future__ import annotations

from fakes_manifests import REMOVED
from rule_cases.case import SELFHOSTED, WORKER, Case

LMI = "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.36.0-lmi18.0.0-cu128"

CASES = [
    Case(
        "engine-port",
        {f"{WORKER}modelInvocationPort.containerPort": 8080},
        "spec.worker.modelInvocationPort.containerPort",
    ),
    Case(
        "engine-port",
        {f"{WORKER}modelInvocationPort.containerPort": 8080, f"{WORKER}args": ["--tensor-parallel-size=4"]},
        "spec.worker.modelInvocationPort.containerPort",
        {f"{WORKER}args": ["--tensor-parallel-size=4"]},
        name="default",
    ),
    Case(
        "engine-port",
        {f"{WORKER}image": LMI, f"{WORKER}args": REMOVED},
        "spec.worker.modelInvocationPort.containerPort",
        {f"{WORKER}image": LMI, f"{WORKER}args": REMOVED, f"{WORKER}modelInvocationPort.containerPort": 8080},
        name="lmi",
    ),
    Case(
        "probe-port",
        {f"{WORKER}probes.readinessProbe.httpGet.port": 8080},
        "spec.worker.probes.readinessProbe.httpGet.port",
    ),
    Case(
        "selfhosted-engine",
        {f"{WORKER}image": "lmsysorg/sglang:v0.5.6"},
        "spec.worker.image",
        deployment=SELFHOSTED,
    ),
    Case("metrics-port", {"spec.metrics": REMOVED}, "spec.metrics.modelMetrics.port"),
    Case(
        "metrics-port",
        {"spec.metrics.modelMetrics.port": 8080},
        "spec.metrics.modelMetrics.port",
        name="written",
    ),
    Case(
        "health-path", {"spec.loadBalancer.healthCheckPath": "/healthz"}, "spec.loadBalancer.healthCheckPath"
    ),
    Case(
        "health-path-ping",
        {"spec.loadBalancer": REMOVED, f"{WORKER}image": "vllm/vllm-openai:v0.6.3"},
        "spec.loadBalancer.healthCheckPath",
        {"spec.loadBalancer": REMOVED},
    ),
    Case("readiness-timeout", {f"{WORKER}probes": REMOVED}, "spec.worker.probes.readinessProbe"),
    Case("floating-image", {f"{WORKER}image": "vllm/vllm-openai:latest"}, "spec.worker.image"),
    Case(
        "floating-image",
        {f"{WORKER}image": "registry.internal:5000/vllm"},
        "spec.worker.image",
        name="no-tag",
    ),
    Case(
        "image-region",
        {f"{WORKER}image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/vllm:1"},
        "spec.worker.image",
        {f"{WORKER}image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/vllm:1"},
        deployment=SELFHOSTED,
    ),
    Case(
        "arguments-ignored",
        {f"{WORKER}image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.11-gpu"},
        "spec.worker.args",
        {
            f"{WORKER}image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.11-gpu",
            f"{WORKER}command": ["vllm", "serve"],
        },
    ),
]
