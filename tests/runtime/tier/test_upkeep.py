"""Chunks in use live on, and a tenant over its quota loses its own longest unused chunks, nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fakes_tier import FakeClock, FixedNamespace, RealCluster, RealValkey, eventually
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hypertier.errors import TierPartError, TierUnavailableError
from hypertier.tier.address import parse_l2_url
from hypertier.tier.backends.backend import Backend, Ledger
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.resp_ledger import RespLedger
from hypertier.tier.circuit import Circuit
from hypertier.tier.credentials import FixedCredentials
from hypertier.tier.entries import Entries, NamespaceSource
from hypertier.tier.metrics import Counters
from hypertier.tier.tenants import Tenants, Terms, tenant_tag
from hypertier.tier.upkeep import BATCH, LEDGER_SECONDS, MOST_NOTES, RENEWAL_SECONDS, Note, Upkeep

CHUNK = 100_000  # two stripes
STRIPE = 64 * 1024
ENTRY = CHUNK + 64
TTL = 3600
ACME, GLOBEX, FREE = (tenant_tag(name) for name in ("acme", "globex", "free"))
QUOTAS = {"acme": Terms(None, 4 * ENTRY), "globex": Terms(60, 1000 * ENTRY), "none": Terms(None, 0)}


def key(tenant: bytes, number: int) -> bytes:
    return tenant + b"%036d" % number


class Engine:
    """The upkeep of one engine. What it is told is done when `settled` returns."""

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        clock: FakeClock,
        entries: Entries | None = None,
        gather_seconds: float = 0.0,
        namespace: NamespaceSource | None = None,
    ) -> None:
        tenants = Tenants(QUOTAS)
        self.counters = Counters()
        self.errors: list[Exception | None] = []
        self.entries = entries or Entries(
            backend,
            namespace or FixedNamespace(),
            chunk_bytes=CHUNK,
            ttl_seconds=TTL,
            lookup_timeout_seconds=20,
            io_timeout_seconds=20,
            stripe_bytes=STRIPE,
            tenants=tenants,
        )
        self.upkeep = Upkeep(
            self.entries,
            tenants,
            self.counters,
            lambda what, error: self.errors.append(error),
            ledger,
            20.0,
            lambda: Circuit(clock, lambda: 0.0),
            clock,
            gather_seconds,
        )

    def store(self, *keys: bytes) -> list[bytes]:
        """Store what is admitted, and tell; returns that."""
        admitted = [each for each in keys if self.upkeep.admits(each)]
        for each in admitted:
            self.entries.store(each, memoryview(bytes(CHUNK)))
        self.upkeep.stored(admitted)
        self.settled()
        return admitted

    def use(self, *keys: bytes) -> None:
        self.upkeep.used(keys)
        self.settled()

    def settled(self) -> None:
        reached: list[bool] = []

        def mark() -> Iterator[bytes]:
            reached.append(True)
            yield from ()

        for _ in range(2):  # a mark is met before the work that came with it, the second one after
            reached.clear()
            self.upkeep._notes.put(Note(False, mark(), 0.0))
            assert eventually(lambda: bool(reached))

    def held(self, *keys: bytes) -> list[bool]:
        return self.entries.exist(keys)


class World:
    """Engines that share one L2."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.one, self.two = (Engine(self.backend, self.backend, self.clock) for _ in range(2))

    def close(self) -> None:
        for engine in (self.one, self.two):
            engine.upkeep.close(20)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_what_the_gpu_or_l1_holds_lives_on_in_l2(world: World) -> None:
    world.one.store(key(FREE, 0))

    for _ in range(5):
        world.clock.advance(TTL * 0.6)
        world.one.use(key(FREE, 0))

    assert world.one.held(key(FREE, 0)) == [True]


def test_what_nobody_uses_expires(world: World) -> None:
    world.one.store(key(FREE, 0))

    world.clock.advance(TTL + 1)

    assert world.one.held(key(FREE, 0)) == [False]


def test_a_life_is_renewed_at_most_twice_in_it(world: World) -> None:
    world.one.store(key(FREE, 0))
    calls = world.backend.num_calls

    for _ in range(100):
        world.clock.advance(TTL / 100)
        world.one.use(key(FREE, 0))

    assert world.backend.num_calls - calls == 2
    assert world.one.counters.total("chunks_renewed") == 2


def test_an_engine_that_did_not_store_a_chunk_renews_it_at_its_first_use(world: World) -> None:
    world.one.store(key(FREE, 0))
    world.clock.advance(TTL * 0.9)

    world.two.use(key(FREE, 0))
    world.clock.advance(TTL * 0.9)

    assert world.one.held(key(FREE, 0)) == [True]


