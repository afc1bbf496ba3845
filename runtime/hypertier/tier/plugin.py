"""What vLLM calls in each of its processes: the entry point `vllm.general_plugins`."""

from __future__ import annotations

import logging


def register() -> None:
    """Let configurations say `"type": "hypertier"` and `"spec_name": "PortableTieringSpec"` without a module
    path.

    Never raises: an engine without L2 must start whatever is installed beside it.
    """
    try:
        from vllm.v1.kv_offload.factory import OffloadingSpecFactory
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

        SecondaryTierFactory.register_tier("hypertier", "hypertier.tier.tier", "HypertierTier")
        OffloadingSpecFactory.register_spec(
            "PortableTieringSpec", "hypertier.tier.spec", "PortableTieringSpec"
        )
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        # another vLLM, or the names are taken because this was called before
        logging.getLogger("vllm.hypertier").debug("hypertier is not registered: %s", error)
