"""The tier keeps to the interface of each vLLM that it supports, as recorded from its wheel."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fakes_tier import RealValkey, eventually
from fakes_tier_vllm import INTERFACES, install, recorded

from hypertier.errors import ConfigError
from hypertier.tier.namespace import facts_digest
from hypertier.tier.tenants import tenant_tag

VERSIONS = sorted(path.stem.removeprefix("vllm-") for path in INTERFACES.glob("vllm-*.json"))
CHUNK = 65_536
KEYS = [b"a" * 36, b"b" * 36]
REQUEST = SimpleNamespace(req_id="r")


@pytest.fixture(scope="module")
def valkey() -> Iterator[RealValkey]:
    with RealValkey() as server:
        yield server


@pytest.fixture(params=VERSIONS)
def interface(request: pytest.FixtureRequest) -> dict[str, Any]:
    return recorded(request.param)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, interface: dict[str, Any]) -> ModuleType:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    return install(monkeypatch, interface)


def offloading_spec(model: Path) -> SimpleNamespace:
    config = SimpleNamespace(
        enable_kv_cache_events=True,
        model=SimpleNamespace(name=str(model), dtype="float32"),
        cache=SimpleNamespace(tokens_per_hash=16, blocks_per_chunk=2),
        parallel=SimpleNamespace(world_size=1),
        worker_kv_bytes_per_block=1024,
        groups=[SimpleNamespace(tokens_per_block=16, layer_names=["layer"])],
    )
    return SimpleNamespace(config=config)


def job(interface: dict[str, Any], number: int, slots: list[int], is_promotion: bool) -> Any:
    from vllm.v1.kv_offload.tiering.base import TransferJob

    values = {
        "job_id": number,
        "keys": KEYS,
        "chunk_ids": slots,
        "block_ids": slots,
        "is_promotion": is_promotion,
        "req_context": REQUEST,
        "submit_time": 0.0,
    }
    return TransferJob(**{name: values[name] for name in interface["transfer_job"]})


def test_at_least_three_versions_are_recorded_the_oldest_supported_one_among_them() -> None:
    assert len(VERSIONS) >= 3
    assert VERSIONS[0].startswith("0.28.")


def test_methods_take_what_vllm_passes(module: ModuleType, interface: dict[str, Any]) -> None:
    for name, names in interface["tier_methods"].items():
        method = vars(module.HypertierTier).get(name)
        if inspect.isfunction(method):
            inspect.signature(method).bind("self", *names)
    assert not module.HypertierTier.__abstractmethods__


def build_tier(
    module: ModuleType, interface: dict[str, Any], url: str, model: Path, l1: memoryview, **settings: Any
) -> Any:
    arguments = (
        {"backpressure_detector": None} if "backpressure_detector" in interface["tier_constructor"] else {}
    )
    return module.HypertierTier(
        offloading_spec(model),
        l1.cast("B", (4, CHUNK)),
        "HypertierTier",
        **arguments,
        url=url,
        namespace=interface["version"],
        lookup_deadline_ms=20_000,
        **settings,
    )


def test_chunks_are_stored_looked_up_loaded_and_announced(
    module: ModuleType, interface: dict[str, Any], valkey: RealValkey, tmp_path: Path
) -> None:
    from vllm.v1.kv_offload.base import Locality, LookupResult, Medium, ScheduleEndContext

    l1 = memoryview(bytearray(4 * CHUNK))
    l1[: 2 * CHUNK] = b"a" * CHUNK + b"b" * CHUNK
    tier = build_tier(module, interface, valkey.url, tmp_path, l1, enable_kv_events=True)
    step_end = ScheduleEndContext(new_req_ids=["r"], preempted_req_ids=[])

    def settled() -> bool:
        tier.on_schedule_end(step_end)
        return tier.lookup(b"c" * 36, REQUEST) is not LookupResult.RETRY

    tier.on_new_request(REQUEST)
    tier.submit_store(job(interface, 1, [0, 1], False))
    tier.drain_jobs()
    (stored,) = tier.get_finished_jobs()
    (event,) = tier.take_events()
    assert eventually(settled)
    found = [tier.lookup(key, REQUEST).name for key in [*KEYS, b"c" * 36]]
    tier.submit_load(job(interface, 2, [2, 3], True))
    tier.drain_jobs()
    (loaded,) = tier.get_finished_jobs()
    stats = tier.get_stats()
    definitions = tier.build_metric_definitions({})
    tier.on_request_finished(REQUEST)
    tier.shutdown()

    assert (stored.job_id, stored.success, loaded.job_id, loaded.success) == (1, True, 2, True)
    assert set(stored.successful_keys) == set(loaded.successful_keys) == set(KEYS)
    assert found == ["HIT", "HIT", "MISS"]
    assert l1[2 * CHUNK :] == l1[: 2 * CHUNK]
    assert (stats.counters.keys() | stats.gauges.keys()) <= definitions.keys()
    assert set(event.keys) == set(KEYS)
    assert (event.medium, event.removed, event.locality) == (Medium.STORAGE, False, Locality.REMOTE)
    assert list(tier.take_events()) == []


def test_the_connector_tells_the_tiers_that_it_builds(
    module: ModuleType, interface: dict[str, Any], valkey: RealValkey, tmp_path: Path
) -> None:
    from hypertier.tier.connector import OffloadingConnector

    l1 = memoryview(bytearray(4 * CHUNK))
    terms = {"acme": {"ttl_seconds": 60}}
    connector: Any = OffloadingConnector(
        engine_config(),
        lambda: build_tier(module, interface, valkey.url, tmp_path, l1, tenants=terms),
        (32, True),
    )
    request = SimpleNamespace(request_id="r", cache_salt="acme", block_hashes=[b"a" * 32, b"b" * 32])

    connector.on_new_request(request)
    connector.built.submit_store(job(interface, 1, [0, 1], False))
    connector.built.drain_jobs()
    found = connector.get_num_new_matched_tokens(request, 0)
    connector.built.on_request_finished(REQUEST)
    connector.built.shutdown()

    names = valkey.keys()
    (name, *_) = [name for name in names if tenant_tag("acme").hex().encode() in name]
    assert found == (32, True)
    assert connector.heard == [("new", "r")]
    assert 0 < int(valkey.ask(b"TTL " + name)[1:]) <= 60


def test_l2_is_not_asked_about_what_another_engine_hands_over_unless_that_fails(
    module: ModuleType, interface: dict[str, Any], valkey: RealValkey, tmp_path: Path
) -> None:
    from vllm.v1.kv_offload.base import LookupResult, ScheduleEndContext

    from hypertier.tier.connector import OffloadingConnector

    l1 = memoryview(bytearray(4 * CHUNK))
    connector: Any = OffloadingConnector(
        engine_config(), lambda: build_tier(module, interface, valkey.url, tmp_path, l1)
    )
    tier = connector.built
    params = {"do_remote_prefill": True}
    request = SimpleNamespace(request_id="r", cache_salt=None, block_hashes=[], kv_transfer_params=params)
    tier.submit_store(job(interface, 1, [0, 1], False))
    tier.drain_jobs()
    list(tier.get_finished_jobs())

    def found() -> bool:
        tier.on_schedule_end(ScheduleEndContext(new_req_ids=["r"], preempted_req_ids=[]))
        return tier.lookup(KEYS[0], REQUEST) is LookupResult.HIT

    connector.on_new_request(request)
    connector.get_num_new_matched_tokens(request, 0)
    while_handed_over = tier.lookup(KEYS[0], REQUEST)
    params["do_remote_prefill"] = False
    connector.get_num_new_matched_tokens(request, 0)

    assert while_handed_over is LookupResult.MISS
    assert eventually(found)
    tier.on_request_finished(REQUEST)
    tier.shutdown()


def test_blocks_that_another_connector_fills_count_as_taken(
    module: ModuleType, interface: dict[str, Any]
) -> None:
    from hypertier.tier.connector import OffloadingConnector

    connector: Any = OffloadingConnector(engine_config())
    groups = [[SimpleNamespace(block_id=number) for number in group] for group in ((0, 7, 8), (9,))]

    connector.update_state_after_alloc(REQUEST, SimpleNamespace(blocks=groups), 0)

    assert connector.connector_scheduler._current_batch_allocated_block_ids == {7, 8, 9}
    assert connector.heard == [("allocated", 0)]


class ModelConfig:
    """A model's, as transformers has it."""

    def __init__(self, **changed: Any) -> None:
        self._values = {"rope_parameters": {"rope_theta": 1e4, "original_max_position_embeddings": 4096}}
        self._values |= {"_name_or_path": "/models/here", "odd": object()} | changed

    def to_dict(self) -> dict[str, Any]:
        return dict(self._values)


