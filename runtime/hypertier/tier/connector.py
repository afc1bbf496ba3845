"""vLLM's offloading connector, which also tells the tier what vLLM tells connectors alone. Imports vLLM.

    "kv_connector": "OffloadingConnector", "kv_connector_module_path": "hypertier.tier.connector"

A tier hears of a request's id, but not of its salt; it is asked about the blocks that neither GPU nor L1
holds, but never hears of those that one of them does; and it is not told how flags have changed the model's
configuration. All of this is known here. The name is vLLM's, because vLLM
treats some connectors by their names. Read in vLLM 0.28, 0.30 to 0.33, 2026-12-01.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1 import offloading_connector

from hypertier.tier.listeners import building


class OffloadingConnector(offloading_connector.OffloadingConnector):  # type: ignore[misc]  # vLLM is untyped
    """`OffloadingConnector` of vLLM, and a word to the tiers at two of its calls."""

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
        """Tell what is found of it before the answer is used."""
        num_found, is_async = super().get_num_new_matched_tokens(
            request, num_computed_tokens, *args, **kwargs
        )
        if num_found is not None:
            for listener in self._listeners:
                listener.note_held(request.request_id, request.block_hashes, num_computed_tokens + num_found)
        return num_found, is_async
