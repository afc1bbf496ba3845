"""Record what the tier uses of a vLLM: run it in an environment with that vLLM, and keep what it prints.

python record.py > vllm-0.32.0.json
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

import vllm
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.v1.kv_offload import base
from vllm.v1.kv_offload.config import OffloadingConfig
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob


def parameters(function: Any) -> list[str]:
    """The names of a method's parameters, without self."""
    return [name for name in inspect.signature(function).parameters if name != "self"]


def fields(kind: Any) -> list[str]:
    """The fields of a dataclass."""
    return [field.name for field in dataclasses.fields(kind)]


print(
    json.dumps(
        {
            "version": vllm.__version__,
            "transfer_job": fields(TransferJob),
            "job_result": fields(JobResult),
            "schedule_end_context": list(base.ScheduleEndContext._fields),
            "offloading_config": fields(OffloadingConfig),
            "lookup_result": [member.name for member in base.LookupResult],
            "offloading_event": fields(base.OffloadingEvent),
            "locality": [member.name for member in base.Locality],
            "connector": {
                name: parameters(getattr(OffloadingConnector, name))
                for name in ("on_new_request", "get_num_new_matched_tokens", "update_state_after_alloc")
            },
            "medium": [member.name for member in base.Medium],
            "tier_constructor": parameters(SecondaryTierManager.__init__),
            "tier_abstract": sorted(SecondaryTierManager.__abstractmethods__),
            "tier_methods": {
                name: parameters(method)
                for name, method in inspect.getmembers(SecondaryTierManager, callable)
                if not name.startswith("_")
            },
        },
        indent=1,
        sort_keys=True,
    )
)
