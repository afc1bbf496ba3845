"""Rules of placement, each broken once and kept once."""

from __future__ import annotations

from fakes_manifests import GPU, REMOVED
from rule_cases.case import LIMITS, REQUESTS, WORKER, Case

from hypertier.spec.rules.rule import JUMPSTART

CASES = [
    Case("instance-choice", {"spec.instanceTypes": ["ml.g5.12xlarge"]}, "spec.instanceTypes"),
    Case("instance-choice", {"spec.instanceType": REMOVED}, "spec.instanceType", name="none"),
    Case("instance-type-prefix", {"spec.instanceType": "p5.48xlarge"}, "spec.instanceType"),
    Case("instance-type-prefix", {"spec.instanceType": ""}, "spec.instanceType", name="empty"),
    Case(
        "instance-type-prefix",
        {"spec.server.instanceType": "g6.48xlarge"},
        "spec.server.instanceType",
        kind=JUMPSTART,
        name="jumpstart",
    ),
    *(
        Case(
            "resource-name",
            {f'{LIMITS}"{wrong}"': 1},
            f"{LIMITS}{wrong}",
            {f'{LIMITS}"{right}"': 1},
            name=wrong,
        )
        for wrong, right in (
            ("nvidia.com/gpus", "nvidia.com/mig-1g.10gb"),
            ("nvidia/gpu", "example.com/robot-arm"),
            ("vpc.amazonaws.com/efas", "vpc.amazonaws.com/efa"),
            ("memroy", "hugepages-2Mi"),
        )
    ),
    Case("instance-type-unknown", {"spec.instanceType": "ml.p5.48xlarg"}, "spec.instanceType"),
    Case("tensor-parallel-size", {f"{WORKER}args.2": "8"}, "spec.worker.args[2]"),
    Case(
        "tensor-parallel-size",
        {f"{WORKER}args": ["--tensor-parallel-size=4", "--pipeline-parallel-size=2"]},
        "spec.worker.args[0]",
        {f"{WORKER}args": ["--tensor-parallel-size=2", "--pipeline-parallel-size=2"]},
        name="times-pipeline",
    ),
    Case("gpus-left-idle", {f"{WORKER}args.2": "2"}, "spec.worker.args[2]"),
    Case(
        "gpus-of-type",
        {f'{LIMITS}"{GPU}"': 8, f'{REQUESTS}"{GPU}"': 8},
        f"spec.worker.resources.limits.{GPU}",
    ),
    Case(
        "no-gpu",
        {f'{LIMITS}"{GPU}"': REMOVED, f'{REQUESTS}"{GPU}"': REMOVED},
        f"spec.worker.resources.limits.{GPU}",
    ),
    Case("gpu-request-unlike-limit", {f'{REQUESTS}"{GPU}"': 2}, f"spec.worker.resources.requests.{GPU}"),
    Case("request-over-limit", {f"{LIMITS}memory": "64Gi"}, "spec.worker.resources.limits.memory"),
    Case("bad-quantity", {f"{REQUESTS}memory": "96GiB"}, "spec.worker.resources.requests.memory"),
    Case(
        "memory-over-node",
        {f"{REQUESTS}memory": "400Gi", f"{LIMITS}memory": "400Gi"},
        "spec.worker.resources.requests.memory",
    ),
    Case(
        "cpu-over-node",
        {f"{REQUESTS}cpu": "48"},
        "spec.worker.resources.requests.cpu",
        {f"{REQUESTS}cpu": "47"},
    ),
    Case(
        "partition-of-type",
        {"spec.server.instanceType": "ml.p5.48xlarge", "spec.server.acceleratorPartitionType": "mig-1g.5gb"},
        "spec.server.acceleratorPartitionType",
        {"spec.server.instanceType": "ml.p5.48xlarge", "spec.server.acceleratorPartitionType": "mig-1g.10gb"},
        kind=JUMPSTART,
    ),
]
