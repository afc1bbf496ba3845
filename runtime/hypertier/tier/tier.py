"""The tier that vLLM loads: a `SecondaryTierManager` in front of `L2Cache`.

    "secondary_tiers": [{"type": "HypertierTier", "module_path": "hypertier.tier.tier"}]

It runs in the engine's scheduler, so no call waits for L2. Its other keys are those of `TierSettings`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import (
    LookupResult,
    Medium,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingMetricMetadata,
    OffloadingSpec,
    OffloadKey,
    ReqContext,
    RequestOffloadingContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

from hypertier.errors import ConfigError, TierUnavailableError
from hypertier.tier import compat
from hypertier.tier.cache import L2Cache
from hypertier.tier.gate import Gate
from hypertier.tier.listeners import listen
from hypertier.tier.lookups import Verdicts
from hypertier.tier.mapping import shared_file
from hypertier.tier.metrics import COUNTERS, GAUGES, PREFIX, Counters
from hypertier.tier.mover import Mover
from hypertier.tier.mover_plan import MoverPlan, build_mover, build_upkeep
from hypertier.tier.mover_process import ProcessMover
from hypertier.tier.namespace import find_model
from hypertier.tier.settings import read_settings
from hypertier.tier.tenants import TAG_BYTES, UNSALTED, tag_of_salt

logger = init_logger("vllm.hypertier.tier")

SHUTDOWN_SECONDS = 10.0
OWNER = "hypertier"


class HypertierTier(SecondaryTierManager):
    """L2 in Valkey, Redis, or HyperPod's tiered storage.

    Best effort in everything: what it cannot do is a miss, and counted.

    `primary_kv_view` is L1, bytes of shape [num_chunks, chunk_bytes]; chunks are received into it and sent
    from it.
    """

    medium = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: OffloadingSpec,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        **config: Any,
    ) -> None:
        compat.require_vllm()
        locality = config.pop("locality", None)  # vLLM's own key: its factory goes by it, too
        settings = read_settings(config, os.environ)
        compat.init_tier(
            self,
            offloading_spec=offloading_spec,
            primary_kv_view=primary_kv_view,
            tier_type=tier_type,
            backpressure_detector=backpressure_detector,
        )
        self.locality = compat.locality(locality or ("LOCAL" if settings.address.is_daemon else "REMOTE"))
        self._spec = offloading_spec
        self._tags: dict[str, bytes] = {}
        self._handed_over: set[str] = set()
        under_way = listen(self)
        compat.require_common_hashes(under_way.engine_config if under_way else None, os.environ)
        if under_way is None:
            logger.warning(
                "hypertier: vLLM's own connector tells nothing of flags that change the model's "
                "configuration, such as --hf-overrides, nor of --revision and of weights in object storage: "
                "give those engines another `namespace`, or have kv_connector_module_path be "
                "hypertier.tier.connector"
            )
        if settings.tenants and under_way is None:
            raise ConfigError(
                "secondary_tiers.tenants",
                sorted(settings.tenants),
                "kv_connector_module_path hypertier.tier.connector beside it: vLLM's own connector does not "
                "tell a tier whose a request is",
            )
        self._chunk_bytes = chunk_bytes(primary_kv_view)
        self._l1 = primary_kv_view.cast("B")
        self._counters = Counters()
        source, revision = compat.weights_source(
            offloading_spec, under_way.engine_config if under_way else None
        )
        settings = replace(settings, revision=settings.revision or revision)
        if find_model(source, settings.revision, os.environ) is None:
            logger.warning(
                "hypertier: no weights are found at %s, so engines are told apart by that name and the "
                "revision %r alone: raise `epoch` when the weights change under it",
                source,
                settings.revision,
            )
        plan = MoverPlan(
            settings,
            source,
            compat.namespace_facts(offloading_spec, self._chunk_bytes)
            | compat.engine_facts(under_way.engine_config if under_way else None),
            self._chunk_bytes,
        )
        self._cache = L2Cache(
            self._new_mover(plan),
            Verdicts(settings.lookup_deadline_ms / 1000, self._counters),
            self._counters,
            Gate(
                settings.gate,
                prior(self._chunk_bytes, settings.prior_l2_bytes_per_second),
                prior(compat.tokens_per_chunk(offloading_spec), settings.prior_prefill_tokens_per_second),
                load_deadline_seconds=settings.load_deadline_ms / 1000,
                allowed_debt_seconds=(settings.lookup_deadline_ms + settings.load_deadline_ms) / 1000,
            ),
            upkeep=build_upkeep(plan, compat.hash_root, self._counters, log_upkeep),
            announces=settings.enable_kv_events and compat.events_are_published(offloading_spec),
        )
        logger.info(
            "hypertier: L2 at %s, chunks of %d bytes, ttl %d s, lookup deadline %d ms",
            settings.url,
            self._chunk_bytes,
            settings.ttl_seconds,
            settings.lookup_deadline_ms,
        )
        self._cache.warm_up()

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT, MISS, or RETRY until the lookup deadline."""
        if req_context.req_id in self._handed_over:
            return compat.lookup_result(False)
        tag = self._tags.get(req_context.req_id, UNSALTED)
        return compat.lookup_result(self._cache.lookup(req_context.req_id, tag + key))

    def submit_store(self, job_metadata: TransferJob) -> None:
        """Write chunks to L2 in the background."""
        context = job_metadata.req_context
        keys = self._own(job_metadata.keys, context)
        self._cache.store(job_metadata.job_id, keys, compat.chunk_ids(job_metadata), context.req_id)

    def submit_load(self, job_metadata: TransferJob) -> None:
        """Fetch chunks into L1 in the background."""
        keys = self._own(job_metadata.keys, job_metadata.req_context)
        self._cache.load(job_metadata.job_id, keys, compat.chunk_ids(job_metadata))

    def get_finished_jobs(self) -> Iterable[JobResult]:
        """Return the jobs that nothing works on any more, with the keys that did well."""
        return [
            compat.job_result(job.job_id, not job.failed, vllm_keys(job.moved), job.seconds, job.num_bytes)
            for job in self._cache.take_finished()
        ]

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Ask for nothing special."""
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: ReqContext) -> None:
        """Forget the request."""
        self._cache.forget_request(req_context.req_id)
        self._tags.pop(req_context.req_id, None)
        self._handed_over.discard(req_context.req_id)

    def note_request(self, request_id: str, salt: str | None) -> None:
        """Learn from our connector whose request it is."""
        self._tags[request_id] = tag_of_salt(salt)

    def note_transfer(self, request_id: str, is_due: bool) -> None:
        """Learn from our connector that another engine hands a request over, or does not."""
        (self._handed_over.add if is_due else self._handed_over.discard)(request_id)

    def note_held(self, request_id: str, block_hashes: list[bytes], num_tokens: int) -> None:
        """Learn from our connector which blocks are in use, so that L2 keeps them."""
        tag = self._tags.get(request_id, UNSALTED)
        keys = compat.chunk_keys(self._spec, block_hashes[:], num_tokens)
        self._cache.note_held(tag + key for key in keys)

    def take_events(self) -> Iterable[Any]:
        """Announce what was stored in L2, and what L2 turned out to lack, with `enable_kv_events`."""
        for change in self._cache.take_announcements():
            keys = vllm_keys(change.keys)
            yield compat.offloading_event(keys, self.medium, change.is_removal, self.locality, OWNER)

    def on_schedule_end(self, context: Any) -> None:
        """Send this step's lookups to L2."""
        self._cache.note_scheduled(context.new_req_ids, context.preempted_req_ids)
        self._cache.flush()

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Let chunks live on. vLLM 0.28 to 0.30 calls this; of later ones our connector tells the same."""
        self._cache.note_held(self._own(keys, req_context))

    def drain_jobs(self) -> None:
        """Wait until no job touches L1; each ends by its time limits."""
        self._cache.drain()

    def shutdown(self) -> None:
        """End all threads and connections.

        Raises:
            TierUnavailableError: a thread still works on L1, which vLLM then keeps mapped.
        """
        if not self._cache.close(SHUTDOWN_SECONDS):
            raise TierUnavailableError(f"a transfer did not end within {SHUTDOWN_SECONDS:g} s")
        self._l1.release()

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, OffloadingMetricMetadata]:
        """Declare the metrics of `get_stats`."""
        metrics: dict[str, OffloadingMetricMetadata] = {
            PREFIX + name: OffloadingCounterMetadata(documentation=meaning)
            for name, meaning in COUNTERS.items()
        }
        metrics |= {
            PREFIX + name: OffloadingGaugeMetadata(documentation=meaning) for name, meaning in GAUGES.items()
        }
        return metrics

    def get_stats(self) -> OffloadingConnectorStats | None:
        """Return what was counted since the last call."""
        stats = OffloadingConnectorStats()
        for name, amount in self._counters.take().items():
            stats.increase_counter(PREFIX + name, amount)
        gate = self._cache.gate
        gauges = {
            "up": int(self._cache.is_up),
            "gate_open": int(gate.is_open),
            "debt_seconds": gate.debt_seconds,
            "load_seconds_per_chunk": gate.load_seconds_per_chunk,
            "compute_seconds_per_chunk": gate.compute_seconds_per_chunk,
        }
        for name, value in gauges.items():
            if value is not None:
                stats.set_gauge(PREFIX + name, value)
        return stats

    def _own(self, keys: Collection[OffloadKey], req_context: ReqContext) -> list[bytes]:
        """The keys, each behind the tag of the request's tenant."""
        tag = self._tags.get(req_context.req_id, UNSALTED)
        return [tag + key for key in keys]

    def _new_mover(self, plan: MoverPlan) -> Mover:
        """A process that maps L1, or, where that is not asked for or cannot be, threads."""
        threads = build_mover(plan, self._l1, compat.hash_root, self._counters, log_change)
        if plan.settings.mover == "threads":
            return threads
        shared = shared_file(self._l1)
        if shared is None:
            logger.warning("hypertier: L1 is not shared memory, so chunks are moved by threads of the engine")
            return threads
        threads.close(SHUTDOWN_SECONDS)  # it has shown that the settings work
        return ProcessMover(plan, *shared, len(self._l1), compat.hash_root, self._counters, log_change)


