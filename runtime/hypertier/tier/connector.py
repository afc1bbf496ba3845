"""vLLM's offloading connector, which also tells the tier what vLLM tells connectors alone. Imports vLLM.

    "kv_connector": "OffloadingConnector", "kv_connector_module_path": "hypertier.tier.connector"

A tier hears of a request's id, but not of its salt; it is asked about the blocks that neither GPU nor L1
holds, but never hears of those that one of them does; and it is not told how flags have changed the model's
configuration. All of this is known here. The name is vLLM's, because vLLM
treats some connectors by their names. Read in vLLM 0.28 to 0.33, 2026-12-02.

Before 0.33 vLLM's own overlooks blocks that another connector beside it is to fill: what is still to be
copied to L1 out of a block may be copied when the other has written there, and then lies in L1 and L2 under
the hash of what was there before (https://github.com/vllm-project/vllm/issues/46951, read 2026-12-02).
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1 import offloading_connector

from hypertier.tier.listeners import building


class OffloadingConnector(offloading_connector.OffloadingConnector):  # type: ignore[misc]  # vLLM is untyped
    """`OffloadingConnector` of vLLM, and a word to the tiers at two of its calls; and what it overlooks."""

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        with building(vllm_config) as self._listeners:
            super().__init__(vllm_config, *args, **kwargs)

    def on_new_request(self, request: Any) -> None:
        """Tell whose request it is before any tier hears of it."""
        for listener in self._listeners:
            listener.note_request(request.request_id, request.cache_salt)
        super().on_new_request(request)

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int, *args: Any, **kwargs: Any
    ) -> tuple[int | None, bool]:
        """Tell what is found of it before the answer is used.

        A request that another engine hands over waits for every connector's answer, and is loaded by the one
        that moves KV: L2 would hold it up for nothing. When that has failed, its word is gone.
        """
        params = getattr(request, "kv_transfer_params", None) or {}
        for listener in self._listeners:
            listener.note_transfer(request.request_id, bool(params.get("do_remote_prefill")))
        num_found, is_async = super().get_num_new_matched_tokens(
            request, num_computed_tokens, *args, **kwargs
        )
        if num_found is not None:
            for listener in self._listeners:
                listener.note_held(request.request_id, request.block_hashes, num_computed_tokens + num_found)
        return num_found, is_async

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Have copies out of these blocks end before anybody writes there, whoever that is."""
        taken = getattr(self.connector_scheduler, "_current_batch_allocated_block_ids", None)
        if taken is not None:
            taken.update(block.block_id for group in blocks.blocks for block in group if block.block_id)
        super().update_state_after_alloc(request, blocks, num_external_tokens)
