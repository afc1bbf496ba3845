"""Rules of node_images, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import Case

from hypertier.spec.rules.rule import DEPLOYMENT

ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
CLOSED = {"cluster": {"closedNetwork": True}}

CASES = [
    Case(
        "node-image-untold",
        {"region": "ap-northeast-2"},
        "images.healthAgent",
        {"region": "ap-northeast-2", "images": {"healthAgent": f"{ECR}/agent:1"}},
        kind=DEPLOYMENT,
    ),
    Case(
        "node-image-untold",
        CLOSED,
        "images.nvidiaDevicePlugin",
        {**CLOSED, "images": {"nvidiaDevicePlugin": f"{ECR}/plugin:1"}},
        kind=DEPLOYMENT,
        name="closed",
    ),
    Case(
        "node-image-untold",
        CLOSED,
        "images.nvidiaDevicePlugin",
        {**CLOSED, "instanceGroups": [{"name": "cpu", "instanceType": "ml.m5.4xlarge", "count": 1}]},
        kind=DEPLOYMENT,
        name="without-gpus",
    ),
]