def test_many_chunks_are_renewed_in_few_requests(world: World) -> None:
    calls = world.backend.num_calls

    world.one.use(*(key(FREE, i) for i in range(3 * BATCH)))

    assert world.backend.num_calls - calls == 3


def test_what_comes_in_a_while_is_done_in_one_go_and_the_end_waits_for_none_of_it(world: World) -> None:
    slow = Engine(world.backend, world.backend, world.clock, gather_seconds=1_000.0)
    calls = world.backend.num_calls

    for number in range(5):
        slow.upkeep.used([key(FREE, number)])
    slow.upkeep._over.set()  # as if the while were over

    assert eventually(lambda: slow.upkeep._notes.empty() and world.backend.num_calls > calls)
    slow.upkeep.close(20)
    assert world.backend.num_calls - calls == 1
    assert not slow.upkeep._thread.is_alive()


def test_what_an_engine_writes_down_late_counts_from_when_it_was_stored(world: World) -> None:
    slow = Engine(world.backend, world.backend, world.clock, gather_seconds=1_000.0)
    slow.upkeep.stored([key(ACME, number) for number in range(4)])
    world.clock.advance(1)
    world.one.store(*(key(ACME, number) for number in range(4, 8)))
    world.clock.advance(1)

    slow.upkeep._over.set()  # as if the while were over

    assert eventually(lambda: slow.counters.total("quota_removals") == 4)
    assert world.one.held(*(key(ACME, number) for number in range(4, 8))) == [True] * 4
    slow.upkeep.close(20)


def test_a_tenants_time_to_live_is_its_own(world: World) -> None:
    world.one.store(key(GLOBEX, 0), key(FREE, 0))

    world.clock.advance(61)

    assert world.one.held(key(GLOBEX, 0), key(FREE, 0)) == [False, True]


def test_over_its_quota_a_tenant_loses_its_own_longest_unused_chunks(world: World) -> None:
    for i in range(6):
        world.one.store(key(ACME, i), key(FREE, i))
        world.clock.advance(1)

    assert world.one.held(*(key(ACME, i) for i in range(6))) == [False] * 2 + [True] * 4
    assert world.one.held(*(key(FREE, i) for i in range(6))) == [True] * 6
    assert world.one.counters.total("quota_removals") == 2
    assert world.one.upkeep.take_gone() == [key(ACME, 0), key(ACME, 1)]
    assert world.one.upkeep.take_gone() == []


def test_a_chunk_in_use_is_not_the_longest_unused(world: World) -> None:
    for i in range(4):
        world.one.store(key(ACME, i))
        world.clock.advance(1)
    world.clock.advance(LEDGER_SECONDS)

    world.two.use(key(ACME, 0))
    world.clock.advance(1)
    world.one.store(key(ACME, 4))

    assert world.one.held(*(key(ACME, i) for i in range(5))) == [True, False, True, True, True]


def test_of_a_prefix_the_end_goes_first(world: World) -> None:
    world.one.use()
    for engine in (world.one, world.two):
        engine.store(*(key(ACME, i) for i in range(4)))  # one at a time, by the bound on what is under way

    chunks = [key(ACME, i) for i in range(4)]
    for each in chunks:
        world.one.store(each)
    world.clock.advance(LEDGER_SECONDS)
    world.one.use(*chunks)
    world.clock.advance(1)
    world.one.store(key(ACME, 9))

    assert world.one.held(*chunks) == [True, True, True, False]


def test_the_quota_is_one_for_all_engines(world: World) -> None:
    for i in range(12):
        (world.one, world.two)[i % 2].store(key(ACME, i))
        world.clock.advance(1)

    assert sum(world.one.held(*(key(ACME, i) for i in range(12)))) == 4


def test_a_quota_of_nothing_stores_nothing(world: World) -> None:
    assert world.one.store(key(tenant_tag("none"), 0)) == []


def test_a_ledger_names_no_other_tenants_chunks(world: World) -> None:
    """Whoever can write L2 may write a ledger; it can cost a tenant its own chunks at most."""
    world.one.store(key(FREE, 0))
    name = world.one.entries.ledger_name(ACME)
    world.backend.note(name, {key(FREE, 0): 0.0, key(FREE, 0)[8:]: 0.0}, -1.0, TTL, 20)

    for i in range(6):
        world.one.store(key(ACME, i))
        world.clock.advance(1)

    assert world.one.held(key(FREE, 0)) == [True]


