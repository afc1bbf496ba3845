"""How many tokens each place holds: the GPUs, L1 and L2. The formulas stand in docs/plan.md."""

from __future__ import annotations

from dataclasses import dataclass

from hypertier.catalog.instance_types import GIB, find_instance_type
from hypertier.errors import ConfigError
from hypertier.planning.bill import plan_store_of
from hypertier.planning.engine import EnginePlan, kv_bytes_per_element
from hypertier.spec.arguments import option_value
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import GPU_RESOURCE, InferenceEndpointConfig

GPU_MEMORY_UTILIZATION_RATIO = 0.92  # vLLM's default, https://docs.vllm.ai/en/stable/cli/serve.html
GPU_OVERHEAD_BYTES = 3 * GIB  # activations of a full batch, CUDA graphs, NCCL; on each GPU


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes and tokens of KV cache. A token count is None where the model's shape is not known.

    `gpu_bytes` is what one replica's GPUs have left for KV; `l2_bytes` is shared by all replicas.
    """

    weights_bytes: int
    gpu_bytes: int
    gpu_tokens: int | None
    l1_bytes: int
    l1_tokens: int | None
    l2_bytes: int
    l2_tokens: int | None


def plan_capacity(deployment: Deployment, endpoint: InferenceEndpointConfig, engine: EnginePlan) -> Capacity:
    """What one replica's GPUs and L1, and the deployment's L2, hold.

    Raises:
        ConfigError: the weights leave no room for KV cache on the GPUs.
    """
    args = endpoint.spec.worker.args or ()
    gpu_bytes = _gpu_bytes(endpoint, engine)
    l2_bytes = _l2_bytes(deployment, endpoint)
    model, element_bytes = engine.model, kv_bytes_per_element(args)
    per_token = model.kv_bytes_per_token(element_bytes) if model else None
    copies = model.kv_copies(engine.tensor_parallel_size) if model else 1.0
    return Capacity(
        weights_bytes=engine.weights_bytes,
        gpu_bytes=gpu_bytes,
        gpu_tokens=int(gpu_bytes / (per_token * copies)) if per_token else None,
        l1_bytes=engine.l1_bytes,
        l1_tokens=engine.l1_bytes // per_token if per_token else None,
        l2_bytes=l2_bytes,
        l2_tokens=l2_bytes // per_token if per_token else None,
    )


def _gpu_bytes(endpoint: InferenceEndpointConfig, engine: EnginePlan) -> int:
    if not engine.gpus:
        return 0
    written = option_value(endpoint.spec.worker.args or (), "--gpu-memory-utilization")
    ratio = _ratio(endpoint, written) if written is not None else GPU_MEMORY_UTILIZATION_RATIO
    usable = int(engine.node.gpu_memory_bytes * ratio) - GPU_OVERHEAD_BYTES
    if usable <= 0:
        raise ConfigError(
            f"{endpoint.name}: --gpu-memory-utilization",
            f"{ratio:g}",
            f"more than {GPU_OVERHEAD_BYTES / engine.node.gpu_memory_bytes:.2f}: a GPU of {engine.node.name} "
            f"takes {GPU_OVERHEAD_BYTES // GIB} GiB beside weights and KV cache",
        )
    left = usable * engine.gpus - engine.weights_bytes
    if left <= 0 and engine.model is not None:
        needed = -(-engine.weights_bytes // usable)
        raise ConfigError(
            f"{endpoint.name}: spec.worker.resources.limits.{GPU_RESOURCE}",
            engine.gpus,
            f"at least {needed} GPUs of {engine.node.name} ({usable / GIB:.0f} GiB usable each): the weights "
            f"take {engine.weights_bytes / GIB:.0f} GiB; or larger GPUs, or quantized weights",
        )
    return max(left, 0)


def _ratio(endpoint: InferenceEndpointConfig, written: str) -> float:
    try:
        ratio = float(written)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio <= 1:
        raise ConfigError(
            f"{endpoint.name}: --gpu-memory-utilization", written, "a share of the GPU's memory, such as 0.9"
        )
    return ratio


def _l2_bytes(deployment: Deployment, endpoint: InferenceEndpointConfig) -> int:
    if endpoint.kv_cache.l2_backend == "redis":
        store = plan_store_of(deployment)
        return store.size_bytes if store else deployment.cache.l2.size_bytes
    if endpoint.kv_cache.l2_backend == "tieredstorage":
        group = deployment.group_for(endpoint)
        node = find_instance_type(group.instance_type)
        memory = node.memory_bytes if node else 0
        return memory * group.count * deployment.tiered_percent // 100
    return 0
