"""What one engine replica needs of its node: GPUs, L1, shared memory, memory, time to start.

Pure arithmetic on a deployment and an endpoint. The constants that are ours rather than a manual's are named
here, with the reason; a manifest that asks for more memory than the sum gets what it asks for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hypertier.catalog.instance_types import GIB, InstanceType, find_instance_type
from hypertier.catalog.models import ModelShape, find_model
from hypertier.errors import ConfigError
from hypertier.planning.break_even import prefill_tokens_per_second
from hypertier.spec.arguments import option_value
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import GPU_RESOURCE, InferenceEndpointConfig
from hypertier.spec.quantities import format_bytes, parse_bytes, parse_count

BLOCK_SIZE_TOKENS = 16  # vLLM's default block on CUDA
MIN_CHUNK_BYTES = 2 * 2**20  # smaller values cost L2 a round trip more than they carry
SYSTEM_RESERVE_RATIO = 0.05  # kubelet, HyperPod's agents, the page cache that loads the weights
ENGINE_BASE_BYTES = 8 * GIB  # Python, CUDA contexts, the API server
ENGINE_BYTES_PER_GPU = 4 * GIB  # each worker process: pinned buffers, NCCL, compiled graphs
SHM_BYTES_PER_GPU = GIB  # NCCL and vLLM's message queues beside L1
STAGING_BYTES_PER_GPU = 4 * GIB  # host memory through which L2 passes while L1 is off
WEIGHTS_BYTES_PER_SECOND = 500_000_000  # from S3 through Mountpoint, on the safe side
PREFAULT_BYTES_PER_SECOND = 10 * GIB  # vLLM touches every page of L1 at start
WARM_UP_SECONDS = 180  # profiling run, compilation, CUDA graphs
IMAGE_PULL_SECONDS = 300  # an engine's image of about 10 GB, unpacked
UNKNOWN_WEIGHTS_BYTES = 140 * 10**9
# Pods that HyperPod, EKS and the inference add-on put onto every node: aws-node, kube-proxy, Pod Identity
# agent, S3 and FSx CSI nodes, NVIDIA and EFA device plugins, health monitoring, tiered storage, metrics
# collector.
DAEMONS_PER_NODE = 10
FOUR_BIT_BYTES_PER_PARAMETER = 0.56  # 4 bits and their scales


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """One replica's share of a node. Bytes, seconds, tokens; memory is request and limit alike.

    Memory is `base_bytes` (Python, CUDA, pinned buffers, NCCL) and L1, or what the manifest asks for where
    that is more, out of the `available_bytes` that a replica's share of the node has.
    """

    node: InstanceType
    model: ModelShape | None
    replicas: int
    gpus: int
    tensor_parallel_size: int
    engines_per_node: int
    cpus: float
    l1_bytes: int
    shm_bytes: int
    memory_bytes: int
    kv_bytes_per_token: int | None
    blocks_per_chunk: int
    startup_seconds: int
    weights_bytes: int = 0
    base_bytes: int = 0
    available_bytes: int = 0

    @property
    def l1_tokens(self) -> int | None:
        """Tokens whose KV cache fits into this replica's L1, or None for a model without a known shape."""
        return self.l1_bytes // self.kv_bytes_per_token if self.kv_bytes_per_token else None

    @property
    def flops(self) -> float:
        """Peak operations a second of the replica's GPUs together; 0.0 where that is not known."""
        return float(self.gpus * self.node.gpu_flops)

    @property
    def prefill_tokens_per_second(self) -> float | None:
        """What the replica should prefill, before anybody measures it; None where nothing is known."""
        return prefill_tokens_per_second(self.model, self.flops) if self.model and self.flops else None