def vllm_keys(keys: Iterable[bytes]) -> Sequence[bytes]:
    """Keys without their tenants' tags."""
    return [key[TAG_BYTES:] for key in keys]


def chunk_bytes(primary_kv_view: memoryview) -> int:
    """How long a chunk is: a row of L1."""
    assert primary_kv_view.strides is not None
    return primary_kv_view.strides[0]


def prior(amount: int, per_second: int) -> float:
    """Seconds for `amount` at a rate; 0.0 where the rate is not known."""
    return amount / per_second if per_second else 0.0


def log_change(what: str, error: Exception | None) -> None:
    """Write one line when L2 stops answering, and one when it answers again."""
    if error is None:
        logger.info("hypertier: L2 answers %ss again", what)
    else:
        logger.warning(
            "hypertier: L2 failed a %s, every %s is a miss until it answers: %s: %s",
            what,
            what,
            type(error).__name__,
            error,
        )


def log_upkeep(what: str, error: Exception | None) -> None:
    """Write one line when L2 lets no upkeep be done, and one when it does again."""
    if error is None:
        logger.info("hypertier: L2 takes upkeep again")
    else:
        logger.warning(
            "hypertier: L2 failed an upkeep; until it answers, chunks used from L1 alone may expire, and "
            "tenants with a quota soon store nothing: %s: %s",
            type(error).__name__,
            error,
        )
