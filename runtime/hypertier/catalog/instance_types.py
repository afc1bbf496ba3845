"""SageMaker instance types that HyperPod runs, and what one node has.

Sources, read 2026-12-01: PyPI `sagemaker-hyperpod` 3.12.0 `training/constants.py` (vCPU, memory, GPUs, EFA);
https://aws.amazon.com/ec2/instance-types/ (GPU memory, NVMe).
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One node: vCPUs, memory in bytes, GPUs with their memory in bytes, EFA interfaces."""

    name: str
    vcpus: int
    memory_bytes: int
    gpus: int = 0
    gpu_name: str = ""
    gpu_memory_bytes: int = 0
    efa_interfaces: int = 0


def _row(
    name: str, vcpus: int, memory_gib: int, gpus: int = 0, gpu: str = "", gpu_gib: int = 0, efa: int = 0
) -> InstanceType:
    return InstanceType(name, vcpus, memory_gib * GIB, gpus, gpu, gpu_gib * GIB, efa)


INSTANCE_TYPES = {
    row.name: row
    for row in (
        _row("ml.c5.4xlarge", 16, 32),
        _row("ml.c5.12xlarge", 48, 96),
        _row("ml.m5.xlarge", 4, 16),
        _row("ml.m5.2xlarge", 8, 32),
        _row("ml.m5.4xlarge", 16, 64),
        _row("ml.m5.8xlarge", 32, 128),
        _row("ml.m5.12xlarge", 48, 192),
        _row("ml.r5.4xlarge", 16, 128),
        _row("ml.g5.xlarge", 4, 16, 1, "A10G", 24),
        _row("ml.g5.2xlarge", 8, 32, 1, "A10G", 24),
        _row("ml.g5.4xlarge", 16, 64, 1, "A10G", 24),
        _row("ml.g5.8xlarge", 32, 128, 1, "A10G", 24, 1),
        _row("ml.g5.12xlarge", 48, 192, 4, "A10G", 24, 1),
        _row("ml.g5.24xlarge", 96, 384, 4, "A10G", 24, 1),
        _row("ml.g5.48xlarge", 192, 768, 8, "A10G", 24, 1),
        _row("ml.g6.xlarge", 4, 16, 1, "L4", 24),
        _row("ml.g6.12xlarge", 48, 192, 4, "L4", 24, 1),
        _row("ml.g6.48xlarge", 192, 768, 8, "L4", 24, 1),
        _row("ml.g6e.xlarge", 4, 32, 1, "L40S", 48),
        _row("ml.g6e.12xlarge", 48, 384, 4, "L40S", 48, 1),
        _row("ml.g6e.48xlarge", 192, 1536, 8, "L40S", 48, 4),
        _row("ml.p4d.24xlarge", 96, 1152, 8, "A100", 40, 4),
        _row("ml.p4de.24xlarge", 96, 1152, 8, "A100", 80, 4),
        _row("ml.p5.4xlarge", 16, 256, 1, "H100", 80, 1),
        _row("ml.p5.48xlarge", 192, 2048, 8, "H100", 80, 32),
        _row("ml.p5e.48xlarge", 192, 2048, 8, "H200", 141, 32),
        _row("ml.p5en.48xlarge", 192, 2048, 8, "H200", 141, 16),
        _row("ml.p6-b200.48xlarge", 192, 2048, 8, "B200", 180, 8),
    )
}


def find_instance_type(name: str) -> InstanceType | None:
    """The node of that type, or None where the table has no such row."""
    return INSTANCE_TYPES.get(name)