def test_chunks_that_expired_leave_the_ledger(world: World) -> None:
    world.one.store(key(ACME, 0))
    world.clock.advance(TTL + 1)

    world.one.store(key(ACME, 1))

    assert list(world.backend.ledgers[world.one.entries.ledger_name(ACME)]) == [key(ACME, 1)[8:]]


def test_a_tenant_without_a_quota_has_no_ledger(world: World) -> None:
    world.one.store(key(FREE, 0))

    assert world.backend.ledgers == {}


def test_while_the_ledger_cannot_be_reached_a_tenant_soon_stores_nothing(world: World) -> None:
    num_stored = 0
    for i in range(200):
        if world.one.upkeep.admits(key(GLOBEX, i)):
            world.backend.error = TierUnavailableError("no ledger")
            world.one.upkeep.stored([key(GLOBEX, i)])
            num_stored += 1

    assert num_stored == max(1000 // 32, 64)
    assert world.one.upkeep.admits(key(FREE, 0))


def test_while_l2_is_left_alone_uses_wake_no_thread_until_it_is_time_to_try(world: World) -> None:
    world.one.store(key(FREE, 0))
    world.clock.advance(TTL * 0.6)
    world.backend.error = TierUnavailableError("away")
    world.one.use(key(FREE, 0))
    asked: list[str] = []

    def noted(name: str) -> Iterator[bytes]:
        asked.append(name)
        yield key(FREE, 0)

    world.one.upkeep.used(noted("while left alone"))
    world.one.settled()
    world.backend.error = None
    world.clock.advance(60)
    world.one.upkeep.used(noted("when it may be back"))
    world.one.settled()

    assert asked == ["when it may be back"]
    assert world.one.counters.total("chunks_renewed") == 1


def test_behind_an_l2_that_is_slow_notes_do_not_gather_without_end_and_quotas_are_still_kept(
    world: World,
) -> None:
    world.one.store(key(FREE, 0))
    world.clock.advance(TTL * 0.6)
    world.backend.gate.clear()
    before = world.backend.num_calls
    world.one.upkeep.used([key(FREE, 0)])
    assert eventually(lambda: world.backend.num_calls == before + 1)

    for number in range(3 * MOST_NOTES):
        world.one.upkeep.used([key(FREE, number)])
        world.one.upkeep.stored([key(FREE, number)])
    waiting = world.one.upkeep._notes.qsize()
    assert world.one.upkeep.admits(key(GLOBEX, 0))
    world.one.upkeep.stored([key(GLOBEX, 0)])
    world.backend.gate.set()
    world.one.settled()

    assert waiting == MOST_NOTES
    assert eventually(lambda: len(world.backend.ledgers.get(world.one.entries.ledger_name(GLOBEX), {})) == 1)


def test_what_was_stored_meanwhile_is_written_down_when_the_ledger_is_back(world: World) -> None:
    world.backend.error = TierUnavailableError("no ledger")
    assert world.one.upkeep.admits(key(GLOBEX, 0))
    world.one.upkeep.stored([key(GLOBEX, 0)])
    world.one.settled()

    world.backend.error = None
    world.clock.advance(60)
    world.one.settled()

    assert eventually(lambda: len(world.backend.ledgers.get(world.one.entries.ledger_name(GLOBEX), {})) == 1)
    assert len(world.one.errors) == 2  # once when it failed, once when it was back


def test_a_store_that_failed_gives_its_room_back(world: World) -> None:
    for i in range(50):
        assert world.one.upkeep.admits(key(ACME, i))
        world.one.upkeep.abandoned([key(ACME, i)])


class HalfLostLedger(MemoryBackend):
    """A cluster's: the server of one tenant's ledger is away."""

    lost: bytes | None = None

    def note(self, name: bytes, *args: Any) -> int:
        if name == self.lost:
            raise TierPartError("no answer of one server")
        return super().note(name, *args)


def test_a_tenant_whose_ledger_is_away_holds_up_no_other(world: World) -> None:
    ledger = HalfLostLedger(world.clock)
    engine = Engine(world.backend, ledger, world.clock)
    ledger.lost = engine.entries.ledger_name(ACME)

    engine.store(key(ACME, 0))
    engine.store(key(GLOBEX, 0))

    name = engine.entries.ledger_name(GLOBEX)
    assert eventually(lambda: list(ledger.ledgers.get(name, {})) == [key(GLOBEX, 0)[8:]])
    engine.upkeep.close(20)


class LateNamespace(FixedNamespace):
    """Not known before vLLM has seeded its hashes."""

    is_known = False

    def digest(self) -> bytes:
        if not self.is_known:
            raise TierUnavailableError("not seeded yet")
        return super().digest()


def torn() -> Iterator[bytes]:
    yield key(FREE, 1)
    raise ZeroDivisionError


def test_nothing_that_it_is_told_ends_it(world: World) -> None:
    namespace = LateNamespace()
    engine = Engine(world.backend, world.backend, world.clock, namespace=namespace)
    assert engine.upkeep.admits(key(GLOBEX, 0))

    engine.upkeep.used(torn())
    engine.upkeep.stored([key(GLOBEX, 0)])
    engine.settled()
    namespace.is_known = True
    world.clock.advance(60)

    name = engine.entries.ledger_name(GLOBEX)
    assert eventually(lambda: list(world.backend.ledgers.get(name, {})) == [key(GLOBEX, 0)[8:]])
    assert engine.counters.total("upkeep_errors") >= 2
    engine.upkeep.close(20)


def test_nothing_is_kept_of_a_tenant_that_has_nothing_under_way(world: World) -> None:
    world.one.store(key(ACME, 0), key(GLOBEX, 0))
    assert world.one.upkeep.admits(key(ACME, 1))
    world.one.upkeep.abandoned([key(ACME, 1)])

    assert eventually(lambda: not world.one.upkeep._unaccounted)
    assert not world.one.upkeep._owed
    assert not world.one.upkeep._owed_stores


def test_a_long_life_is_renewed_before_a_full_store_takes_the_chunk_for_unused(world: World) -> None:
    forever = Entries(
        world.backend,
        FixedNamespace(),
        chunk_bytes=CHUNK,
        ttl_seconds=10**6,
        lookup_timeout_seconds=20,
        io_timeout_seconds=20,
    )
    engine = Engine(world.backend, world.backend, world.clock, forever)
    engine.store(key(FREE, 0))

    for _ in range(4):
        world.clock.advance(RENEWAL_SECONDS / 2)
        engine.use(key(FREE, 0))
    engine.upkeep.close(20)

    assert engine.counters.total("chunks_renewed") == 2


@pytest.fixture(params=["valkey", "cluster"], scope="module")
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with RealValkey() if request.param == "valkey" else RealCluster() as server:
        yield server.url


def test_quotas_and_lives_hold_in_a_real_store(url: str) -> None:
    clock = FakeClock()
    backend = RespBackend(parse_l2_url(url), FixedCredentials())
    engines = [Engine(backend, RespLedger(backend), clock) for _ in range(2)]

    for i in range(12):
        engines[i % 2].store(key(ACME, i), key(FREE, i))
        clock.advance(1)
    engines[0].entries.store(key(FREE, 99), memoryview(bytes(CHUNK)))
    clock.advance(TTL)
    engines[0].use(key(FREE, 99), key(FREE, 100))
    held = engines[0].held(*(key(ACME, i) for i in range(12)))
    free = engines[0].held(*(key(FREE, i) for i in range(12)))
    for engine in engines:
        engine.upkeep.close(20)
    backend.close()

    assert held == [False] * 8 + [True] * 4
    assert free == [True] * 12
    assert engines[0].counters.total("chunks_renewed") == 1
    assert [engine.errors for engine in engines] == [[], []]


class Quotas(RuleBasedStateMachine):
    """Two engines, two tenants with a quota and one without, any order of stores and uses."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.stored: set[bytes] = set()

    @rule(tenant=st.sampled_from([ACME, FREE]), number=st.integers(0, 20), engine=st.booleans())
    def store(self, tenant: bytes, number: int, engine: bool) -> None:
        self.world.clock.advance(1)
        self.stored |= set((self.world.one if engine else self.world.two).store(key(tenant, number)))

    @rule(tenant=st.sampled_from([ACME, FREE]), numbers=st.lists(st.integers(0, 20)), engine=st.booleans())
    def use(self, tenant: bytes, numbers: list[int], engine: bool) -> None:
        self.world.clock.advance(1)
        (self.world.one if engine else self.world.two).use(*(key(tenant, number) for number in numbers))

    @invariant()
    def no_tenant_is_over_its_quota(self) -> None:
        keys = [key(ACME, i) for i in range(21)]
        assert sum(self.world.one.held(*keys)) <= 4

    @invariant()
    def nobody_else_lost_a_chunk(self) -> None:
        kept = sorted(each for each in self.stored if each.startswith(FREE))
        assert all(self.world.one.held(*kept))

    def teardown(self) -> None:
        self.world.close()


TestQuotas = Quotas.TestCase
TestQuotas.settings = settings(deadline=None, max_examples=10, stateful_step_count=10)
