"""SageMaker instance types that HyperPod runs, and what one node has.

Sources: EC2's DescribeInstanceTypes (vCPUs, memory, addresses, GPUs, EFA) as moto 5.2 recorded it, restricted
to the names that SageMaker's CreateCluster takes in botocore 1.44; peak rates from NVIDIA's data sheets,
dense bfloat16 without sparsity and the memory's (https://www.nvidia.com/en-us/data-center/).
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30
MIB = 2**20
GIGA = 10**9
TERA = 10**12


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: memory in bytes, and what it can do in a second at best: bfloat16 operations, bytes read."""

    name: str
    memory_bytes: int
    flops: int
    memory_bytes_per_second: int


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("A10G", 22_888 * MIB, 70 * TERA, 600 * GIGA),
        Gpu("L4", 22_888 * MIB, 121 * TERA, 300 * GIGA),
        Gpu("L40S", 45_776 * MIB, 362 * TERA, 864 * GIGA),
        Gpu("A100-40GB", 40_960 * MIB, 312 * TERA, 1555 * GIGA),
        Gpu("A100-80GB", 81_920 * MIB, 312 * TERA, 2039 * GIGA),
        Gpu("H100", 81_920 * MIB, 989 * TERA, 3350 * GIGA),
        Gpu("H200", 144_384 * MIB, 989 * TERA, 4800 * GIGA),
        Gpu("B200", 183_359 * MIB, 2250 * TERA, 8000 * GIGA),
        Gpu("B300", 275_040 * MIB, 2250 * TERA, 8000 * GIGA),
    )
}


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One node: vCPUs, memory in bytes, GPUs with the memory of each in bytes, EFA interfaces.

    `ips_per_interface` bounds a HyperPod node's pods: it has one network interface, whose first address is
    its own.
    """

    name: str
    vcpus: int
    memory_bytes: int
    ips_per_interface: int = 0
    gpus: int = 0
    gpu_name: str = ""
    gpu_memory_bytes: int = 0
    gpu_flops: int = 0
    efa_interfaces: int = 0

    @property
    def max_pods(self) -> int:
        """Pods with an address of their own that fit onto one node."""
        return max(self.ips_per_interface - 1, 0)

    @property
    def efa_bytes_per_second(self) -> int:
        """What all EFA interfaces of a node carry at best; 0 without any."""
        return EFA_GIGABITS.get(self.name, 0) * GIGA // 8 if self.efa_interfaces else 0


EFA_GIGABITS = {
    "ml.g5.8xlarge": 25,
    "ml.g5.12xlarge": 40,
    "ml.g5.16xlarge": 25,
    "ml.g5.24xlarge": 50,
    "ml.g5.48xlarge": 100,
    "ml.g6.8xlarge": 25,
    "ml.g6.12xlarge": 40,
    "ml.g6.16xlarge": 25,
    "ml.g6.24xlarge": 50,
    "ml.g6.48xlarge": 100,
    "ml.g6e.8xlarge": 25,
    "ml.g6e.12xlarge": 100,
    "ml.g6e.16xlarge": 35,
    "ml.g6e.24xlarge": 200,
    "ml.g6e.48xlarge": 400,
    "ml.p4d.24xlarge": 400,
    "ml.p4de.24xlarge": 400,
    "ml.p5.4xlarge": 100,
    "ml.p5.48xlarge": 3200,
    "ml.p5e.48xlarge": 3200,
    "ml.p5en.48xlarge": 3200,
    "ml.p6-b200.48xlarge": 3200,
    "ml.p6-b300.48xlarge": 6400,
}
"""EC2's network performance of the types with GPUs and EFA, in Gbit/s."""


def _row(
    name: str, vcpus: int, memory_gib: int, ips: int, gpus: int = 0, gpu: str = "", efa: int = 0
) -> InstanceType:
    kind = GPUS.get(gpu)
    return InstanceType(
        name,
        vcpus,
        memory_gib * GIB,
        ips,
        gpus,
        gpu,
        kind.memory_bytes if kind else 0,
        kind.flops if kind else 0,
        efa,
    )