def plan_engine(
    deployment: Deployment, endpoint: InferenceEndpointConfig, model: ModelShape | None = None
) -> EnginePlan:
    """Fit one replica of `endpoint` onto its instance group.

    `model` is its shape where the catalog does not have it.

    Raises:
        ConfigError: where a replica does not fit its node, or the node's type is not in the catalog.
    """
    group = deployment.group_for(endpoint)
    node = find_instance_type(group.instance_type)
    if node is None:
        raise ConfigError(
            f"instanceGroups.{group.name}.instanceType",
            group.instance_type,
            "an instance type that hypertier knows the memory and GPUs of (hypertier.catalog.instance_types)",
        )
    gpus = _gpus(endpoint, node)
    engines_per_node = max(node.gpus // gpus, 1) if gpus else 1
    args = endpoint.spec.worker.args or ()
    names = (endpoint.spec.model_name, _model_location(endpoint), *args)
    if model is None:
        model = find_model(*names)
    weights = weights_bytes_of(model, args, *names[:2])
    available = _available_bytes(deployment, endpoint, node) // engines_per_node
    copied = weights if endpoint.spec.model_source_config.prefetch_enabled else 0
    base = ENGINE_BASE_BYTES + (ENGINE_BYTES_PER_GPU + SHM_BYTES_PER_GPU) * gpus + copied
    l1 = _l1_bytes(deployment, endpoint, available - base, engines_per_node, gpus)
    asked = _asked_memory_bytes(endpoint)
    memory = max(base + l1, asked)
    if memory > available:
        setting, got = (
            ("spec.worker.resources.requests.memory", format_bytes(asked))
            if asked > base + l1
            else ("cache.l1.size", deployment.cache.l1.size)
        )
        raise ConfigError(
            f"{endpoint.name}: {setting}",
            got,
            f"a pod of at most {available // GIB}Gi on {node.name} ({engines_per_node} per node, after "
            f"tiered storage and the system's share); it needs {math.ceil(memory / GIB)}Gi, "
            f"{math.ceil(base / GIB)}Gi of it for vLLM",
        )
    kv_bytes = model.kv_bytes_per_token(kv_bytes_per_element(args)) if model else None
    return EnginePlan(
        node=node,
        model=model,
        replicas=endpoint.replicas,
        gpus=gpus,
        tensor_parallel_size=_tensor_parallel_size(endpoint, gpus),
        engines_per_node=engines_per_node,
        cpus=_cpus(endpoint, node, engines_per_node),
        l1_bytes=l1,
        shm_bytes=l1 + SHM_BYTES_PER_GPU * max(gpus, 1),
        memory_bytes=memory,
        kv_bytes_per_token=kv_bytes,
        blocks_per_chunk=_blocks_per_chunk(kv_bytes),
        startup_seconds=_startup_seconds(weights, l1),
        weights_bytes=weights,
        base_bytes=base,
        available_bytes=available,
    )


def kv_bytes_per_element(args: Sequence[str]) -> int:
    """1 for an fp8 KV cache, else 2: vLLM keeps KV in the model's 16-bit type unless told otherwise."""
    return 1 if (option_value(args, "--kv-cache-dtype") or "auto").startswith("fp8") else 2


def _gpus(endpoint: InferenceEndpointConfig, node: InstanceType) -> int:
    resources = endpoint.spec.worker.resources
    asked = (resources.limits or {}).get(GPU_RESOURCE, (resources.requests or {}).get(GPU_RESOURCE, 0))
    setting = f"spec.worker.resources.limits.{GPU_RESOURCE}"
    gpus = parse_count(setting, asked)
    if gpus != int(gpus):
        raise ConfigError(f"{endpoint.name}: {setting}", asked, "whole GPUs: Kubernetes hands out no parts")
    if gpus > node.gpus:
        raise ConfigError(
            f"{endpoint.name}: {setting}", asked, f"at most {node.gpus}, which is what one {node.name} has"
        )
    return int(gpus)


def _tensor_parallel_size(endpoint: InferenceEndpointConfig, gpus: int) -> int:
    written = option_value(endpoint.spec.worker.args or (), "--tensor-parallel-size", "-tp")
    if written is None:
        return max(gpus, 1)
    if not re.fullmatch(r"[1-9][0-9]*", written):
        raise ConfigError(
            f"{endpoint.name}: --tensor-parallel-size", written, "a whole number of GPUs, 1 or more"
        )
    return int(written)


def _model_location(endpoint: InferenceEndpointConfig) -> str | None:
    source = endpoint.spec.model_source_config
    return source.hugging_face_model.model_id if source.hugging_face_model else source.model_location


def _available_bytes(deployment: Deployment, endpoint: InferenceEndpointConfig, node: InstanceType) -> int:
    tiered = endpoint.kv_cache.l2_backend == "tieredstorage" or deployment.cache.l2.backend == "tieredstorage"
    tiered_ratio = deployment.tiered_percent / 100 if tiered else 0.0
    return int(node.memory_bytes * (1 - tiered_ratio - SYSTEM_RESERVE_RATIO))


def _l1_bytes(
    deployment: Deployment,
    endpoint: InferenceEndpointConfig,
    free_bytes: int,
    engines_per_node: int,
    gpus: int,
) -> int:
    """L1 of one replica, whole GiB. Off but with L2 on it is the staging room that L2 passes through."""
    if not endpoint.kv_cache.l1_enabled:
        return STAGING_BYTES_PER_GPU * max(gpus, 1) if endpoint.kv_cache.l2_enabled else 0
    per_node = deployment.cache.l1.size_bytes
    if per_node is None:
        return max(free_bytes // 2 // GIB, 1) * GIB
    if per_node < engines_per_node * GIB:
        raise ConfigError(
            f"{endpoint.name}: cache.l1.size",
            deployment.cache.l1.size,
            f"{engines_per_node}Gi or more: at least 1Gi for each engine of a node",
        )
    return per_node // engines_per_node // GIB * GIB


def _asked_memory_bytes(endpoint: InferenceEndpointConfig) -> int:
    requests = endpoint.spec.worker.resources.requests or {}
    return (
        parse_bytes("spec.worker.resources.requests.memory", requests["memory"])
        if "memory" in requests
        else 0
    )


def _cpus(endpoint: InferenceEndpointConfig, node: InstanceType, engines_per_node: int) -> float:
    requests = endpoint.spec.worker.resources.requests or {}
    if "cpu" in requests:
        return parse_count("spec.worker.resources.requests.cpu", requests["cpu"])
    return max(math.floor(node.vcpus * 0.9 / engines_per_node), 1)


def _blocks_per_chunk(kv_bytes_per_token: int | None) -> int:
    """The smallest power of two of blocks whose KV is at least 2 MiB; 1 where the model is not known."""
    if not kv_bytes_per_token:
        return 1
    blocks = math.ceil(MIN_CHUNK_BYTES / (kv_bytes_per_token * BLOCK_SIZE_TOKENS))
    return 1 << max(blocks - 1, 0).bit_length()


def weights_bytes_of(model: ModelShape | None, args: Sequence[str], *names: str | None) -> int:
    """Bytes of the weights as vLLM loads them: published type, else what `--quantization` or the name says.

    For a model without a known shape it is that of a 70B model in bfloat16, to be on the safe side.
    """
    if model is None:
        return UNKNOWN_WEIGHTS_BYTES
    said = " ".join(
        [option_value(args, "--quantization", "-q") or "", *(name or "" for name in names)]
    ).lower()
    if re.search(r"\bfp8|[-_]fp8|w8a8", said):
        return model.weights_bytes(1.0)
    if re.search(r"awq|gptq|int4|w4a16|nvfp4|mxfp4", said):
        return model.weights_bytes(FOUR_BIT_BYTES_PER_PARAMETER)
    return model.weights_bytes()


def _startup_seconds(weights_bytes: int, l1_bytes: int) -> int:
    """An upper estimate of the time until an engine answers, in whole minutes."""
    seconds = (
        weights_bytes / WEIGHTS_BYTES_PER_SECOND + l1_bytes / PREFAULT_BYTES_PER_SECOND + WARM_UP_SECONDS
    )
    return math.ceil(seconds / 60) * 60
