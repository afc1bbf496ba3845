"""Whether it pays to prefill prompts on engines of their own (`pdSpec`). docs/plan.md has the formulas.

A prompt that is prefilled elsewhere begins later, by the time that its KV cache takes to move. One that is
not is computed between the tokens of the answers that its engine is writing, each of which ends later for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypertier.catalog.instance_types import GIB, GPUS
from hypertier.planning.break_even import (
    FLOW_BYTES_PER_SECOND,
    ROUND_TRIP_SECONDS,
    recompute_seconds,
)
from hypertier.planning.engine import EnginePlan, kv_bytes_per_element
from hypertier.spec.arguments import option_value

# Share of EFA's line rate that a transfer gets, on the safe side; nothing was measured here, and what is
# measured replaces it.
TRANSFER_EFFICIENCY_RATIO = 0.5
# vLLM's `--max-num-batched-tokens` of a server, by the GPU's memory (`EngineArgs.get_batch_defaults`, vLLM
# 0.32, read 2026-12-02).
BATCHED_TOKENS = ((160 * GIB, 16384), (70 * GIB, 8192), (0, 2048))


@dataclass(frozen=True, slots=True)
class Split:
    """One prompt of `num_tokens`, prefilled apart or not.

    `prefill_seconds` and `whole_seconds` are its prefill by an engine of either kind, `transfer_seconds` the
    way of its KV cache. `step_seconds` is the time between two tokens of an answer that is being written
    while an engine that decodes computes the prompt, `stretch_seconds` how much later that answer ends.
    """

    num_tokens: int
    kv_bytes: int
    prefill_seconds: float
    whole_seconds: float
    transfer_seconds: float
    step_seconds: float
    stretch_seconds: float

    @property
    def delay_seconds(self) -> float:
        """How much later the first token comes for being prefilled apart; below 0 it comes sooner."""
        return self.prefill_seconds + self.transfer_seconds - self.whole_seconds

    @property
    def pays_from(self) -> int | None:
        """Answers that an engine must be writing for the time they gain to be what the prompt loses.

        0 where the prompt loses nothing; None where they gain nothing.
        """
        if self.delay_seconds <= 0:
            return 0
        return math.ceil(self.delay_seconds / self.stretch_seconds) if self.stretch_seconds > 0 else None


@dataclass(frozen=True, slots=True)
class DisaggregationPlan:
    """Of one endpoint with `pdSpec`: how fast KV cache moves between engines, and what prompts make of it.

    `is_measured`: the rate was given. `token_seconds` is the least time between two tokens of an answer.
    `splits` are empty where the model's shape, the GPUs' rates or the network's are not known.
    """

    name: str
    threshold_tokens: int
    transfer_bytes_per_second: float
    is_measured: bool
    token_seconds: float
    prefill_replicas: int
    splits: tuple[Split, ...]


def transfer_bytes_per_second(prefill: EnginePlan, decode: EnginePlan, backend: str) -> float:
    """What one engine sends another: of EFA its share of the node; by TCP a connection for each GPU."""
    if backend == "LIBFABRIC":
        return TRANSFER_EFFICIENCY_RATIO * min(_efa_of(prefill), _efa_of(decode))
    return float(FLOW_BYTES_PER_SECOND * min(prefill.gpus, decode.gpus))


def plan_splits(
    prefill: EnginePlan,
    decode: EnginePlan,
    *,
    bytes_per_second: float,
    efficiency_ratio: float,
    args: Sequence[str],
    contexts: Sequence[int],
) -> tuple[Split, ...]:
    """One row for each prompt length; `args` are those of the engines that decode."""
    model = decode.model
    if model is None or not (prefill.flops and decode.flops and bytes_per_second):
        return ()
    copies = model.kv_copies(decode.tensor_parallel_size)
    chunk = _batched_tokens(decode, args)
    token_seconds = least_token_seconds(decode)
    splits = []
    for num_tokens in contexts:
        kv_bytes = int(model.kv_bytes(num_tokens, kv_bytes_per_element(args)) * copies)
        whole = recompute_seconds(model, num_tokens, decode.flops, efficiency_ratio)
        steps = math.ceil(num_tokens / chunk)
        splits.append(
            Split(
                num_tokens=num_tokens,
                kv_bytes=kv_bytes,
                prefill_seconds=recompute_seconds(model, num_tokens, prefill.flops, efficiency_ratio),
                whole_seconds=whole,
                transfer_seconds=ROUND_TRIP_SECONDS + kv_bytes / bytes_per_second,
                step_seconds=max(whole / steps, token_seconds),
                stretch_seconds=max(whole - steps * token_seconds, 0.0),
            )
        )
    return tuple(splits)


def least_token_seconds(engine: EnginePlan) -> float:
    """A step that computes no prompt reads all weights from the GPUs' memory; KV cache comes on top."""
    gpu = GPUS.get(engine.node.gpu_name)
    rate = engine.gpus * gpu.memory_bytes_per_second if gpu else 0
    return engine.weights_bytes / rate if rate else 0.0


def _efa_of(engine: EnginePlan) -> float:
    node = engine.node
    return node.efa_bytes_per_second * engine.gpus / node.gpus if node.gpus else 0.0


def _batched_tokens(engine: EnginePlan, args: Sequence[str]) -> int:
    written = option_value(args, "--max-num-batched-tokens")
    if written is not None and written.isdecimal() and int(written[:12]) > 0:
        return int(written[:12])
    memory = 0 if "A100" in engine.node.gpu_name else engine.node.gpu_memory_bytes
    return next(num_tokens for least_bytes, num_tokens in BATCHED_TOKENS if memory >= least_bytes)
