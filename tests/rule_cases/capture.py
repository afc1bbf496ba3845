"""Rules of capture, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import Case

CASES = [
    Case(
        "capture-bucket",
        {"spec.dataCapture": {"s3Uri": "s3://captures-of-ours/x"}},
        "spec.dataCapture.s3Uri",
        {"spec.dataCapture": {"s3Uri": "s3://hyperpod-tls-ours/x"}},
    ),
    Case(
        "capture-key",
        {"spec.dataCapture": {"modelPod": {"enabled": True, "kmsKeyId": "alias/ours"}}},
        "spec.dataCapture.modelPod.kmsKeyId",
        {"spec.dataCapture": {"modelPod": {"enabled": False, "kmsKeyId": "alias/ours"}}},
    ),
    Case(
        "capture-without-endpoint",
        {"spec.dataCapture": {"sagemakerEndpoint": {"enabled": True}}},
        "spec.dataCapture.sagemakerEndpoint.enabled",
        {"spec.dataCapture": {"sagemakerEndpoint": {"enabled": True}}, "spec.endpointName": "llama"},
    ),
]
