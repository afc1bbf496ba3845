"""vLLM's tiering spec, portable to engines on CPUs.

vLLM's own spec copies blocks with CUDA streams and refuses other platforms. Here, on the CPU platform alone,
blocks are copied within the host's memory; everywhere else this is vLLM's spec, unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from vllm.platforms import current_platform
from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    GPULoadStoreSpec,
    LoadStoreSpec,
    OffloadingWorker,
    TransferResult,
)
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from hypertier.errors import ConfigError
from hypertier.tier import compat


class PortableTieringSpec(TieringOffloadingSpec):
    """`TieringOffloadingSpec` that also serves engines on CPUs."""

    def __init__(self, config: Any) -> None:
        compat.require_vllm()
        compat.require_one_node(config.parallel.world_size)
        super().__init__(config)
        self._host_worker: HostCopyWorker | None = None

    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        """Return the worker that moves blocks between the engine's memory and L1."""
        if not current_platform.is_cpu():
            return super().get_worker(kv_caches)
        if self._host_worker is None:
            if getattr(self.config, "canonical_layout", False):
                raise ConfigError(
                    "canonical_layout", True, "false on CPUs, where blocks are copied as they lie"
                )
            region = compat.l1_region(SharedOffloadRegion, self)
            self._host_worker = HostCopyWorker(kv_caches, region, self.blocks_per_chunk)
        return self._host_worker


class HostCopyWorker(OffloadingWorker):
    """Copies blocks between two places in the host's memory, at once:

    a job is finished when it is submitted.
    """

    def __init__(self, kv_caches: CanonicalKVCaches, region: Any, blocks_per_chunk: int) -> None:
        self._region = region
        self._blocks_per_chunk = blocks_per_chunk
        self._group_refs = kv_caches.group_data_refs
        self._pages = [tensor.page_size_bytes for tensor in kv_caches.tensors]
        # bytes of shape [num_blocks, page] and [num_chunks, blocks_per_chunk * page], one pair per tensor
        self._blocks = [t.tensor.view(torch.int8).view((-1, t.page_size_bytes)) for t in kv_caches.tensors]
        self._chunks = [region.create_next_worker_view(page * blocks_per_chunk) for page in self._pages]
        self._finished: list[TransferResult] = []

    def submit_store(self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec) -> bool:
        """Copy blocks of the engine into L1."""
        return self._copy(job_id, src_spec, dst_spec.block_ids, to_l1=True)

    def submit_load(
        self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec, expedited: bool = False
    ) -> bool:
        """Copy from L1 into blocks of the engine."""
        return self._copy(job_id, dst_spec, src_spec.block_ids, to_l1=False)

    def get_finished(self) -> list[TransferResult]:
        """Return the jobs submitted since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def wait(self, job_ids: set[int]) -> None:
        """Return: every submitted job is done."""

    def shutdown(self) -> None:
        """Let go of L1."""
        self._blocks.clear()
        self._chunks.clear()
        self._region.cleanup()

    def _copy(self, job_id: int, engine: GPULoadStoreSpec, chunk_ids: Sequence[int], *, to_l1: bool) -> bool:
        num_bytes = 0
        next_block = next_chunk = 0
        for refs, size, first_index in zip(
            self._group_refs, engine.group_sizes, engine.block_indices, strict=True
        ):
            skipped = first_index % self._blocks_per_chunk
            for i in range(size):
                block = int(engine.block_ids[next_block + i])
                chunk = int(chunk_ids[next_chunk + (skipped + i) // self._blocks_per_chunk])
                part = (skipped + i) % self._blocks_per_chunk
                for ref in refs:
                    start = part * self._pages[ref.tensor_idx]
                    in_engine = self._blocks[ref.tensor_idx][block, : ref.page_size_bytes]
                    in_l1 = self._chunks[ref.tensor_idx][chunk, start : start + ref.page_size_bytes]
                    (in_l1 if to_l1 else in_engine).copy_(in_engine if to_l1 else in_l1)
                    num_bytes += ref.page_size_bytes
            next_block += size
            next_chunk += -(-(skipped + size) // self._blocks_per_chunk) if size else 0
        self._finished.append(TransferResult(job_id, True, num_bytes, 0.0))
        return True
