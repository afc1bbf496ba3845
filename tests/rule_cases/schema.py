"""Rules of schema, each broken once and kept once."""

from __future__ import annotations

from fakes_manifests import GROUP, REMOVED
from rule_cases.case import HF, ROUTED, Case

from hypertier.spec.rules.rule import JUMPSTART

CASES = [
    Case("unknown-field", {"spec.kvCacheSpec": {"enableL1cache": True}}, "spec.kvCacheSpec.enableL1cache"),
    Case(
        "unknown-field",
        {"spec.tlsCertificateOutputS3Uri": "s3://b"},
        "spec.tlsCertificateOutputS3Uri",
        name="place",
    ),
    Case("missing-field", {"spec.modelName": REMOVED}, "spec.modelName"),
    Case(
        "missing-field",
        {"spec.model.modelId": REMOVED},
        "spec.model.modelId",
        kind=JUMPSTART,
        name="jumpstart",
    ),
    Case(
        "missing-field",
        {"metadata": {"namespace": "inference"}},
        "metadata.name",
        {"metadata": {"generateName": "llama-"}},
        name="generated",
    ),
    Case("wrong-type", {"spec.replicas": "2"}, "spec.replicas"),
    Case("kind-or-version", {"apiVersion": f"{GROUP}/v2"}, "apiVersion", {"apiVersion": f"{GROUP}/v1alpha1"}),
    Case("name-too-long", {"metadata.name": "Llama_70B"}, "metadata.name", {"metadata.name": "llama-70b"}),
    Case(
        "not-a-choice",
        {"spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "prefixAware"}},
        "spec.intelligentRoutingSpec.routingStrategy",
        {"spec.intelligentRoutingSpec": ROUTED},
    ),
    Case(
        "out-of-bounds",
        {"spec.metrics.metricsScrapeIntervalSeconds": 1},
        "spec.metrics.metricsScrapeIntervalSeconds",
    ),
    Case(
        "out-of-bounds",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {**HF, "commitSHA": "main"},
            }
        },
        "spec.modelSourceConfig.huggingFaceModel.commitSHA",
        {"spec.modelSourceConfig": {"modelSourceType": "huggingface", "huggingFaceModel": HF}},
        name="pattern",
    ),
    Case(
        "version-v1alpha1",
        {
            "apiVersion": f"{GROUP}/v1alpha1",
            "spec.worker.args": REMOVED,
            "spec.worker.probes": REMOVED,
        },
        "spec.kvCacheSpec",
        {
            "apiVersion": f"{GROUP}/v1alpha1",
            "spec.worker.args": REMOVED,
            "spec.worker.probes": REMOVED,
            "spec.kvCacheSpec": REMOVED,
        },
    ),
    Case(
        "operator-too-old",
        {"spec.kubernetes": {"tolerations": [{"operator": "Exists"}]}},
        "spec.kubernetes.tolerations",
        {"spec.kubernetes": {"schedulerName": "kueue"}},
        operator=(3, 6),
    ),
    Case(
        "operator-too-old",
        {"spec.loadBalancer.idleTimeoutSeconds": 300},
        "spec.loadBalancer.idleTimeoutSeconds",
        operator=(3, 2),
        name="idle-timeout",
    ),
]