CACHE = {"cache_dtype": "auto", "kv_cache_dtype_skip_layers": [], "mamba_cache_dtype": "auto"}


def engine_config(**changed: Any) -> SimpleNamespace:
    """What vLLM makes of an engine's flags."""
    model = {
        "hf_config": ModelConfig(),
        "hf_overrides": {},
        "dtype": "bfloat16",
        "quantization": None,
        "max_model_len": 4096,
    }
    return SimpleNamespace(
        model_config=SimpleNamespace(**(model | {k: v for k, v in changed.items() if k in model})),
        cache_config=SimpleNamespace(**CACHE | {k: v for k, v in changed.items() if k in CACHE}),
        parallel_config=SimpleNamespace(
            cp_kv_cache_interleave_size=changed.get("cp_kv_cache_interleave_size", 1)
        ),
        load_config=SimpleNamespace(load_format=changed.get("load_format", "auto")),
        speculative_config=changed.get("speculative_config"),
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"hf_config": ModelConfig(rope_parameters={"rope_theta": 5e5})},
        {"hf_overrides": {"rms_norm_eps": 1e-3}},
        {"dtype": "float16"},
        {"quantization": "fp8"},
        {"max_model_len": 131_072},
        {"cache_dtype": "fp8"},
        {"kv_cache_dtype_skip_layers": ["0", "2"]},
        {"mamba_cache_dtype": "float16"},
        {"cp_kv_cache_interleave_size": 16},
        {"load_format": "dummy"},
        {"speculative_config": SimpleNamespace(method="eagle", model="draft")},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_flags_that_change_what_a_model_computes_give_another_namespace(
    module: ModuleType, changed: dict[str, Any]
) -> None:
    from hypertier.tier import compat

    plain, other = (compat.engine_facts(engine_config(**flags)) for flags in ({}, changed))

    assert facts_digest(plain) != facts_digest(other)


