"""Where loading KV cache from L2 beats computing it again. The formulas stand in docs/plan.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypertier.catalog.models import ModelShape

CONTEXTS = (1024, 4096, 8192, 16384, 32768, 65536, 131072)
# Share of the GPUs' peak that a prefill reaches. Llama 3 405B reached 38 to 43 % in training on H100
# (https://arxiv.org/abs/2407.21783, table 4); a measured rate replaces it.
PREFILL_EFFICIENCY_RATIO = 0.4
REFERENCE_PROMPT_TOKENS = 8192  # the prompt that prices and rates are given for
# Of one connection outside a cluster placement group: 5 Gbit/s.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html (read 2026-12-02)
FLOW_BYTES_PER_SECOND = 625_000_000
ROUND_TRIP_SECONDS = 0.002  # a lookup and the first byte from a store in the same region


@dataclass(frozen=True, slots=True)
class BreakEven:
    """One prompt of `num_tokens`: seconds to compute its KV, seconds to load it, and the rate at which they
    meet.

    `alone` has the store's whole bandwidth, `shared` that of one replica while all load at once.
    """

    num_tokens: int
    kv_bytes: int
    recompute_seconds: float
    alone_seconds: float
    shared_seconds: float
    needed_bytes_per_second: float

    @property
    def wins_alone(self) -> bool:
        """Whether L2 beats the GPUs while one replica loads."""
        return self.alone_seconds < self.recompute_seconds

    @property
    def wins_shared(self) -> bool:
        """Whether L2 beats the GPUs while all replicas load at once."""
        return self.shared_seconds < self.recompute_seconds


def recompute_seconds(model: ModelShape, num_tokens: int, flops: float, efficiency_ratio: float) -> float:
    """Seconds that a replica with `flops` operations a second at best takes to prefill `num_tokens`."""
    return model.prefill_operations(num_tokens) / (flops * efficiency_ratio)


def prefill_tokens_per_second(
    model: ModelShape, flops: float, efficiency_ratio: float = PREFILL_EFFICIENCY_RATIO
) -> float:
    """What a replica with `flops` operations a second at best prefills."""
    return REFERENCE_PROMPT_TOKENS / recompute_seconds(
        model, REFERENCE_PROMPT_TOKENS, flops, efficiency_ratio
    )


def efficiency_of(model: ModelShape, tokens_per_second: float, flops: float) -> float:
    """The share of the peak that a prefill rate, measured on short prompts, stands for."""
    return tokens_per_second * 2.0 * model.active_parameters / flops


def break_even(
    model: ModelShape,
    *,
    flops: float,
    bytes_per_second: float,
    replicas: int,
    kv_bytes_per_element: int = 2,
    efficiency_ratio: float = PREFILL_EFFICIENCY_RATIO,
    contexts: Sequence[int] = CONTEXTS,
) -> tuple[BreakEven, ...]:
    """One row for each context length.

    Args:
        flops: peak operations a second of one replica's GPUs together.
        bytes_per_second: what L2 delivers to all replicas together.
    """
    rows = []
    for num_tokens in contexts:
        kv_bytes = model.kv_bytes(num_tokens, kv_bytes_per_element)
        computed = recompute_seconds(model, num_tokens, flops, efficiency_ratio)
        transfer = kv_bytes / bytes_per_second
        rows.append(
            BreakEven(
                num_tokens=num_tokens,
                kv_bytes=kv_bytes,
                recompute_seconds=computed,
                alone_seconds=ROUND_TRIP_SECONDS + transfer,
                shared_seconds=ROUND_TRIP_SECONDS + transfer * max(replicas, 1),
                needed_bytes_per_second=kv_bytes / max(computed - ROUND_TRIP_SECONDS, 1e-9),
            )
        )
    return tuple(rows)
