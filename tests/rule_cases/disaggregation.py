"""Rules of disaggregation, each broken once and kept once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakes_manifests import GPU
from rule_cases.case import SCALED, SELFHOSTED, Case

ROLE = {"replicas": 1, "resources": {"limits": {GPU: 8}}}
HALF = {"replicas": 1, "resources": {"limits": {GPU: 4}}}
QUARTER = {"replicas": 1, "resources": {"limits": {GPU: 2}}}
PD = {"prefillSpec": ROLE, "decodingSpec": ROLE}
HOT = {"tier": "hot"}
TWO_GROUPS = {
    **SELFHOSTED,
    "instanceGroups": [
        {"name": "warm", "instanceType": "ml.g5.12xlarge", "count": 3, "labels": {"tier": "warm"}},
        {"name": "hot", "instanceType": "ml.g5.12xlarge", "count": 3, "labels": HOT},
    ],
}


def split(prefill: Sequence[str] = (), decode: Sequence[str] = ()) -> dict[str, Any]:
    """A pdSpec whose engines have these arguments."""
    return {"prefillSpec": {**ROLE, "args": [*prefill]}, "decodingSpec": {**ROLE, "args": [*decode]}}


CASES = [
    Case(
        "disaggregation-instance",
        {"spec.pdSpec": PD},
        "spec.instanceType",
        {"spec.pdSpec": PD, "spec.instanceType": "ml.p5.48xlarge"},
    ),
    Case(
        "disaggregation-instance",
        {"spec.pdSpec": PD, "spec.instanceType": "ml.g5.2xlarge"},
        "spec.instanceType",
        {"spec.pdSpec": PD},
        deployment=SELFHOSTED,
    ),
    Case(
        "disaggregation-parallelism",
        {"spec.pdSpec": split(prefill=["--tensor-parallel-size=6"], decode=["-tp", "4"])},
        "spec.pdSpec.prefillSpec.args",
        {"spec.pdSpec": split(prefill=["--tensor-parallel-size=2"], decode=["-tp", "4"])},
    ),
    Case(
        "disaggregation-parallelism",
        {"spec.pdSpec": split(prefill=["-tp", "16"], decode=["-tp", "8"])},
        "spec.pdSpec.prefillSpec.args",
        {"spec.pdSpec": split(prefill=["-tp", "8"], decode=["-tp", "16"])},
    ),
    Case(
        "disaggregation-arguments",
        {"spec.pdSpec": split(decode=["--kv-cache-dtype", "fp8"])},
        "spec.pdSpec.decodingSpec.args",
        {"spec.pdSpec": split(prefill=["--kv-cache-dtype=fp8"], decode=["--kv-cache-dtype", "fp8"])},
    ),
    Case(
        "disaggregation-nodes",
        {"spec.pdSpec": {"prefillSpec": {**ROLE, "replicas": 3}, "decodingSpec": ROLE}},
        "spec.pdSpec",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "replicas": 2}}},
        deployment=SELFHOSTED,
    ),
    Case(
        "disaggregation-nodes",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "replicas": 3}}},
        "spec.pdSpec",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "replicas": 3, "nodeSelector": HOT}}},
        deployment=TWO_GROUPS,
    ),
    Case(
        "disaggregation-selector",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "nodeSelector": {"tier": "cold"}}}},
        "spec.pdSpec.decodingSpec.nodeSelector",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "nodeSelector": HOT}}},
        deployment=TWO_GROUPS,
    ),
    Case(
        "disaggregation-zone-name",
        {"spec.pdSpec": {**PD, "topologySpec": {"availabilityZone": "usw2-az2"}}},
        "spec.pdSpec.topologySpec.availabilityZone",
        {"spec.pdSpec": {**PD, "topologySpec": {"availabilityZone": "us-west-2b"}}},
        deployment=TWO_GROUPS,
    ),
    Case(
        "disaggregation-scaling",
        {"spec.pdSpec": PD, "spec.autoScalingSpec": {"maxReplicaCount": 2}},
        "spec.autoScalingSpec",
        {"spec.pdSpec": {**PD, "autoScalingSpec": {"decodingAutoScaling": {"maxReplicaCount": 2}}}},
    ),
    Case(
        "disaggregation-bounds",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "replicas": 2}}},
        "spec.pdSpec.prefillSpec.replicas",
        {"spec.pdSpec": {"prefillSpec": {**HALF, "replicas": 2}, "decodingSpec": HALF}},
        deployment={**TWO_GROUPS, "scaling": {"prefill": {"min": 2, "max": 3}}},
    ),
    Case(
        "disaggregation-bounds",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "replicas": 3, "nodeSelector": HOT}}},
        "spec.pdSpec.decodingSpec.replicas",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "replicas": 2, "nodeSelector": HOT}}},
        deployment={**TWO_GROUPS, "scaling": {"prefill": {}, "decode": {"max": 2}}},
        name="more than the most",
    ),
    Case(
        "disaggregation-nodes",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "nodeSelector": HOT}}},
        "spec.pdSpec",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**QUARTER, "nodeSelector": HOT}}},
        deployment={**TWO_GROUPS, "scaling": {"decode": {"max": 4}}},
        name="scaled",
    ),
    Case(
        "hook-and-autoscaling",
        {"spec.pdSpec": {**PD, "autoScalingSpec": {"decodingAutoScaling": SCALED}}},
        "spec.pdSpec.autoScalingSpec.decodingAutoScaling",
        {"spec.pdSpec": {**PD, "autoScalingSpec": {"prefillAutoScaling": SCALED}}},
        deployment={**SELFHOSTED, "scaling": {"decode": {"max": 2}}},
        name="of one role",
    ),
    Case(
        "disaggregation-zone",
        {"spec.pdSpec": {**PD, "topologySpec": {"sameAZ": False}}},
        "spec.pdSpec.topologySpec.sameAZ",
        {"spec.pdSpec": PD},
    ),
    Case(
        "disaggregation-model",
        {"spec.pdSpec": PD},
        "spec.pdSpec",
        {"spec.pdSpec": PD, "spec.modelName": "Llama-3.1-70B"},
    ),
    Case(
        "disaggregation-resources",
        {"spec.pdSpec": {**PD, "prefillSpec": {"replicas": 1}}},
        "spec.pdSpec.prefillSpec.resources",
        {"spec.pdSpec": PD},
    ),
    Case(
        "disaggregation-threshold",
        {"spec.pdSpec": {**PD, "routingThreshold": 512}},
        "spec.pdSpec.routingThreshold",
        {"spec.pdSpec": PD},
    ),
]