@pytest.mark.parametrize(
    "changed",
    [
        {"hf_config": ModelConfig(_name_or_path="/models/there")},
        {"hf_config": ModelConfig(odd=object())},
        {"load_format": "runai_streamer"},
        {"max_model_len": 2048},
    ],
    ids=["another path", "another process", "another loader", "shorter prompts"],
)
def test_flags_that_change_nothing_of_it_give_the_same_namespace(
    module: ModuleType, changed: dict[str, Any]
) -> None:
    from hypertier.tier import compat

    plain, other = (compat.engine_facts(engine_config(**flags)) for flags in ({}, changed))

    assert plain == other


@pytest.mark.parametrize(
    ("config", "source"),
    [
        ({}, ("/models/m", "")),
        ({"revision": "v2"}, ("/models/m", "v2")),
        ({"model_weights": "s3://bucket/m"}, ("s3://bucket/m", "")),
        ({"tensorizer_uri": "s3://bucket/m.tensors"}, ("s3://bucket/m.tensors", "")),
        (None, ("/models/m", "")),
    ],
    ids=["plain", "revision", "object storage", "tensorized", "unknown"],
)
def test_weights_are_those_that_the_engine_loads(
    module: ModuleType, config: dict[str, str] | None, source: tuple[str, str]
) -> None:
    from hypertier.tier import compat

    known = engine_config()
    if config is not None:
        known.model_config.revision = config.get("revision")
        known.model_config.model_weights = config.get("model_weights", "")
        known.load_config.model_loader_extra_config = {
            k: v for k, v in config.items() if k == "tensorizer_uri"
        }

    found = compat.weights_source(offloading_spec(Path("/models/m")), known if config is not None else None)

    assert found == source


