"""Rules of memory, each broken once and kept once."""

from __future__ import annotations

from fakes_manifests import GPU, deployment
from rule_cases.case import LIMITS, REQUESTS, SELFHOSTED, WORKER, Case

CASES = [
    Case(
        "memory-under-cache",
        {f"{WORKER}environmentVariables.0": {"name": "LMCACHE_MAX_LOCAL_CPU_SIZE", "value": "100"}},
        "spec.worker.resources.limits.memory",
        {f"{WORKER}environmentVariables.0": {"name": "LMCACHE_MAX_LOCAL_CPU_SIZE", "value": "40"}},
    ),
    Case(
        "memory-too-small",
        {f"{LIMITS}memory": "20Gi", f"{REQUESTS}memory": "20Gi"},
        "spec.worker.resources.limits.memory",
    ),
    Case(
        "memory-too-small",
        {f"{LIMITS}memory": "40Gi", "spec.modelSourceConfig.prefetchEnabled": True},
        "spec.worker.resources.limits.memory",
        {f"{LIMITS}memory": "40Gi"},
        name="prefetch",
    ),
    Case(
        "weights-over-gpus",
        {"spec.modelName": "Llama-3.1-70B"},
        f"spec.worker.resources.limits.{GPU}",
        {"spec.modelName": "Llama-3.1-70B", f"{WORKER}args": ["--quantization", "awq"]},
    ),
    Case(
        "context-over-gpus",
        {
            "spec.instanceType": "ml.g5.4xlarge",
            f"{WORKER}args": ["/opt/ml/model", "--max-model-len", "65536", "--port", "8000"],
        },
        "spec.worker.args[2]",
        {
            "spec.instanceType": "ml.g5.4xlarge",
            f"{WORKER}args": ["/opt/ml/model", "--max-model-len", "16384", "--port", "8000"],
        },
    ),
    Case(
        "context-over-gpus",
        {f"{WORKER}args": ["--tensor-parallel-size=4", "--max-model-len=1000000"]},
        "spec.worker.args[1]",
        {
            f"{WORKER}args": [
                "--tensor-parallel-size=4",
                "--max-model-len=1000000",
                "--kv-cache-memory-bytes=200000000000",
            ]
        },
        name="several-gpus",
    ),
    Case(
        "pod-beside-tiered-storage",
        {f"{REQUESTS}memory": "150Gi"},
        "spec.worker.resources.requests.memory",
        {f"{REQUESTS}memory": "140Gi"},
        deployment={**deployment(), "cache": {"l2": {"backend": "tieredstorage", "memoryPercent": 20}}},
    ),
    Case(
        "pod-beside-tiered-storage",
        {f"{REQUESTS}memory": "150Gi"},
        "spec.worker.resources.requests.memory",
        {f"{REQUESTS}memory": "140Gi"},
        deployment={
            **deployment(),
            "instanceGroups": [{"name": "gpu", "instanceType": "ml.g5.12xlarge", "count": 1}],
            "cache": {"l2": {"backend": "tieredstorage", "memory": "38Gi"}},
        },
        name="an amount",
    ),
    Case(
        "replica-does-not-fit",
        {f"{REQUESTS}memory": "190Gi", f"{LIMITS}memory": "190Gi"},
        "spec.worker.resources.requests.memory",
        deployment=SELFHOSTED,
    ),
    Case(
        "deploy-time",
        {"spec.maxDeployTimeInSeconds": 300},
        "spec.maxDeployTimeInSeconds",
        {"spec.maxDeployTimeInSeconds": 1800},
    ),
]
