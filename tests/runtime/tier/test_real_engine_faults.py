"""Whatever happens to L2 or to an engine: every answer is the one that no cache would give."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from fakes_tier import RealCluster, RealValkey, Relay, eventually
from fakes_tier_engine import Engine, EngineHost, stored_by

from hypertier.tier.backends.slots import key_slot
from hypertier.tier.entry import HEADER_BYTES, seal
from hypertier.tier.names import parse_entry_name
from hypertier.tier.preflight import Host, sweep_regions

pytestmark = pytest.mark.engine

CHUNK_TOKENS = 64
DOCUMENT = "Whatever can fail will fail, at the moment when it is looked at least of all. " * 9
STORED = "stored before: " + DOCUMENT
NUM_CHUNKS = len(STORED) // CHUNK_TOKENS
DISK = {"name": "vllm:prompt_tokens_cached_by_source_total", "source": "disk"}


class World:
    """An engine, and between it and Valkey a relay that stays when Valkey goes."""

    def __init__(self, host: EngineHost) -> None:
        self.valkeys = [RealValkey()]
        self.relay = Relay(self.valkeys[0].port)
        self.engine = host.start(
            self.relay.url, lookup_deadline_ms=500, io_timeout_ms=1_000, stripe_bytes=512 * 1024
        )

    @property
    def valkey(self) -> RealValkey:
        return self.valkeys[-1]

    def hits_l2(self) -> bool:
        """Whether the engine stores a prompt in L2 and finds it there."""
        before = self.engine.metric(**DISK)
        for _ in range(2):
            self.engine.generate(STORED)
            self.engine.forget()
        return self.engine.metric(**DISK) - before >= NUM_CHUNKS * CHUNK_TOKENS

    def close(self) -> None:
        self.engine.close()
        self.relay.close()
        for valkey in self.valkeys:
            valkey.close()


@pytest.fixture(scope="module")
def world(engine_host: EngineHost) -> Iterator[World]:
    made = World(engine_host)
    yield made
    made.close()


@contextlib.contextmanager
def killed_and_restarted_empty(world: World) -> Iterator[None]:
    world.valkey.kill()
    yield
    world.valkeys.append(RealValkey())
    world.relay.target = world.valkey.port


@contextlib.contextmanager
def frozen(world: World) -> Iterator[None]:
    world.valkey.freeze()
    yield
    world.valkey.thaw()


@contextlib.contextmanager
def slow(world: World) -> Iterator[None]:
    world.relay.delay_seconds = 0.1
    yield
    world.relay.delay_seconds = 0.0


@contextlib.contextmanager
def keeping_values(world: World) -> Iterator[None]:
    world.relay.keeps_values = True
    yield
    world.relay.keeps_values = False


@contextlib.contextmanager
def refusing(world: World) -> Iterator[None]:
    world.relay.refuses = True
    world.relay.cut()
    yield
    world.relay.refuses = False


@contextlib.contextmanager
def talking_nonsense(world: World) -> Iterator[None]:
    world.relay.nonsense = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    yield
    world.relay.nonsense = b""


def configured(*fault: bytes, usually: bytes) -> Callable[[World], AbstractContextManager[None]]:
    """A fault of Valkey's own making; connections are cut, so that it shows."""

    @contextlib.contextmanager
    def fault_of(world: World) -> Iterator[None]:
        for command in fault:
            world.valkey.ask(command)
        world.relay.cut()
        yield
        world.valkey.ask(usually)

    return fault_of


full = configured(b"CONFIG SET maxmemory-policy noeviction maxmemory 1", usually=b"CONFIG SET maxmemory 0")
evicting = configured(
    b"CONFIG SET maxmemory-policy allkeys-lru maxmemory 3mb", usually=b"CONFIG SET maxmemory 0"
)
read_only = configured(b"REPLICAOF 127.0.0.1 1", usually=b"REPLICAOF NO ONE")


@contextlib.contextmanager
def asking_for_a_password(world: World) -> Iterator[None]:
    world.valkey.ask(b"CONFIG SET requirepass sesame")
    world.relay.cut()
    yield
    with world.valkey.client(password="sesame") as client:
        client.config_set("requirepass", "")


@pytest.mark.parametrize(
    "fault",
    [
        killed_and_restarted_empty,
        frozen,
        slow,
        keeping_values,
        refusing,
        talking_nonsense,
        full,
        evicting,
        read_only,
        asking_for_a_password,
    ],
    ids=[
        "killed",
        "frozen",
        "slow",
        "keeping values",
        "refusing",
        "nonsense",
        "full",
        "evicting",
        "read only",
        "password",
    ],
)
def test_answers_stay_right_while_l2_fails_and_l2_is_found_again(
    plain_engine: Engine,
    world: World,
    fault: Callable[[World], AbstractContextManager[None]],
    request: pytest.FixtureRequest,
) -> None:
    prompts = [STORED, *(f"{request.node.name} {i}: {DOCUMENT}" for i in range(3)), STORED]
    right = [plain_engine.generate(prompt) for prompt in prompts]
    assert eventually(world.hits_l2, 60)

    with fault(world):
        answers = []
        for prompt in prompts:
            answers.append(world.engine.generate(prompt))
            world.engine.forget()

    assert answers == right
    assert eventually(world.hits_l2, 60)


