"""Tenants, lives and events of L2, as a real vLLM brings them about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq
from fakes_kv_publisher import two_free_ports
from fakes_tier import RealValkey, eventually
from fakes_tier_engine import Engine, EngineHost

from hypertier.router.kv.kv_events import Removed, Stored, decode
from hypertier.router.kv.kv_index import KvIndex
from hypertier.tier.names import parse_entry_name
from hypertier.tier.tenants import tenant_tag

pytestmark = pytest.mark.engine

CHUNK_TOKENS = 64
ENTRY_BYTES = 256 * 1024 + 64
DOCUMENT = "Whose blocks these are is written in their names, and nowhere else at all. " * 11
NUM_CHUNKS = (len(DOCUMENT) + 3) // CHUNK_TOKENS
QUOTA_CHUNKS = NUM_CHUNKS + 4
TERMS = {"acme": {"quota_bytes": QUOTA_CHUNKS * ENTRY_BYTES}, "globex": {"ttl_seconds": 500}}
ACME = f"{tenant_tag('acme').hex()}.a-secret"  # as the router writes it


@pytest.fixture(scope="module")
def valkey() -> Iterator[RealValkey]:
    with RealValkey() as server:
        yield server


@pytest.fixture(scope="module")
def engines(engine_host: EngineHost, valkey: RealValkey) -> list[Engine]:
    return [engine_host.start(valkey.url, tenants=TERMS) for _ in range(2)]


def chunks_of(valkey: RealValkey, tenant: str) -> int:
    keys = valkey.keys()
    names = [parse_entry_name(name) for name in keys]
    return sum(name.tenant == tenant_tag(tenant) and name.stripe == 0 for name in names if name)


def test_a_tenant_keeps_its_quota_whichever_engine_stores_and_others_keep_all(
    engines: list[Engine], valkey: RealValkey
) -> None:
    for engine in engines:
        engine.generate(f"00 {DOCUMENT}", salt="other")
        engine.forget()
    others = chunks_of(valkey, "other")

    for number in range(4):
        engine = engines[number % 2]
        engine.generate(f"{number:02} {DOCUMENT}", salt=ACME)
        engine.forget()
        # Stores are refused while as much as the quota is on its way into the ledger.
        assert eventually(lambda: chunks_of(valkey, "acme") <= QUOTA_CHUNKS)

    assert chunks_of(valkey, "acme") == QUOTA_CHUNKS
    assert chunks_of(valkey, "other") == others == NUM_CHUNKS
    assert sum(engine.metric("hypertier_l2_quota_removals_total") for engine in engines) > 0
    engines[0].generate(f"03 {DOCUMENT}", salt=ACME)
    assert engines[0].cached == [NUM_CHUNKS * CHUNK_TOKENS]


def test_a_tenants_chunks_live_as_long_as_its_terms_say(engines: list[Engine], valkey: RealValkey) -> None:
    engines[0].generate(f"10 {DOCUMENT}", salt="globex")
    engines[0].generate(f"10 {DOCUMENT}")
    engines[0].forget()

    lives: dict[bytes, set[bool]] = {}
    keys = valkey.keys()
    for name in keys:
        found = parse_entry_name(name)
        assert found is not None
        lives.setdefault(found.tenant, set()).add(int(valkey.ask(b"TTL " + name)[1:]) <= 500)

    assert lives[tenant_tag("globex")] == {True}
    assert lives[tenant_tag("-")] == {False}


def test_a_prefix_that_never_leaves_the_gpu_does_not_expire_from_l2(
    engine_host: EngineHost, valkey: RealValkey
) -> None:
    engine = engine_host.start(valkey.url, ttl_seconds=6, namespace="short lives")
    prompt = f"20 {DOCUMENT}"
    engine.generate(prompt)
    engine.forget("gpu")
    keys = valkey.keys()
    stored = {name for name in keys if 0 < int(valkey.ask(b"TTL " + name)[1:]) <= 6}

    def has_outlived() -> bool:
        engine.generate(prompt)
        return engine.metric("hypertier_l2_chunks_renewed_total") >= 3 * NUM_CHUNKS

    assert eventually(has_outlived, 120)
    assert len(stored) >= NUM_CHUNKS
    assert stored <= set(valkey.keys())
    assert engine.metric("vllm:prompt_tokens_cached_by_source_total", source="disk") == 0


def test_what_is_stored_in_l2_is_announced_beside_gpu_and_l1(
    engine_host: EngineHost, valkey: RealValkey
) -> None:
    port = two_free_ports()
    with zmq.Context() as context, context.socket(zmq.SUB) as subscription:
        subscription.connect(f"tcp://127.0.0.1:{port}")
        subscription.subscribe(b"")
        engine = engine_host.start(valkey.url, events_port=port, enable_kv_events=True, namespace="announced")
        heard: list[Stored] = []
        gone: list[Removed] = []

        def announced(count: int) -> bool:
            engine.generate(f"30 {DOCUMENT}", num_tokens=2)
            while subscription.poll(200):
                _, events = decode(subscription.recv_multipart()[2])
                heard.extend(event for event in events if isinstance(event, Stored))
                gone.extend(event for event in events if isinstance(event, Removed))
            return sum(len(event.block_hashes) for event in heard if event.medium == "STORAGE") >= count

        assert eventually(lambda: announced(2 * NUM_CHUNKS), 60)
        engine.forget()
        valkey.ask(b"FLUSHALL")
        engine.generate(f"30 {DOCUMENT}", num_tokens=2)
        removed = eventually(lambda: announced(0) and any(event.medium == "STORAGE" for event in gone), 60)

    by_medium = {event.medium: event for event in heard}
    assert set(by_medium) == {"GPU", "CPU", "STORAGE"}
    assert removed
    assert not by_medium["STORAGE"].is_local
    assert {block for event in heard if event.medium == "STORAGE" for block in event.block_hashes} <= {
        block for event in heard if event.medium == "GPU" for block in event.block_hashes
    }
    index = KvIndex(10**6)
    for event in heard:
        if event.medium == "STORAGE":
            index.apply(0, event)
    assert index.num_bytes == 0  # reached by every replica, and so no replica's own
