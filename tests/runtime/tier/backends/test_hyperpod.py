"""The daemon's protocol, and what happens when the daemon restarts, evicts, or answers nonsense."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes_tier import FakeClock
from fakes_tier_daemon import HANGS, PIECE_BYTES, SEGMENT_BYTES, NodeDaemon

from hypertier.errors import TierError, TierPartError, TierProtocolError, TierUnavailableError
from hypertier.tier.address import L2Address
from hypertier.tier.backends.daemon import LARGEST_ANSWER_BYTES, MOST_PIECES, parse_lease
from hypertier.tier.backends.hyperpod import LEASE_SECONDS, RELEASE_SECONDS, HyperPodBackend

SECONDS = 20.0
VALUE = bytes(range(256)) * 100  # seven pieces


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[NodeDaemon]:
    with NodeDaemon(tmp_path / "segment") as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def backend(daemon: NodeDaemon, clock: FakeClock) -> Iterator[HyperPodBackend]:
    made = HyperPodBackend(daemon.address, str(daemon.segment), clock)
    yield made
    made.close()


def put(backend: HyperPodBackend, key: bytes = b"k") -> None:
    backend.put(key, [VALUE[:64], memoryview(VALUE)[64:]], 60, SECONDS)


def get(backend: HyperPodBackend, key: bytes = b"k", size: int = len(VALUE)) -> tuple[int | None, bytes]:
    target = bytearray(size)
    return backend.get_into(key, [memoryview(target)[:64], memoryview(target)[64:]], 60, SECONDS), bytes(
        target
    )


def posts(daemon: NodeDaemon, ending: str) -> int:
    return sum(ending in line for line in daemon.requests if line.startswith('"POST'))


def test_a_value_is_found_copied_from_its_pieces_and_given_back(
    daemon: NodeDaemon, backend: HyperPodBackend
) -> None:
    put(backend)

    found = backend.exists_many([b"k", b"absent"], SECONDS)
    value = get(backend)

    assert found == [True, False]
    assert value == (len(VALUE), VALUE)
    assert posts(daemon, "/k/leases?timeout_ms=20&ttl_s=30") == 1  # the lookup's lease served the load
    assert posts(daemon, "/release") == 1
    assert daemon.leases == {}


def test_a_value_can_be_loaded_without_a_lookup(daemon: NodeDaemon, backend: HyperPodBackend) -> None:
    put(backend)

    assert get(backend) == (len(VALUE), VALUE)
    assert get(backend, b"absent")[0] is None
    assert daemon.leases == {}


def test_a_miss_is_held_no_longer_than_was_asked(daemon: NodeDaemon, backend: HyperPodBackend) -> None:
    daemon.holds_misses = True
    put(backend)

    found = backend.exists_many([b"absent %d" % i for i in range(100)] + [b"k"], SECONDS)

    assert found == [False] * 100 + [True]
    assert all("timeout_ms=20&" in line for line in daemon.requests if "/leases?" in line)


def test_more_misses_than_there_is_time_for_are_misses_and_no_failure(daemon: NodeDaemon) -> None:
    daemon.holds_misses = True
    backend = HyperPodBackend(daemon.address, str(daemon.segment))
    put(backend)
    begin = time.monotonic()

    found = backend.exists_many([b"k"] + [b"absent %d" % i for i in range(2000)], 0.2)

    assert found == [True] + [False] * 2000
    assert time.monotonic() - begin < 5.0
    assert get(backend) == (len(VALUE), VALUE)
    backend.close()


def test_a_value_that_is_there_already_counts_as_stored(backend: HyperPodBackend) -> None:
    put(backend)

    put(backend)

    assert get(backend) == (len(VALUE), VALUE)


def test_a_value_that_is_there_already_counts_as_stored_also_where_nobody_reads_the_body(
    daemon: NodeDaemon, backend: HyperPodBackend
) -> None:
    large = bytes(8 * 1024 * 1024)
    backend.put(b"k", [large], 60, SECONDS)
    daemon.answers_early = True

    for _ in range(3):
        backend.put(b"k", [large], 60, SECONDS)

    assert backend.exists_many([b"k"], SECONDS) == [True]


def test_a_value_in_thousands_of_pieces_is_read(daemon: NodeDaemon, backend: HyperPodBackend) -> None:
    large = bytes(range(256)) * (32 * 1024)
    backend.put(b"k", [large], 60, SECONDS)
    target = bytearray(len(large))

    length = backend.get_into(b"k", [memoryview(target)], 60, SECONDS)

    assert (length, bytes(target)) == (len(large), large)
    assert len(large) // PIECE_BYTES == 2048


def test_an_answer_has_room_for_as_many_pieces_as_there_may_be() -> None:
    place = {"offset": 2**40, "len": 2**22}
    body = json.dumps({"id": "x" * 256, "offsets": [place] * MOST_PIECES}).encode()

    assert len(body) <= LARGEST_ANSWER_BYTES
    assert len(parse_lease(body).pieces) == MOST_PIECES


def test_a_lease_that_expired_is_not_used(
    daemon: NodeDaemon, backend: HyperPodBackend, clock: FakeClock
) -> None:
    put(backend)
    backend.exists_many([b"k"], SECONDS)

    clock.advance(LEASE_SECONDS)
    value = get(backend)

    assert value == (len(VALUE), VALUE)
    assert posts(daemon, "/k/leases") == 2


def test_a_lease_that_expires_during_the_copy_makes_a_miss(daemon: NodeDaemon, tmp_path: Path) -> None:
    ticks = iter([0.0] * 5)  # as many looks at the clock as come before the last one
    backend = HyperPodBackend(daemon.address, str(daemon.segment), lambda: next(ticks, 1_000.0))
    put(backend)
    backend.exists_many([b"k"], SECONDS)

    length, _ = get(backend)

    assert length is None
    backend.close()


def test_after_a_restart_old_leases_are_not_used_and_the_new_segment_is_read(
    daemon: NodeDaemon, backend: HyperPodBackend
) -> None:
    put(backend)
    backend.exists_many([b"k"], SECONDS)
    daemon.make_segment()

    after_the_restart = get(backend)[0]
    put(backend)

    assert after_the_restart is None
    assert get(backend) == (len(VALUE), VALUE)


def test_a_segment_cut_short_is_a_miss_and_kills_nobody(daemon: NodeDaemon, backend: HyperPodBackend) -> None:
    put(backend)
    backend.exists_many([b"k"], SECONDS)

    with daemon.segment.open("r+b") as file:
        file.truncate(4096)

    assert get(backend)[0] is None


def test_the_segment_is_never_written_or_removed(daemon: NodeDaemon, backend: HyperPodBackend) -> None:
    put(backend)
    daemon.segment.chmod(0o400)
    before = daemon.segment.read_bytes()

    get(backend)
    backend.close()

    assert daemon.segment.read_bytes() == before
    assert len(before) == SEGMENT_BYTES


def test_without_a_segment_nothing_is_found(daemon: NodeDaemon, backend: HyperPodBackend) -> None:
    put(backend)
    daemon.segment.unlink()

    with pytest.raises(TierUnavailableError, match="segment"):
        backend.exists_many([], SECONDS)
    with pytest.raises(TierUnavailableError):
        get(backend)


@pytest.mark.parametrize("status", [400, 500, 503])
def test_a_refusal_is_an_error_of_ours(daemon: NodeDaemon, backend: HyperPodBackend, status: int) -> None:
    daemon.status = status

    for call in (lambda: put(backend), lambda: get(backend), lambda: backend.exists_many([b"k"], SECONDS)):
        with pytest.raises(TierUnavailableError, match=str(status)):
            call()


FAULTS = {
    "refused": (500, b""),
    "nonsense": (200, b"[]"),
    "endless": (200, b"x" * (LARGEST_ANSWER_BYTES + 1)),
    "hangs": HANGS,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_one_lease_that_fails_costs_its_own_value_alone_and_leaves_no_other_pinned(
    daemon: NodeDaemon, backend: HyperPodBackend, fault: tuple[int, bytes]
) -> None:
    keys = [b"k%d" % i for i in range(9)]
    for key in keys:
        put(backend, key)
    daemon.faults["/k3/leases"] = fault

    found = backend.exists_many(keys, 2.0)
    values = [get(backend, key) for key in keys if key != b"k3"]

    assert found == [key != b"k3" for key in keys]
    assert values == [(len(VALUE), VALUE)] * 8
    assert daemon.leases == {}


def test_a_lease_that_is_refused_makes_no_miss_of_those_that_are_held(
    daemon: NodeDaemon, backend: HyperPodBackend
) -> None:
    for key in (b"k1", b"k2"):
        put(backend, key)
    daemon.faults["/k2/leases"] = FAULTS["refused"]
    backend.exists_many([b"k1"], SECONDS)

    found = backend.exists_many([b"k1", b"k2"], SECONDS)
    with pytest.raises(TierPartError, match="500"):
        backend.exists_many([b"k2"], SECONDS)

    assert found == [True, False]


def test_a_daemon_that_takes_no_lease_back_holds_up_the_first_load_alone(
    daemon: NodeDaemon, backend: HyperPodBackend
) -> None:
    keys = [b"k%d" % i for i in range(20)]
    for key in keys:
        put(backend, key)
    daemon.faults["/release"] = HANGS
    begin = time.monotonic()

    values = [get(backend, key) for key in keys]

    assert values == [(len(VALUE), VALUE)] * 20
    assert time.monotonic() - begin < 20 * RELEASE_SECONDS / 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"id": 7, "offsets": []}',
        b'{"id": "x"}',
        b'{"id": "x", "offsets": [{"offset": -1, "len": 5}]}',
        b'{"id": "x", "offsets": [{"offset": 0}]}',
        b'{"id": "x", "offsets": [7]}',
        b"x" * (LARGEST_ANSWER_BYTES + 1),
    ],
    ids=["empty", "list", "number", "no places", "negative", "no length", "no piece", "endless"],
)
def test_nonsense_is_an_error_of_ours(daemon: NodeDaemon, backend: HyperPodBackend, body: bytes) -> None:
    put(backend)
    daemon.lease_body = body

    with pytest.raises(TierProtocolError):
        get(backend)


def test_a_lease_beyond_the_segment_is_a_miss(daemon: NodeDaemon, backend: HyperPodBackend) -> None:
    put(backend)
    places = [{"offset": SEGMENT_BYTES - 10, "len": len(VALUE)}]
    daemon.lease_body = json.dumps({"id": "x", "offsets": places}).encode()

    assert get(backend)[0] is None


def test_connections_that_the_daemon_closed_are_replaced(
    daemon: NodeDaemon, backend: HyperPodBackend, tmp_path: Path
) -> None:
    put(backend)
    for connection in backend._daemon._idle:
        connection.sock.shutdown(socket.SHUT_RDWR)

    assert get(backend) == (len(VALUE), VALUE)


def test_nobody_listening_is_an_error_that_names_the_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "segment").touch()
    backend = HyperPodBackend(L2Address("127.0.0.1", port, is_daemon=True), str(tmp_path / "segment"))

    with pytest.raises(TierUnavailableError, match=f"127.0.0.1:{port}"):
        backend.exists_many([b"k"], SECONDS)


def test_a_daemon_that_hangs_is_given_up_on_time(tmp_path: Path) -> None:
    (tmp_path / "segment").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = L2Address("127.0.0.1", server.getsockname()[1], is_daemon=True)
        backend = HyperPodBackend(address, str(tmp_path / "segment"))

        with pytest.raises(TierError, match="timed out"):
            backend.exists_many([b"k"], 0.2)

        backend.close()


def test_leases_are_read_as_they_are_written() -> None:
    lease = parse_lease(b'{"id": "a b", "offsets": [{"offset": 4096, "len": 10}, {"offset": 0, "len": 2}]}')

    assert (lease.id, lease.num_bytes) == ("a b", 12)
    assert [(piece.offset, piece.length) for piece in lease.pieces] == [(4096, 10), (0, 2)]
