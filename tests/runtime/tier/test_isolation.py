"""A tenant cannot tell what another has stored, nor from what it takes to find that out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from fakes_tier import FixedNamespace, RealValkey, eventually

from hypertier.tier.address import parse_l2_url
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.resp_ledger import RespLedger
from hypertier.tier.cache import L2Cache
from hypertier.tier.credentials import FixedCredentials
from hypertier.tier.entries import Entries
from hypertier.tier.lookups import Verdicts
from hypertier.tier.metrics import Counters
from hypertier.tier.mover import ThreadMover
from hypertier.tier.tenants import Tenants, Terms, tenant_tag
from hypertier.tier.transfers import FinishedJob, Transfers
from hypertier.tier.upkeep import Upkeep

CHUNK = 100_000
ACME, GLOBEX = tenant_tag("acme"), tenant_tag("globex")
NUM_CHUNKS = 32
REQUESTS = {"exists", "getex", "set", "get", "strlen", "unlink"}
UPKEEP = {"zadd", "zremrangebyscore", "expire", "zrange", "zrem"}


class Engine:
    """The tier over a real Valkey; with `quota_bytes`, its tenants have quotas."""

    def __init__(self, url: str, quota_bytes: int | None = None) -> None:
        tenants = Tenants({"*": Terms(None, quota_bytes)})
        self.counters = Counters()
        self.backends = [RespBackend(parse_l2_url(url), FixedCredentials()) for _ in range(2)]
        movers, keepers = (
            Entries(
                backend,
                FixedNamespace(),
                chunk_bytes=CHUNK,
                ttl_seconds=3600,
                lookup_timeout_seconds=20,
                io_timeout_seconds=20,
                stripe_bytes=64 * 1024,
                tenants=tenants,
            )
            for backend in self.backends
        )
        ledger = RespLedger(self.backends[1])
        self.upkeep = Upkeep(keepers, tenants, self.counters, lambda what, error: None, ledger, 20)
        self.cache = L2Cache(
            ThreadMover(movers, Transfers(2, 2**30), self.counters, lambda what, error: None),
            Verdicts(20.0, self.counters),
            self.counters,
            upkeep=self.upkeep,
        )

    def finish(self) -> FinishedJob:
        jobs: list[FinishedJob] = []
        assert eventually(lambda: bool(jobs.extend(self.cache.take_finished()) or jobs))
        return jobs[0]

    def store(self, *keys: bytes) -> FinishedJob:
        self.cache.store(1, keys, [memoryview(bytes(CHUNK))] * len(keys))
        return self.finish()

    def load(self, *keys: bytes) -> FinishedJob:
        self.cache.load(2, keys, [memoryview(bytearray(CHUNK)) for _ in keys])
        return self.finish()

    def look_up(self, *keys: bytes) -> tuple[list[bool | None], list[bool | None]]:
        """What is said at once, and when L2 has answered."""
        first = last = self._ask(keys)

        def answered() -> bool:
            nonlocal last
            last = self._ask(keys)
            return None not in last

        assert eventually(answered)
        self.cache.forget_request("request")
        return first, last

    def _ask(self, keys: Sequence[bytes]) -> list[bool | None]:
        answers = [self.cache.lookup("request", key) for key in keys]
        self.cache.flush()
        return answers

    def close(self) -> None:
        self.cache.close(20)


@pytest.fixture
def valkey() -> Iterator[RealValkey]:
    with RealValkey() as server:
        yield server


def commands(valkey: RealValkey) -> dict[str, int]:
    """How often each command was called since the last reset."""
    with valkey.client() as client:
        stats = client.info("commandstats")
        client.config_resetstat()
    ours = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}
    return {name: calls for name, calls in ours.items() if not name.startswith(("client", "config", "info"))}


def test_a_lookup_of_another_tenants_chunk_is_one_of_nobodys(valkey: RealValkey) -> None:
    engine = Engine(valkey.url)
    engine.store(*(ACME + b"stored by acme %022d" % i for i in range(NUM_CHUNKS)))
    commands(valkey)

    seen = {}
    for whose, name in (("another's", b"stored by acme"), ("nobody's", b"stored by none")):
        answers = engine.look_up(*(GLOBEX + name + b" %021d" % i for i in range(NUM_CHUNKS)))
        seen[whose] = answers, commands(valkey)
    counted = engine.counters.total("lookup_hits"), engine.counters.total("lookup_misses")
    engine.close()

    assert seen["another's"] == seen["nobody's"]
    assert seen["nobody's"][0] == ([None] * NUM_CHUNKS, [False] * NUM_CHUNKS)
    assert seen["nobody's"][1] == {"exists": 2 * NUM_CHUNKS}
    assert counted == (0, 2 * NUM_CHUNKS)


def test_quotas_add_no_command_to_what_a_request_waits_for(valkey: RealValkey) -> None:
    keys = [ACME + b"%036d" % i for i in range(NUM_CHUNKS)]
    taken: list[dict[str, int]] = []
    upkeep: list[dict[str, int]] = []
    for quota in (None, 10**9):
        engine = Engine(valkey.url, quota)
        engine.store(*keys)
        engine.look_up(*(ACME + b"absent%030d" % i for i in range(NUM_CHUNKS)))
        assert len(engine.load(*keys).moved) == NUM_CHUNKS
        ledger_name = b"ht1:%s:%s:ledger" % ((b"n" * 16).hex().encode(), ACME.hex().encode())
        if quota:
            zcard = b"ZCARD " + ledger_name
            assert eventually(lambda ask=zcard: int(valkey.ask(ask)[1:]) == NUM_CHUNKS)
        engine.close()
        counted = commands(valkey)
        taken.append({name: calls for name, calls in counted.items() if name in REQUESTS})
        upkeep.append({name: calls for name, calls in counted.items() if name in UPKEEP})
        with valkey.client() as client:
            client.flushall()
        commands(valkey)

    assert taken[0] == taken[1]
    assert upkeep[0] == {}
    assert upkeep[1]["zadd"] <= 2  # one for the stores, at most one for the loads