def test_answers_stay_right_when_the_process_that_moves_chunks_is_killed(
    plain_engine: Engine, world: World
) -> None:
    prompts = [STORED, f"after the mover: {DOCUMENT}"]
    right = [plain_engine.generate(prompt) for prompt in prompts]
    assert eventually(world.hits_l2, 60)
    movers = world.engine.children("hypertier.tier.mover_main")

    for pid in movers:
        os.kill(pid, signal.SIGKILL)
    answers = []
    for prompt in prompts:
        answers.append(world.engine.generate(prompt))
        world.engine.forget()

    assert len(movers) == 1
    assert answers == right
    assert eventually(world.hits_l2, 60)
    assert world.engine.metric("hypertier_l2_mover_losses_total") >= 1


Spoil = Callable[[dict[bytes, bytes], list[list[bytes]]], None]


def flip_first(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        values[names[0]] = flipped(values[names[0]], HEADER_BYTES + 5)


def flip_last(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        values[names[-1]] = flipped(values[names[-1]], -1)


def flip_header(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        values[names[0]] = flipped(values[names[0]], 20)


def cut_off(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        values[names[-1]] = values[names[-1]][:-4]


def lengthen(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        values[names[0]] += b"more"


def exchange(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    first = [values[names[0]] for names in chunks]
    for names, value in zip(chunks, [*first[1:], first[0]], strict=True):
        values[names[0]] = value


def exchange_tails(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    last = [values[names[-1]] for names in chunks]
    for names, value in zip(chunks, [*last[1:], last[0]], strict=True):
        values[names[-1]] = value


def seal_for_another_model(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        payload = b"".join(values[name] for name in names)[HEADER_BYTES:]
        found = parse_entry_name(names[0])
        assert found is not None
        header = seal(b"another revision", found.key, memoryview(payload), len(names))
        values[names[0]] = header + values[names[0]][HEADER_BYTES:]


def seal_for_another_layout(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        payload = b"".join(values[name] for name in names)[HEADER_BYTES:]
        found = parse_entry_name(names[0])
        assert found is not None
        header = seal(found.namespace, found.key, memoryview(payload), len(names) + 1)
        values[names[0]] = header + values[names[0]][HEADER_BYTES:]


def put_something_else(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        values[names[0]] = b"\0" * len(values[names[0]])


def half_evict(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        del values[names[-1]]


def half_write(values: dict[bytes, bytes], chunks: list[list[bytes]]) -> None:
    for names in chunks:
        del values[names[0]]


def flipped(value: bytes, at: int) -> bytes:
    changed = bytearray(value)
    changed[at] ^= 0x10
    return bytes(changed)


@pytest.fixture(scope="module")
def valkey() -> Iterator[RealValkey]:
    with RealValkey() as server:
        yield server


@pytest.fixture(scope="module")
def engine(engine_host: EngineHost, valkey: RealValkey) -> Engine:
    return engine_host.start(valkey.url)


@pytest.mark.parametrize(
    ("spoil", "counter"),
    [
        (flip_first, "integrity_failures"),
        (flip_last, "integrity_failures"),
        (flip_header, "integrity_failures"),
        (cut_off, "integrity_failures"),
        (lengthen, "integrity_failures"),
        (exchange, "integrity_failures"),
        (exchange_tails, "integrity_failures"),
        (seal_for_another_model, "integrity_failures"),
        (seal_for_another_layout, "integrity_failures"),
        (put_something_else, "integrity_failures"),
        (half_evict, "loads_absent"),
        (half_write, "loads_absent"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_chunk_that_lies_is_a_miss_and_the_good_prefix_before_it_is_used(
    plain_engine: Engine, engine: Engine, valkey: RealValkey, spoil: Spoil, counter: str
) -> None:
    salt = spoil.__name__
    right = plain_engine.generate(STORED)
    good = stored_by(engine, valkey, STORED[: 5 * CHUNK_TOKENS], salt)
    bad = stored_by(engine, valkey, STORED, salt)
    whole = replace(valkey, bad, spoil)
    counted = engine.metric(f"hypertier_l2_{counter}_total")

    answer = engine.generate(STORED, salt=salt)
    cached = engine.cached
    engine.forget()

    assert answer == right
    assert cached == [len(good) * CHUNK_TOKENS]
    assert engine.metric(f"hypertier_l2_{counter}_total") > counted
    assert read(valkey, bad) == whole  # what was computed again was stored again


def replace(valkey: RealValkey, chunks: dict[bytes, list[bytes]], spoil: Spoil) -> dict[bytes, bytes]:
    """Spoil the stored values of chunks; returns what they were."""
    whole = read(valkey, chunks)
    spoiled = dict(whole)
    spoil(spoiled, list(chunks.values()))
    with valkey.client() as client:
        for name in whole:
            if name in spoiled:
                client.set(name, spoiled[name])
            else:
                client.delete(name)
    return whole


def read(valkey: RealValkey, chunks: dict[bytes, list[bytes]]) -> dict[bytes, bytes]:
    with valkey.client() as client:
        return {name: client.get(name) for names in chunks.values() for name in names}


def test_a_cluster_resharded_under_load_goes_on_serving(
    plain_engine: Engine, engine_host: EngineHost
) -> None:
    prompts = [STORED, *(f"{i} while slots move: {DOCUMENT}" for i in range(6))]
    right = [plain_engine.generate(prompt) for prompt in prompts]
    with RealCluster() as cluster:
        engine = engine_host.start(cluster.url)
        engine.generate(STORED)
        engine.forget()
        names = cluster.nodes[0].keys()

        def reshard() -> None:
            for name in names:
                cluster.move(key_slot(name), 0, 1)

        mover = threading.Thread(target=reshard)
        mover.start()
        answers = []
        for prompt in prompts:
            answers.append(engine.generate(prompt))
            engine.forget()
        mover.join()
        again = engine.generate(STORED)

    assert names
    assert answers == right
    assert again == right[0]
    assert engine.cached == [NUM_CHUNKS * CHUNK_TOKENS]
    assert engine.metric("hypertier_l2_integrity_failures_total") == 0


def test_an_engine_killed_while_it_stores_leaves_nothing_wrong_behind(
    plain_engine: Engine, engine_host: EngineHost
) -> None:
    prompts = [f"{i} before the kill: {DOCUMENT}" for i in range(3)]
    right = plain_engine.generate(*prompts)
    with RealValkey() as valkey:
        killed = engine_host.start(valkey.url, lookup_deadline_ms=500, io_timeout_ms=2_000)
        killed.generate(prompts[0])
        killed.forget()
        valkey.freeze()
        killed.generate(*prompts)

        killed.kill()
        assert eventually(lambda: not is_running(killed.pid))
        valkey.thaw()
        assert eventually(lambda: sweep_regions(Host())[0] >= 1)  # once its mover, too, has seen its end
        restarted = engine_host.start(valkey.url)
        answers = restarted.generate(*prompts)

    assert answers == right
    assert restarted.cached[0] == len(prompts[0]) // CHUNK_TOKENS * CHUNK_TOKENS
    assert restarted.metric("hypertier_l2_integrity_failures_total") == 0


def test_an_l2_slower_than_computing_is_left_alone_until_it_is_fast(
    plain_engine: Engine, engine_host: EngineHost
) -> None:
    right = plain_engine.generate(STORED)
    with RealValkey() as valkey, contextlib.closing(Relay(valkey.port)) as relay:
        engine = engine_host.start(relay.url, gate="auto", stripe_bytes=512 * 1024)
        stored_by(engine, valkey, STORED)

        def cached_tokens() -> int:
            assert engine.generate(STORED) == right
            engine.forget()
            return engine.cached[0]

        def is_left_alone() -> bool:
            cached_tokens()
            return engine.metric("hypertier_l2_gate_open") == 0

        assert eventually(
            lambda: cached_tokens() > 0, 60
        )  # whatever the gate of a busy machine thought so far
        relay.delay_seconds = 1.0
        assert eventually(
            is_left_alone, 60
        )  # what L2 has saved before allows it a few loads that are broken off
        given_up = engine.metric("hypertier_l2_loads_given_up_total")
        while_slow = [cached_tokens() for _ in range(2)]
        given_up_later = engine.metric("hypertier_l2_loads_given_up_total")
        relay.delay_seconds = 0.0

        assert while_slow == [0, 0]
        assert given_up_later == given_up
        assert engine.metric("hypertier_l2_lookups_gated_total") > 0
        assert eventually(lambda: cached_tokens() > 0, 60)


def is_running(pid: int) -> bool:
    try:
        return (Host().proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_sixteen_requests_at_once_with_preemption_store_and_load(
    plain_engine: Engine, engine_host: EngineHost
) -> None:
    prompts = [f"{i} of sixteen: {DOCUMENT}"[:700] for i in range(16)]  # 22 blocks each
    right = plain_engine.generate(*prompts, num_tokens=64)
    with RealValkey() as valkey:
        writer = engine_host.start(valkey.url, kv_cache_bytes=17 * 2**20)  # 135 blocks
        stored = writer.generate(*prompts, num_tokens=64)
        writer.forget()
        reader = engine_host.start(valkey.url, kv_cache_bytes=17 * 2**20)
        loaded = reader.generate(*prompts, num_tokens=64)

    assert stored == right
    assert loaded == right
    assert writer.metric("vllm:num_preemptions_total") > 0
    assert reader.metric(**DISK) > 0
    assert reader.metric("hypertier_l2_integrity_failures_total") == 0
