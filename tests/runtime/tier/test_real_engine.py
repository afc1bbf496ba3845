"""A real vLLM on this CPU with a real Valkey: what the cache gives back, the model takes for its own."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes_tier import RealValkey
from fakes_tier_daemon import NodeDaemon
from fakes_tier_engine import Engine, EngineHost, stored_by

from hypertier.lab.engine_env import find_engine_python
from hypertier.tier.entry import HEADER_BYTES, seal
from hypertier.tier.launch import CacheSettings, kv_transfer_config
from hypertier.tier.names import parse_entry_name
from hypertier.tier.transfer import Transfer

pytestmark = pytest.mark.engine

CHUNK_TOKENS = 64
DOCUMENT = "Keys and values of a prompt need computing once, then they can be looked up. " * 11
CONNECTORS = """
import json, sys
from types import SimpleNamespace
from vllm.config.kv_transfer import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector

config = KVTransferConfig(**json.loads(sys.argv[1]))
assert KVConnectorFactory.supports_hma_config(config)
found = MultiConnector._get_connector_classes_and_configs(SimpleNamespace(kv_transfer_config=config))
print(*(connector.__name__ for connector, _ in found))
"""
PROMPTS = tuple(f"{name}: {DOCUMENT}" for name in ("first", "second", "third"))  # a token is a byte


@pytest.fixture(scope="module")
def valkey() -> Iterator[RealValkey]:
    with RealValkey() as server:
        yield server


@pytest.fixture(scope="module")
def writer(engine_host: EngineHost, valkey: RealValkey) -> Engine:
    return engine_host.start(valkey.url)


@pytest.fixture(scope="module")
def reader(engine_host: EngineHost, valkey: RealValkey) -> Engine:
    return engine_host.start(valkey.url)


def in_whole_chunks(*prompts: str) -> list[int]:
    """How many tokens of each prompt whole chunks cover."""
    return [len(prompt) // CHUNK_TOKENS * CHUNK_TOKENS for prompt in prompts]


def test_another_process_loads_what_one_stored_and_says_the_same_as_without_a_cache(
    plain_engine: Engine, writer: Engine, reader: Engine
) -> None:
    computed = plain_engine.generate(*PROMPTS)
    cached_on_gpu = plain_engine.generate(*PROMPTS)
    writer.generate(*PROMPTS)
    writer.forget()

    loaded = reader.generate(*PROMPTS)

    assert loaded == cached_on_gpu == computed
    assert reader.cached == in_whole_chunks(*PROMPTS)
    assert reader.metric("vllm:prompt_tokens_cached_by_source_total", source="disk") == sum(
        in_whole_chunks(*PROMPTS)
    )
    assert reader.metric("hypertier_l2_integrity_failures_total") == 0
    assert reader.metric("hypertier_l2_up") == 1


def test_behind_a_multi_connector_our_tiers_find_what_another_engine_stored(
    engine_host: EngineHost, plain_engine: Engine, writer: Engine, valkey: RealValkey
) -> None:
    computed = plain_engine.generate(PROMPTS[2])
    stored_by(writer, valkey, PROMPTS[2], salt="moved")
    decoder = engine_host.start(valkey.url, among_connectors=True)

    loaded = decoder.generate(PROMPTS[2], salt="moved")

    assert loaded == computed
    assert decoder.cached == in_whole_chunks(PROMPTS[2])
    assert decoder.metric("vllm:prompt_tokens_cached_by_source_total", source="disk") == sum(
        in_whole_chunks(PROMPTS[2])
    )


def test_vllm_knows_every_connector_that_moves_kv_beside_our_tiers() -> None:
    config = kv_transfer_config(CacheSettings(2**30, "redis://l2:6379", transfer=Transfer("kv_producer")))
    python = find_engine_python(os.environ, Path())

    said = subprocess.run(
        [str(python), "-c", CONNECTORS, json.dumps(config)], capture_output=True, text=True, check=True
    ).stdout

    assert said.splitlines()[-1].split() == ["NixlPullConnector", "OffloadingConnector"]


def test_what_is_loaded_is_what_attention_reads(
    plain_engine: Engine, writer: Engine, reader: Engine, valkey: RealValkey
) -> None:
    computed = plain_engine.generate(PROMPTS[0])
    chunks = stored_by(writer, valkey, PROMPTS[0], salt="turned")
    for names in chunks.values():
        turn_signs(valkey, names)

    loaded = reader.generate(PROMPTS[0], salt="turned")

    assert reader.cached == in_whole_chunks(PROMPTS[0])
    assert loaded != computed


def test_tenants_never_hit_what_another_stored(writer: Engine, reader: Engine, valkey: RealValkey) -> None:
    stored_by(writer, valkey, PROMPTS[1], salt="tenant a")

    reader.generate(PROMPTS[1], salt="tenant b")
    of_another = reader.cached
    reader.generate(PROMPTS[1], salt="tenant a")
    of_its_own = reader.cached

    assert (of_another, of_its_own) == ([0], in_whole_chunks(PROMPTS[1]))


def test_a_raised_epoch_leaves_what_was_stored_before_alone(
    engine_host: EngineHost, writer: Engine, valkey: RealValkey
) -> None:
    stored_by(writer, valkey, PROMPTS[1])

    after = engine_host.start(valkey.url, epoch=1)
    after.generate(PROMPTS[1])
    of_the_old = after.cached
    after.forget()
    after.generate(PROMPTS[1])

    assert (of_the_old, after.cached) == ([0], in_whole_chunks(PROMPTS[1]))


def test_an_engine_whose_flags_change_the_model_uses_nothing_that_others_stored(
    engine_host: EngineHost, writer: Engine, valkey: RealValkey
) -> None:
    stored_by(writer, valkey, PROMPTS[1], salt="as it is")

    other = engine_host.start(valkey.url, flags={"hf_overrides": {"rms_norm_eps": 1e-3}})
    other.generate(PROMPTS[1], salt="as it is")
    of_others = other.cached
    other.forget()
    other.generate(PROMPTS[1], salt="as it is")

    assert (of_others, other.cached) == ([0], in_whole_chunks(PROMPTS[1]))


def test_encrypted_chunks_are_loaded_by_who_has_the_key_and_by_nobody_else(
    plain_engine: Engine, engine_host: EngineHost
) -> None:
    keys = [base64.b64encode(byte * 32).decode() for byte in (b"a", b"b")]
    with RealValkey() as valkey:
        stores = engine_host.start(valkey.url, key=keys[0])
        stored_by(stores, valkey, PROMPTS[2])
        same_key, other_key = (engine_host.start(valkey.url, key=key) for key in keys)

        answers = [engine.generate(PROMPTS[2]) for engine in (same_key, other_key)]

    assert answers == [plain_engine.generate(PROMPTS[2])] * 2
    assert (same_key.cached, other_key.cached) == (in_whole_chunks(PROMPTS[2]), [0])


def test_another_process_loads_from_hyperpods_daemon(
    plain_engine: Engine, engine_host: EngineHost, tmp_path: Path
) -> None:
    with NodeDaemon(tmp_path / "segment") as daemon:
        url = f"sagemaker-hyperpod://127.0.0.1:{daemon.address.port}"
        stores = engine_host.start(url, segment_path=str(daemon.segment))
        stores.generate(PROMPTS[0])
        stores.forget()
        loads = engine_host.start(url, segment_path=str(daemon.segment))

        loaded = loads.generate(PROMPTS[0])

        assert loaded == plain_engine.generate(PROMPTS[0])
        assert loads.cached == in_whole_chunks(PROMPTS[0])
        assert daemon.leases == {}
        daemon.overwrite(0xFF)
        loads.forget()
        assert loads.generate(PROMPTS[0]) == loaded
        assert loads.metric("hypertier_l2_integrity_failures_total") > 0


def test_no_request_fails_when_valkey_is_killed(plain_engine: Engine, engine_host: EngineHost) -> None:
    prompts = [f"{i} {DOCUMENT}" for i in range(4)]
    computed = [plain_engine.generate(prompt) for prompt in prompts]
    with RealValkey() as valkey:
        engine = engine_host.start(valkey.url)
        stored_by(engine, valkey, prompts[0])
        before = engine.generate(prompts[0])
        engine.forget()

        valkey.kill()
        after = [engine.generate(prompt) for prompt in prompts]

    assert [before, *after] == [computed[0], *computed]
    assert engine.metric("hypertier_l2_up") == 0
    assert engine.metric("hypertier_l2_circuit_open_total") > 0


def turn_signs(valkey: RealValkey, names: list[bytes]) -> None:
    """Turn the sign of every number of a chunk and seal it as if it had been stored so."""
    with valkey.client() as client:
        values = [client.get(name) for name in names]
        payload = bytearray(b"".join(values)[HEADER_BYTES:])
        payload[3::4] = bytes(byte ^ 0x80 for byte in payload[3::4])  # float32, little endian
        found = parse_entry_name(names[0])
        assert found is not None
        left = seal(found.namespace, found.key, memoryview(payload), len(names)) + payload
        for name, value in zip(names, values, strict=True):
            client.set(name, left[: len(value)])
            left = left[len(value) :]
