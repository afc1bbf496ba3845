"""The parts of vLLM that the tier builds on, made from what was recorded of a version."""

from __future__ import annotations

import abc
import dataclasses
import enum
import importlib
import inspect
import json
import logging
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

INTERFACES = Path(__file__).parent / "runtime" / "tier" / "interfaces"
OURS = ("hypertier.tier.compat", "hypertier.tier.connector", "hypertier.tier.tier")


class Stats:
    """vLLM's stats payload, as far as the tier fills it."""

    def __init__(self) -> None:
        self.counters: dict[str, float] = {}
        self.gauges: dict[str, float] = {}

    def increase_counter(self, name: str, amount: float) -> None:
        self.counters[name] = self.counters.get(name, 0) + amount

    def set_gauge(self, name: str, value: float) -> None:
        self.gauges[name] = value


def recorded(version: str) -> dict[str, Any]:
    """What was recorded of a version."""
    return dict(json.loads((INTERFACES / f"vllm-{version}.json").read_text()))


def tier_base(interface: dict[str, Any]) -> type:
    """`SecondaryTierManager`: a constructor with the recorded parameters, and what is abstract."""
    names: list[str] = interface["tier_constructor"]

    def construct(self: Any, **given: Any) -> None:
        unknown = set(given) - set(names)
        if unknown:
            raise TypeError(f"unexpected arguments {sorted(unknown)}")
        self.constructed_with = given

    members: dict[str, Any] = {"__init__": signed(construct, names)}
    for name in interface["tier_abstract"]:
        members[name] = abc.abstractmethod(lambda self: None)
    return abc.ABCMeta("SecondaryTierManager", (), members)


def connector_base(interface: dict[str, Any]) -> type:
    """`OffloadingConnector`: three of its calls, with the recorded parameters, that write down what they get.

    `build` is called, as vLLM builds its tiers, and `answer` is what it finds.
    """
    asks = interface["connector"]["get_num_new_matched_tokens"]
    allocates = interface["connector"]["update_state_after_alloc"]

    class OffloadingConnector:
        def __init__(
            self, config: Any, build: Any = lambda: None, answer: tuple[int | None, bool] = (0, False)
        ) -> None:
            self.built = build()
            self.answer = answer
            self.heard: list[Any] = []
            self.connector_scheduler = SimpleNamespace(_current_batch_allocated_block_ids=set())

        def update_state_after_alloc(self, *given: Any) -> None:
            assert len(given) == len(allocates)
            self.heard.append(("allocated", given[-1]))

        def on_new_request(self, request: Any) -> None:
            self.heard.append(("new", request.request_id))

        def get_num_new_matched_tokens(self, *given: Any) -> tuple[int | None, bool]:
            assert len(given) == len(asks)
            return self.answer

    return OffloadingConnector


def signed(function: Any, names: list[str]) -> Any:
    """Give a function the signature that `inspect` shows."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in ("self", *names)])
    return function


def install(monkeypatch: pytest.MonkeyPatch, interface: dict[str, Any]) -> ModuleType:
    """Put a vLLM of the recorded shape in place, and return `hypertier.tier.tier`, imported over it."""
    plain = dataclasses.make_dataclass("Plain", [])
    contents: dict[str, dict[str, Any]] = {
        "vllm": {
            "__version__": interface["version"],
            "platforms": SimpleNamespace(current_platform=SimpleNamespace(device_type="cuda")),
        },
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics": {
            "OffloadingConnectorStats": Stats
        },
        "vllm.distributed.kv_transfer.kv_connector.v1": {},
        "vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector": {
            "OffloadingConnector": connector_base(interface)
        },
        "vllm.v1.core": {},
        "vllm.v1.core.kv_cache_utils": {"NONE_HASH": b"root"},
        "vllm.v1.kv_offload": {},
        "vllm.v1.kv_offload.base": {
            "LookupResult": enum.Enum("LookupResult", interface["lookup_result"]),
            "OffloadingEvent": dataclasses.make_dataclass(
                "OffloadingEvent",
                [
                    (name, Any) if name in ("keys", "medium", "removed") else (name, Any, None)
                    for name in interface["offloading_event"]
                ],
            ),
            "Locality": enum.Enum("Locality", {name: name for name in interface["locality"]}),
            "Medium": enum.Enum("Medium", interface["medium"]),
            "OffloadingCounterMetadata": lambda documentation: ("counter", documentation),
            "OffloadingGaugeMetadata": lambda documentation: ("gauge", documentation),
            "OffloadingMetricMetadata": tuple,
            "OffloadingSpec": plain,
            "OffloadKey": bytes,
            "ReqContext": SimpleNamespace,
            "RequestOffloadingContext": plain,
            "ScheduleEndContext": namedtuple("ScheduleEndContext", interface["schedule_end_context"]),
        },
        "vllm.v1.kv_offload.tiering": {},
        "vllm.v1.kv_offload.tiering.base": {
            "JobResult": dataclasses.make_dataclass("JobResult", interface["job_result"]),
            "TransferJob": dataclasses.make_dataclass("TransferJob", interface["transfer_job"]),
            "SecondaryTierManager": tier_base(interface),
        },
    }
    for name, members in contents.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent in contents:
            setattr(sys.modules[parent], child, module)
    for name in OURS:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that it is gone afterwards
        del sys.modules[name]
        monkeypatch.delattr(importlib.import_module("hypertier.tier"), name.rpartition(".")[2], raising=False)
    return importlib.import_module("hypertier.tier.tier")
