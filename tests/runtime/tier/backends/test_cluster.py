"""A real cluster: keys are found while slots move and servers go."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from fakes_tier import FixedNamespace, RealCluster, RealValkey, ScriptedServer, eventually

from hypertier.errors import TierError, TierPartError, TierUnavailableError
from hypertier.tier.address import L2Address, parse_l2_url
from hypertier.tier.backends.connecting import Places
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.resp_admin import RespAdmin
from hypertier.tier.backends.resp_ledger import RespLedger
from hypertier.tier.backends.slots import key_slot
from hypertier.tier.circuit import Circuit
from hypertier.tier.credentials import Credentials, FixedCredentials
from hypertier.tier.entries import Entries, Loaded
from hypertier.tier.guard import Guard
from hypertier.tier.metrics import Counters
from hypertier.tier.names import entry_name

SECONDS = 20.0
KEYS = [b"cluster:%d" % i for i in range(60)]


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with RealCluster() as servers:
        yield servers


@pytest.fixture
def backend(cluster: RealCluster) -> Iterator[RespBackend]:
    made = RespBackend(parse_l2_url(cluster.url), FixedCredentials())
    yield made
    made.close()


def store_all(backend: RespBackend) -> None:
    for key in KEYS:
        backend.put(key, [b"value of ", key], 3600, SECONDS)


def read(backend: RespBackend, key: bytes) -> bytes | None:
    target = bytearray(len(b"value of " + key))
    length = backend.get_into(key, [memoryview(target)], 3600, SECONDS)
    return None if length is None else bytes(target)


def owner(key: bytes) -> int:
    return next(i for i in (2, 1, 0) if key_slot(key) >= 16_384 * i // 3)


def test_keys_are_spread_over_all_servers_and_found(cluster: RealCluster, backend: RespBackend) -> None:
    store_all(backend)

    found = backend.exists_many([*KEYS, b"cluster:absent"], SECONDS)

    assert found == [True] * len(KEYS) + [False]
    assert [read(backend, key) for key in KEYS] == [b"value of " + key for key in KEYS]
    assert all(int(node.ask(b"DBSIZE")[1:]) > 0 for node in cluster.nodes)


def test_a_lookup_asks_each_server_once(cluster: RealCluster, backend: RespBackend) -> None:
    store_all(backend)
    backend.exists_many(KEYS, SECONDS)
    before = sum(num_reads(node.ask(b"INFO stats")) for node in cluster.nodes)

    backend.exists_many(KEYS, SECONDS)

    after = sum(num_reads(node.ask(b"INFO stats")) for node in cluster.nodes)
    own = len(cluster.nodes)  # each INFO is read as well
    assert after - before - own <= len(cluster.nodes)


def num_reads(info: bytes) -> int:
    return int(info.split(b"total_reads_processed:")[1].split(b"\r\n")[0])


def test_while_a_slot_moves_its_keys_are_found_where_they_are(
    cluster: RealCluster, backend: RespBackend
) -> None:
    store_all(backend)
    key = KEYS[0]
    source = owner(key)
    target = (source + 1) % 3

    cluster.begin_to_move(key_slot(key), source, target, [key])
    found = backend.exists_many(KEYS, SECONDS)
    value = read(backend, key)
    backend.put(key, [b"renewed"], 3600, SECONDS)

    assert found == [True] * len(KEYS)
    assert value == b"value of " + key
    assert cluster.nodes[target].ask(b"DBSIZE") != b":0\r\n"
    assert backend.exists_many([key], SECONDS) == [True]


def test_a_user_who_may_not_ask_for_the_map_learns_it_slot_by_slot(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        node.ask(b"ACL SETUSER tier on >sesame ~* +@all -cluster")
    backend = RespBackend(parse_l2_url(cluster.url), FixedCredentials(Credentials("sesame", "tier")))
    store_all(backend)
    before = sum(num_calls(node, b"exists", b"getex", b"set") for node in cluster.nodes)

    found = backend.exists_many(KEYS, SECONDS)
    values = [read(backend, key) for key in KEYS]
    backend.put(KEYS[0], [b"renewed"], 3600, SECONDS)

    after = sum(num_calls(node, b"exists", b"getex", b"set") for node in cluster.nodes)
    assert found == [True] * len(KEYS)
    assert values == [b"value of " + key for key in KEYS]
    assert after - before == 2 * len(KEYS) + 1
    backend.close()


@pytest.mark.parametrize(
    "answer", [b"-NOPERM no permissions to run 'cluster|slots'\r\n", b"-ERR unknown subcommand 'SLOTS'\r\n"]
)
def test_who_looks_through_all_of_l2_never_takes_one_server_of_a_cluster_for_all_of_it(answer: bytes) -> None:
    with ScriptedServer(answer) as server:
        admin = RespAdmin(L2Address("127.0.0.1", server.port), FixedCredentials())

        with pytest.raises(TierUnavailableError, match=answer.decode().split("'")[0][1:].strip()):
            next(admin.values())
        admin.close()


def num_calls(node: RealValkey, *commands: bytes) -> int:
    """How often a server was given commands, refused or not."""
    lines = node.ask(b"INFO commandstats").split(b"\r\n")
    told = [line.partition(b":") for line in lines if line.startswith(b"cmdstat_")]
    counts = [
        int(part.partition(b"=")[2])
        for name, _, rest in told
        if name.removeprefix(b"cmdstat_") in commands
        for part in rest.split(b",")
        if part.startswith((b"calls=", b"rejected_calls="))
    ]
    return sum(counts)


def test_a_ledger_is_kept_where_its_slot_moves_to(cluster: RealCluster, backend: RespBackend) -> None:
    name = b"ledger"
    slot = key_slot(name)
    source = slot * 3 // 16_384
    target = (source + 1) % 3
    ledger = RespLedger(backend)
    before = ledger.note(name, {b"a": 1.0, b"b": 2.0}, 0.0, 3600, SECONDS)
    cluster.begin_to_move(slot, source, target, [name])

    during = ledger.note(name, {b"c": 3.0}, 0.0, 3600, SECONDS)
    surplus = ledger.surplus(name, 1, 2, SECONDS)
    ledger.forget(name, surplus, SECONDS)

    assert (before, during, surplus) == (2, 3, [b"a", b"b"])
    assert ledger.note(name, {}, 0.0, 3600, SECONDS) == 1
    cluster.move(slot, source, target)


def test_slots_that_moved_are_followed(cluster: RealCluster, backend: RespBackend) -> None:
    store_all(backend)

    for key in KEYS[:20]:
        if owner(key) != 2:
            cluster.move(key_slot(key), owner(key), 2)

    assert [read(backend, key) for key in KEYS] == [b"value of " + key for key in KEYS]
    assert backend.exists_many(KEYS, SECONDS) == [True] * len(KEYS)


def test_a_server_that_died_costs_its_own_keys_alone(cluster: RealCluster, backend: RespBackend) -> None:
    for node in cluster.nodes:
        node.ask(b"CONFIG SET cluster-require-full-coverage no")
    store_all(backend)

    cluster.nodes[1].kill()
    found = [backend.exists_many(KEYS, 2.0) for _ in range(2)]

    expected = [owner(key) != 1 for key in KEYS]
    assert found == [expected, expected]
    with pytest.raises(TierUnavailableError):
        read(backend, next(key for key in KEYS if owner(key) == 1))


def test_a_server_that_is_full_is_sent_no_values_until_it_has_room(
    cluster: RealCluster, backend: RespBackend
) -> None:
    """As of `maxmemory-policy noeviction`: what it holds is read on, and others take their values."""
    store_all(backend)
    full = cluster.nodes[1]
    full.ask(b"CONFIG SET maxmemory-policy noeviction maxmemory 1")

    def store() -> set[int]:
        stored = set()
        for key in KEYS:
            with contextlib.suppress(TierPartError):
                backend.put(key, [b"value of ", key], 3600, SECONDS)
                stored.add(owner(key))
        return stored

    before = num_calls(full, b"set")
    stored = [store() for _ in range(20)]
    num_tried = num_calls(full, b"set") - before
    held = [read(backend, key) for key in KEYS]
    full.ask(b"CONFIG SET maxmemory 0")

    assert stored == [{0, 2}] * 20
    assert num_tried < 10
    assert held == [b"value of " + key for key in KEYS]
    assert eventually(lambda: store() == {0, 1, 2}, 60)


def test_after_a_failover_under_load_every_value_is_found_again(
    cluster: RealCluster, backend: RespBackend
) -> None:
    for node in cluster.nodes:
        node.ask(b"CONFIG SET cluster-require-full-coverage no")
    replica = cluster.add_replica(of=1)
    store_all(backend)
    assert eventually(lambda: replica.ask(b"DBSIZE") == cluster.nodes[1].ask(b"DBSIZE"))
    over, lies = threading.Event(), []

    def read_on() -> None:
        for key in itertools.cycle(KEYS):
            if over.is_set():
                return
            with contextlib.suppress(TierError):
                if (value := read(backend, key)) not in (None, b"value of " + key):
                    lies.append(value)

    readers = [threading.Thread(target=read_on) for _ in range(4)]
    for reader in readers:
        reader.start()
    cluster.nodes[1].kill()
    replica.ask(b"CLUSTER FAILOVER TAKEOVER")

    def are_found() -> bool:
        with contextlib.suppress(TierError):
            return [read(backend, key) for key in KEYS] == [b"value of " + key for key in KEYS]
        return False

    assert eventually(are_found, 60)
    over.set()
    for reader in readers:
        reader.join()
    assert backend.exists_many(KEYS, SECONDS) == [True] * len(KEYS)
    backend.put(next(key for key in KEYS if owner(key) == 1), [b"new"], 3600, SECONDS)
    assert lies == []


def test_a_cluster_that_lost_the_named_server_is_still_known(
    cluster: RealCluster, backend: RespBackend
) -> None:
    for node in cluster.nodes:
        node.ask(b"CONFIG SET cluster-require-full-coverage no")
    store_all(backend)
    cluster.nodes[0].kill()

    def found_the_rest() -> bool:
        return backend.exists_many(KEYS, 2.0) == [owner(key) != 0 for key in KEYS]

    assert eventually(found_the_rest)


def test_a_frozen_server_is_asked_once_and_then_left_alone(
    cluster: RealCluster, backend: RespBackend
) -> None:
    store_all(backend)
    lost = [key for key in KEYS if owner(key) == 1]
    cluster.nodes[1].freeze()

    found = [backend.exists_many(KEYS, 0.3) for _ in range(2)]
    with pytest.raises(TierPartError, match="left alone"):
        read(backend, lost[0])
    with pytest.raises(TierPartError):
        backend.put(lost[0], [b"x"], 3600, SECONDS)
    with pytest.raises(TierPartError):
        backend.exists_many(lost, SECONDS)

    assert found == [[owner(key) != 1 for key in KEYS]] * 2
    cluster.nodes[1].thaw()
    assert eventually(lambda: backend.exists_many(KEYS, SECONDS) == [True] * len(KEYS))


class Nowhere(Places):
    """Of a host that is gone: nobody answers, and nobody refuses."""

    def connect(self, deadline: float) -> socket.socket:
        threading.Event().wait(max(0.0, deadline - time.monotonic()))
        raise TimeoutError("timed out")


def test_a_host_that_is_gone_costs_its_own_keys_alone_also_where_all_connections_are_new(
    cluster: RealCluster, backend: RespBackend
) -> None:
    store_all(backend)
    backend.exists_many(KEYS, SECONDS)
    nodes = {node.address.port: node for node in backend._topology._nodes.values()}
    lost = nodes[cluster.nodes[1].port]
    lost._places = Nowhere(lost.address)
    for node in nodes.values():
        node._drop_idle()

    found = backend.exists_many(sorted(KEYS, key=lambda key: owner(key) != 1), 2.0)

    assert found == sorted(owner(key) != 1 for key in KEYS)
    assert [nodes[each.port].circuit.is_closed for each in cluster.nodes] == [True, False, True]


def test_a_chunk_with_a_stripe_on_a_lost_server_is_not_announced_and_the_others_are_used(
    cluster: RealCluster, backend: RespBackend
) -> None:
    counters = Counters()
    entries = Entries(
        backend,
        FixedNamespace(),
        chunk_bytes=2 * 65_000,
        ttl_seconds=3600,
        lookup_timeout_seconds=0.5,
        io_timeout_seconds=SECONDS,
        stripe_bytes=64 * 1024,
    )
    guard = Guard("read", Circuit(), counters, lambda what, error: None)
    content = memoryview(bytes(2 * 65_000))
    keys = [b"%036d" % i for i in range(24)]
    for key in keys:
        entries.store(key, content)
    cluster.nodes[1].freeze()

    found = guard.call(lambda: entries.exist(keys), [])
    loaded = [guard.call(lambda key=key: entries.load(key, bytearray_of(content)), None) for key in keys]

    whole = [all(owner(entry_name(b"n" * 16, key, stripe)) != 1 for stripe in range(2)) for key in keys]
    assert found == whole
    assert 0 < sum(whole) < len(keys)
    assert [outcome is Loaded.WHOLE for outcome in loaded] == whole
    assert guard.circuit.is_closed
    assert counters.total("read_errors") == len(keys) - sum(whole)


def bytearray_of(content: memoryview) -> memoryview:
    return memoryview(bytearray(len(content)))
