"""Any order of calls, of faults, and of what others do to L2, on every backend, against a dict."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar, Protocol

import pytest
from fakes_tier import FakeClock, RealCluster, RealValkey
from fakes_tier_daemon import NodeDaemon
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hypertier.tier.address import parse_l2_url
from hypertier.tier.backends.backend import Backend
from hypertier.tier.backends.daemon import value_path
from hypertier.tier.backends.hyperpod import LEASE_SECONDS, HyperPodBackend
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.slots import key_slot
from hypertier.tier.credentials import FixedCredentials

SECONDS, TTL = 20.0, 3600
KEYS = [b"machine:%d" % number for number in range(6)]


class Store(Protocol):
    """What a backend stands on, as others see it."""

    keeps_first: bool  # a value that is there is never replaced, and its life is not ours to renew

    def connect(self) -> Backend:
        """An empty store's new client."""
        ...

    def cut(self) -> None:
        """Break off every connection."""
        ...

    def lose(self) -> None:
        """Forget all values, as by a restart."""
        ...

    def evict(self, key: bytes) -> None:
        """Forget one value."""
        ...

    def move(self, key: bytes) -> None:
        """Have another server serve a key, where there are several."""
        ...

    def check(self) -> None:
        """What must hold once the client is gone."""
        ...

    def close(self) -> None:
        """End."""
        ...


class Memory:
    keeps_first = False

    def connect(self) -> Backend:
        self._backend = MemoryBackend()
        return self._backend

    def cut(self) -> None:
        """There is none."""

    def lose(self) -> None:
        self._backend.values.clear()

    def evict(self, key: bytes) -> None:
        self._backend.values.pop(key, None)

    def move(self, key: bytes) -> None:
        """There is one."""

    def check(self) -> None:
        """Nothing is left behind."""

    def close(self) -> None:
        """Nothing to end."""


class Resp:
    keeps_first = False

    def __init__(self) -> None:
        self._servers: RealValkey | RealCluster = self.start()

    def start(self) -> RealValkey | RealCluster:
        return RealValkey()

    @property
    def nodes(self) -> list[RealValkey]:
        return [self._servers] if isinstance(self._servers, RealValkey) else self._servers.nodes

    def connect(self) -> Backend:
        self.lose()
        return RespBackend(parse_l2_url(self._servers.url), FixedCredentials())

    def cut(self) -> None:
        for node in self.nodes:
            node.ask(b"CLIENT KILL TYPE normal SKIPME yes")

    def lose(self) -> None:
        for node in self.nodes:
            node.ask(b"FLUSHALL")

    def evict(self, key: bytes) -> None:
        for node in self.nodes:
            node.ask(b"DEL " + key)  # whose it is not, redirects

    def move(self, key: bytes) -> None:
        """There is one."""

    def check(self) -> None:
        for node in self.nodes:
            node.ask(b"PING")

    def close(self) -> None:
        self._servers.close()


class Cluster(Resp):
    def start(self) -> RealCluster:
        self._owners: dict[int, int] = {}
        return RealCluster()

    def move(self, key: bytes) -> None:
        assert isinstance(self._servers, RealCluster)
        slot = key_slot(key)
        source = self._owners.get(slot, next(i for i in (2, 1, 0) if slot >= 16_384 * i // 3))
        self._owners[slot] = (source + 1) % 3
        self._servers.move(slot, source, self._owners[slot])


class Daemon:
    keeps_first = True

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._clock = FakeClock()
        self._node = NodeDaemon(Path(self._directory.name) / "segment")

    def connect(self) -> Backend:
        self._node.clear()
        return HyperPodBackend(self._node.address, str(self._node.segment), self._clock)

    def cut(self) -> None:
        self._node.cut()

    def lose(self) -> None:
        self._node.make_segment()

    def evict(self, key: bytes) -> None:
        self._clock.advance(LEASE_SECONDS)  # before, leases pin it
        self._node.evict(value_path(key))

    def move(self, key: bytes) -> None:
        """There is one."""

    def check(self) -> None:
        assert self._node.leases == {}  # each was given back

    def close(self) -> None:
        self._node.__exit__(None, None, None)
        self._directory.cleanup()


keys = st.sampled_from(KEYS)


class Machine(RuleBasedStateMachine):
    """A client among others. Whatever was just cut, moved or lost, each call is answered as by a dict."""

    store: ClassVar[Store]

    @initialize()
    def connect(self) -> None:
        self.backend = self.store.connect()
        self.model: dict[bytes, bytes] = {}

    @rule(key=keys, value=st.binary(max_size=50_000), cut=st.integers(0, 100))
    def put(self, key: bytes, value: bytes, cut: int) -> None:
        self.backend.put(key, [value[:cut], memoryview(value)[cut:]], TTL, SECONDS)
        if not (self.store.keeps_first and key in self.model):
            self.model[key] = value

    @rule(key=keys, cut=st.integers(0, 100))
    def get(self, key: bytes, cut: int) -> None:
        wanted = self.model.get(key)
        target = memoryview(bytearray(len(wanted or b"")))
        length = self.backend.get_into(key, [target[:cut], target[cut:]], TTL, SECONDS)
        assert (length, bytes(target)) == ((None, b"") if wanted is None else (len(wanted), wanted))

    @rule(key=keys, more=st.integers(1, 100_000))
    def get_into_too_much(self, key: bytes, more: int) -> None:
        wanted = self.model.get(key)
        target = memoryview(bytearray(len(wanted or b"") + more))
        length = self.backend.get_into(key, [target], TTL, SECONDS)
        assert length == (None if wanted is None else len(wanted))

    @rule(chosen=st.lists(keys))
    def renew(self, chosen: list[bytes]) -> None:
        if chosen:
            found = self.backend.refresh_many(chosen, [TTL] * len(chosen), SECONDS)
            assert found == [self.store.keeps_first or key in self.model for key in chosen]

    @rule()
    def cut(self) -> None:
        self.store.cut()

    @rule(key=keys)
    def evict(self, key: bytes) -> None:
        self.store.evict(key)
        self.model.pop(key, None)

    @rule(key=keys)
    def move(self, key: bytes) -> None:
        self.store.move(key)

    @precondition(lambda self: len(self.model) > 2)
    @rule()
    def lose(self) -> None:
        self.store.lose()
        self.model.clear()

    @invariant()
    def check(self) -> None:
        assert self.backend.exists_many(KEYS, SECONDS) == [key in self.model for key in KEYS]

    def teardown(self) -> None:
        self.backend.close()
        self.store.check()


@pytest.fixture(params=[Memory, Resp, Cluster, Daemon])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with closing(request.param()) as made:
        yield made


def test_whatever_happens_to_l2_calls_are_answered_as_by_a_dict(store: Store) -> None:
    class Bound(Machine):
        pass

    Bound.store = store
    run_state_machine_as_test(
        Bound, settings=settings(deadline=None, max_examples=15, stateful_step_count=25)
    )
