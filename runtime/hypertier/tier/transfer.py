"""KV cache that moves from the GPUs of one engine to those of another: vLLM's NixlConnector.

https://docs.vllm.ai/en/stable/features/nixl_connector_usage/ (read 2026-12-01).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hypertier.errors import ConfigError

NIXL_BACKENDS = ("LIBFABRIC", "UCX")  # the first speaks EFA; the second is vLLM's default


@dataclass(frozen=True)
class Transfer:
    """This engine computes KV cache for others (`kv_producer`) or takes it over; `backend` is NIXL's."""

    role: Literal["kv_producer", "kv_consumer"]
    backend: str = NIXL_BACKENDS[0]


def check_backend(setting: str, backend: str) -> None:
    """Refuse what NIXL does not have, or EFA does not carry. Raises ConfigError naming `setting`."""
    if backend not in NIXL_BACKENDS:
        raise ConfigError(setting, backend, " or ".join(NIXL_BACKENDS))


def nixl_config(transfer: Transfer) -> dict[str, Any]:
    """Its value of vLLM's `--kv-transfer-config`. vLLM reads the backend from there alone."""
    check_backend("transfer.backend", transfer.backend)
    return {
        "kv_connector": "NixlConnector",
        "kv_role": transfer.role,
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"backends": [transfer.backend]},
    }
