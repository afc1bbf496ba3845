"""The table of instance types, against EC2's own description and SageMaker's own list."""

from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import botocore
import moto
import pytest

from hypertier.catalog.instance_types import (
    EFA_GIGABITS,
    GPUS,
    INSTANCE_TYPES,
    MIB,
    InstanceType,
    find_instance_type,
)
from hypertier.catalog.partitions import PARTITIONS

EC2 = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
SAGEMAKER = Path(botocore.__file__).parent / "data" / "sagemaker" / "2017-07-24" / "service-2.json.gz"


@pytest.fixture(scope="module")
def described() -> Any:
    """What DescribeInstanceTypes says, as moto recorded it."""
    return json.loads(gzip.decompress(EC2.read_bytes()))


@pytest.mark.parametrize("row", INSTANCE_TYPES.values(), ids=lambda row: row.name)
def test_a_row_says_what_ec2_says(row: InstanceType, described: Any) -> None:
    entry = described[row.name.removeprefix("ml.")]
    gpu = (entry.get("GpuInfo", {}).get("Gpus") or [{}])[0]

    assert row.vcpus == entry["VCpuInfo"]["DefaultVCpus"]
    assert row.memory_bytes == entry["MemoryInfo"]["SizeInMiB"] * MIB
    assert row.ips_per_interface == entry["NetworkInfo"]["Ipv4AddressesPerInterface"]
    assert row.efa_interfaces == entry["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    assert row.gpus == gpu.get("Count", 0)
    assert row.gpu_memory_bytes == gpu.get("MemoryInfo", {}).get("SizeInMiB", 0) * MIB


def test_efa_carries_what_ec2_says_of_the_network(described: Any) -> None:
    def gigabits(said: str) -> int:
        """Of `3200 Gigabit` or `4x 100 Gigabit`."""
        return math.prod(int(number) for number in re.findall(r"\d+", said))

    told = {
        row.name: gigabits(described[row.name.removeprefix("ml.")]["NetworkInfo"]["NetworkPerformance"])
        for row in INSTANCE_TYPES.values()
        if row.gpus and row.efa_interfaces
    }

    assert told == EFA_GIGABITS
    assert INSTANCE_TYPES["ml.p5.48xlarge"].efa_bytes_per_second == 400 * 10**9
    assert INSTANCE_TYPES["ml.g5.xlarge"].efa_bytes_per_second == 0


def test_every_type_is_one_that_hyperpod_takes() -> None:
    service = json.loads(gzip.decompress(SAGEMAKER.read_bytes()))

    assert set(INSTANCE_TYPES) <= set(service["shapes"]["ClusterInstanceType"]["enum"])


def test_a_node_has_one_address_less_for_pods() -> None:
    assert INSTANCE_TYPES["ml.m5.xlarge"].max_pods == 14


def test_every_gpu_of_the_table_has_a_rate() -> None:
    assert {row.gpu_name for row in INSTANCE_TYPES.values() if row.gpus} <= set(GPUS)


def test_partitions_belong_to_known_types() -> None:
    assert set(PARTITIONS) <= set(INSTANCE_TYPES)


def test_a_type_that_nobody_knows_is_none() -> None:
    assert find_instance_type("ml.p9.48xlarge") is None
