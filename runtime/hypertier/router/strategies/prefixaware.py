"""Where the prompt's beginning is cached, weighed against the work that waits there."""

from __future__ import annotations

from hypertier.router.openai import BLOCK_SIZES, InferenceRequest, prefix_bytes
from hypertier.router.replicas import Replica
from hypertier.router.residency import Residency

# An engine computes at least the last token of a fully cached prompt; here, the smallest block.
MIN_UNCACHED_BYTES = BLOCK_SIZES[0][1]


class PrefixAware:
    """Prefers the replica that is done soonest with the prompt: little of it uncached, little work before it.

    The cost is LMetric's, (prefill to do before the first token) x (requests sharing the engine): a
    common system prompt draws traffic to its replica only until that replica has more to do than another
    needs to compute it anew.
    """

    name = "prefixaware"

    def __init__(self, residency: Residency) -> None:
        self.residency = residency

    def score(self, request: InferenceRequest, replica: Replica) -> float:
        """Minus (pending + uncached bytes of prompt) x (requests in flight + 1)."""
        uncached = request.num_bytes - self.held_bytes(request, replica)
        return -float((replica.pending_bytes + max(uncached, MIN_UNCACHED_BYTES)) * (replica.in_flight + 1))

    def held_bytes(self, request: InferenceRequest, replica: Replica) -> int:
        """Bytes of the prompt's beginning that the replica is believed to hold."""
        return prefix_bytes(self.residency.num_prefix_blocks(replica.url, request.block_hashes))

    def reason(self, request: InferenceRequest, replica: Replica) -> str:
        """`prefix` when the replica holds some of the prompt, else `load`."""
        return "prefix" if self.held_bytes(request, replica) else "load"