INSTANCE_TYPES = {
    row.name: row
    for row in (
        _row("ml.c5.xlarge", 4, 8, 15),
        _row("ml.c5.2xlarge", 8, 16, 15),
        _row("ml.c5.4xlarge", 16, 32, 30),
        _row("ml.c5.9xlarge", 36, 72, 30),
        _row("ml.c5.12xlarge", 48, 96, 30),
        _row("ml.c5.18xlarge", 72, 144, 50),
        _row("ml.c5.24xlarge", 96, 192, 50),
        _row("ml.m5.xlarge", 4, 16, 15),
        _row("ml.m5.2xlarge", 8, 32, 15),
        _row("ml.m5.4xlarge", 16, 64, 30),
        _row("ml.m5.8xlarge", 32, 128, 30),
        _row("ml.m5.12xlarge", 48, 192, 30),
        _row("ml.m5.16xlarge", 64, 256, 50),
        _row("ml.m5.24xlarge", 96, 384, 50),
        _row("ml.c6i.xlarge", 4, 8, 15),
        _row("ml.c6i.2xlarge", 8, 16, 15),
        _row("ml.c6i.4xlarge", 16, 32, 30),
        _row("ml.c6i.8xlarge", 32, 64, 30),
        _row("ml.c6i.12xlarge", 48, 96, 30),
        _row("ml.c6i.16xlarge", 64, 128, 50),
        _row("ml.c6i.24xlarge", 96, 192, 50),
        _row("ml.c6i.32xlarge", 128, 256, 50, efa=1),
        _row("ml.m6i.xlarge", 4, 16, 15),
        _row("ml.m6i.2xlarge", 8, 32, 15),
        _row("ml.m6i.4xlarge", 16, 64, 30),
        _row("ml.m6i.8xlarge", 32, 128, 30),
        _row("ml.m6i.12xlarge", 48, 192, 30),
        _row("ml.m6i.16xlarge", 64, 256, 50),
        _row("ml.m6i.24xlarge", 96, 384, 50),
        _row("ml.m6i.32xlarge", 128, 512, 50, efa=1),
        _row("ml.r6i.xlarge", 4, 32, 15),
        _row("ml.r6i.2xlarge", 8, 64, 15),
        _row("ml.r6i.4xlarge", 16, 128, 30),
        _row("ml.r6i.8xlarge", 32, 256, 30),
        _row("ml.r6i.12xlarge", 48, 384, 30),
        _row("ml.r6i.16xlarge", 64, 512, 50),
        _row("ml.r6i.24xlarge", 96, 768, 50),
        _row("ml.r6i.32xlarge", 128, 1024, 50, efa=1),
        _row("ml.m7i.xlarge", 4, 16, 15),
        _row("ml.m7i.2xlarge", 8, 32, 15),
        _row("ml.m7i.4xlarge", 16, 64, 30),
        _row("ml.m7i.8xlarge", 32, 128, 30),
        _row("ml.m7i.12xlarge", 48, 192, 30),
        _row("ml.m7i.16xlarge", 64, 256, 50),
        _row("ml.m7i.24xlarge", 96, 384, 50),
        _row("ml.m7i.48xlarge", 192, 768, 50, efa=1),
        _row("ml.r7i.xlarge", 4, 32, 15),
        _row("ml.r7i.2xlarge", 8, 64, 15),
        _row("ml.r7i.4xlarge", 16, 128, 30),
        _row("ml.r7i.8xlarge", 32, 256, 30),
        _row("ml.r7i.12xlarge", 48, 384, 30),
        _row("ml.r7i.16xlarge", 64, 512, 50),
        _row("ml.r7i.24xlarge", 96, 768, 50),
        _row("ml.r7i.48xlarge", 192, 1536, 50, efa=1),
        _row("ml.g5.xlarge", 4, 16, 15, 1, "A10G"),
        _row("ml.g5.2xlarge", 8, 32, 15, 1, "A10G"),
        _row("ml.g5.4xlarge", 16, 64, 30, 1, "A10G"),
        _row("ml.g5.8xlarge", 32, 128, 30, 1, "A10G", 1),
        _row("ml.g5.12xlarge", 48, 192, 50, 4, "A10G", 1),
        _row("ml.g5.16xlarge", 64, 256, 30, 1, "A10G", 1),
        _row("ml.g5.24xlarge", 96, 384, 50, 4, "A10G", 1),
        _row("ml.g5.48xlarge", 192, 768, 50, 8, "A10G", 1),
        _row("ml.g6.xlarge", 4, 16, 15, 1, "L4"),
        _row("ml.g6.2xlarge", 8, 32, 15, 1, "L4"),
        _row("ml.g6.4xlarge", 16, 64, 30, 1, "L4"),
        _row("ml.g6.8xlarge", 32, 128, 30, 1, "L4", 1),
        _row("ml.g6.12xlarge", 48, 192, 30, 4, "L4", 1),
        _row("ml.g6.16xlarge", 64, 256, 50, 1, "L4", 1),
        _row("ml.g6.24xlarge", 96, 384, 50, 4, "L4", 1),
        _row("ml.g6.48xlarge", 192, 768, 50, 8, "L4", 1),
        _row("ml.g6e.xlarge", 4, 32, 15, 1, "L40S"),
        _row("ml.g6e.2xlarge", 8, 64, 15, 1, "L40S"),
        _row("ml.g6e.4xlarge", 16, 128, 30, 1, "L40S"),
        _row("ml.g6e.8xlarge", 32, 256, 30, 1, "L40S", 1),
        _row("ml.g6e.12xlarge", 48, 384, 30, 4, "L40S", 1),
        _row("ml.g6e.16xlarge", 64, 512, 50, 1, "L40S", 1),
        _row("ml.g6e.24xlarge", 96, 768, 50, 4, "L40S", 2),
        _row("ml.g6e.48xlarge", 192, 1536, 50, 8, "L40S", 4),
        _row("ml.p4d.24xlarge", 96, 1152, 50, 8, "A100-40GB", 4),
        _row("ml.p4de.24xlarge", 96, 1152, 50, 8, "A100-80GB", 4),
        _row("ml.p5.4xlarge", 16, 256, 30, 1, "H100", 1),
        _row("ml.p5.48xlarge", 192, 2048, 50, 8, "H100", 32),
        _row("ml.p5e.48xlarge", 192, 2048, 50, 8, "H200", 32),
        _row("ml.p5en.48xlarge", 192, 2048, 50, 8, "H200", 16),
        _row("ml.p6-b200.48xlarge", 192, 2048, 50, 8, "B200", 8),
        _row("ml.p6-b300.48xlarge", 192, 4096, 50, 8, "B300", 16),
    )
}


def find_instance_type(name: str) -> InstanceType | None:
    """The node of that type, or None where the table has no such row."""
    return INSTANCE_TYPES.get(name)