def test_engines_of_two_revisions_share_nothing(
    module: ModuleType,
    interface: dict[str, Any],
    valkey: RealValkey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hypertier.tier.connector import OffloadingConnector

    for revision in ("v1", "v2"):
        snapshot = tmp_path / "models--org--name" / "snapshots" / revision
        snapshot.mkdir(parents=True)
        (snapshot / "model.safetensors").write_text(revision)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    before = valkey.keys()

    for revision in ("v1", "v2", "v1"):
        config = engine_config()
        config.model_config.revision = revision
        l1 = memoryview(bytearray(4 * CHUNK))
        connector: Any = OffloadingConnector(
            config, lambda l1=l1: build_tier(module, interface, valkey.url, Path("org/name"), l1)
        )
        connector.built.submit_store(job(interface, 1, [0, 1], False))
        connector.built.drain_jobs()
        connector.built.shutdown()

    stored = [name for name in list(valkey.keys()) if name not in before]
    namespaces = {name.split(b":")[1] for name in stored}
    assert len(namespaces) == 2


class RegionBefore030:
    def __init__(
        self, engine_id: str, num_blocks: int, rank: int | None, kv_bytes_per_block: int, cpu_page_size: int
    ) -> None:
        self.made_of = (engine_id, num_blocks, rank, kv_bytes_per_block, cpu_page_size)


class Region:
    def __init__(
        self, engine_id: str, num_chunks: int, rank: int | None, kv_bytes_per_chunk: int, cpu_page_size: int
    ) -> None:
        self.made_of = (engine_id, num_chunks, rank, kv_bytes_per_chunk, cpu_page_size)


@pytest.mark.parametrize(("region", "count"), [(RegionBefore030, "num_blocks"), (Region, "num_chunks")])
def test_l1_is_mapped_whatever_a_version_calls_its_chunks(
    module: ModuleType, region: type, count: str
) -> None:
    from hypertier.tier import compat

    config = SimpleNamespace(engine_id="e", parallel=SimpleNamespace(rank=3))
    spec = SimpleNamespace(
        config=config, kv_bytes_per_chunk=4096, cpu_page_size_per_worker=1024, **{count: 9}
    )

    assert compat.l1_region(region, spec).made_of == ("e", 9, 3, 4096, 1024)


def test_an_engine_on_several_nodes_is_refused(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm

    from hypertier.tier import compat

    platform = SimpleNamespace(is_cpu=lambda: False, device_count=lambda: 8)
    monkeypatch.setattr(vllm.platforms, "current_platform", platform)

    compat.require_one_node(8)
    with pytest.raises(ConfigError, match="is 16; expected at most 8, this node's devices"):
        compat.require_one_node(16)


@pytest.mark.parametrize("where", ["LOCAL", "REMOTE"])
def test_requests_may_choose_tiers_by_where_they_are(
    module: ModuleType, interface: dict[str, Any], valkey: RealValkey, tmp_path: Path, where: str
) -> None:
    tier = build_tier(
        module, interface, valkey.url, tmp_path, memoryview(bytearray(4 * CHUNK)), locality=where
    )
    tier.shutdown()

    assert tier.locality.name == where


def test_terms_for_tenants_are_refused_under_vllms_own_connector(
    module: ModuleType, interface: dict[str, Any], valkey: RealValkey, tmp_path: Path
) -> None:
    l1 = memoryview(bytearray(4 * CHUNK))

    with pytest.raises(
        ConfigError, match=r"secondary_tiers.tenants is \['acme'\]; expected kv_connector_module"
    ):
        build_tier(module, interface, valkey.url, tmp_path, l1, tenants={"acme": {"ttl_seconds": 60}})


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"])
def test_block_hashes_that_no_other_engine_computes_are_refused(
    module: ModuleType,
    interface: dict[str, Any],
    valkey: RealValkey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    algorithm: str,
) -> None:
    from hypertier.tier.connector import OffloadingConnector

    config = engine_config()
    config.cache_config.prefix_caching_hash_algo = algorithm
    monkeypatch.delenv("PYTHONHASHSEED")

    def build() -> Any:
        l1 = memoryview(bytearray(4 * CHUNK))
        connector: Any = OffloadingConnector(
            config, lambda: build_tier(module, interface, valkey.url, tmp_path, l1)
        )
        connector.built.shutdown()

    if interface["version"].startswith("0.28.") or algorithm.startswith("xxhash"):
        with pytest.raises(ConfigError, match="PYTHONHASHSEED is not set; expected a number"):
            build()
    else:
        build()
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    build()


@pytest.mark.parametrize("version", ["0.27.1", "0.20.0"])
def test_an_older_vllm_is_refused_with_a_message(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    module = install(monkeypatch, recorded(VERSIONS[0]) | {"version": version})

    with pytest.raises(ConfigError, match=f"vllm is '{version}'; expected 0.28 or newer"):
        module.HypertierTier(SimpleNamespace(), memoryview(b""), "HypertierTier")
