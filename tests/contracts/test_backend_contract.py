"""What every backend of L2 promises, held against a dict."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes_tier import RealCluster, RealValkey, TlsRelay, eventually
from fakes_tier_daemon import NodeDaemon
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypertier.errors import TierUnavailableError
from hypertier.tier.address import parse_l2_url
from hypertier.tier.backends.backend import Backend
from hypertier.tier.backends.hyperpod import HyperPodBackend
from hypertier.tier.backends.memory import MemoryBackend
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.resp_reader import PART_BYTES
from hypertier.tier.credentials import Credentials, FixedCredentials

SECONDS = 20.0
TTL = 3600


@pytest.fixture(scope="module")
def valkey() -> Iterator[RealValkey]:
    with RealValkey(password="sesame") as server:
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster() as servers:
        yield servers


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeDaemon]:
    with NodeDaemon(tmp_path_factory.mktemp("daemon") / "segment") as server:
        yield server


@pytest.fixture(scope="module")
def tls(valkey: RealValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsRelay]:
    with contextlib.closing(TlsRelay(valkey.port, tmp_path_factory.mktemp("tls"))) as relay:
        yield relay


@pytest.fixture(params=["memory", "resp", "tls", "cluster", "daemon"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made: Backend
    if request.param == "memory":
        made = MemoryBackend()
    elif request.param == "daemon":
        node: NodeDaemon = request.getfixturevalue("daemon")
        node.clear()
        made = HyperPodBackend(node.address, str(node.segment))
    elif request.param == "tls":
        relay: TlsRelay = request.getfixturevalue("tls")
        address = parse_l2_url(f"rediss://localhost:{relay.port}")
        made = RespBackend(address, FixedCredentials(Credentials("sesame")), str(relay.ca_file))
    elif request.param == "cluster":
        servers: RealCluster = request.getfixturevalue("cluster")
        made = RespBackend(parse_l2_url(servers.url), FixedCredentials())
    else:
        server: RealValkey = request.getfixturevalue("valkey")
        made = RespBackend(parse_l2_url(server.url), FixedCredentials(Credentials("sesame")))
    yield made
    made.close()


def get(backend: Backend, key: bytes, *sizes: int) -> tuple[int | None, bytes]:
    buffers = [memoryview(bytearray(size)) for size in sizes]
    length = backend.get_into(key, buffers, TTL, SECONDS)
    return length, b"".join(buffers)


def test_what_was_put_is_got_whatever_the_cut(backend: Backend) -> None:
    value = bytes(range(256)) * 4096

    backend.put(b"contract:cut", [value[:64], memoryview(value)[64:]], TTL, SECONDS)

    assert get(backend, b"contract:cut", 100, len(value) - 100) == (len(value), value)


def test_a_listener_hears_of_a_value_that_fits_in_parts_as_it_comes(backend: Backend) -> None:
    value = bytes(range(251)) * 8_000
    backend.put(b"contract:heard", [value], TTL, SECONDS)
    heard: list[list[bytes]] = []

    def listener() -> Callable[[memoryview], None]:
        heard.append([])
        return lambda part: heard[-1].append(bytes(part))

    buffers = [memoryview(bytearray(64)), memoryview(bytearray(len(value) - 64))]
    for wanted in (buffers, buffers[:1]):
        backend.get_into(b"contract:heard", wanted, TTL, SECONDS, listener)
    backend.get_into(b"contract:nothing", buffers, TTL, SECONDS, listener)

    assert [b"".join(parts) for parts in heard] == [value]
    assert len(heard[0][0]) == 64
    assert isinstance(backend, MemoryBackend) or max(map(len, heard[0])) <= PART_BYTES


def test_an_absent_key_has_no_value(backend: Backend) -> None:
    found = get(backend, b"contract:absent", 10)

    assert found[0] is None


@pytest.mark.parametrize("stored", [0, 9, 11, 300_000], ids=["empty", "shorter", "longer", "much-longer"])
def test_a_value_of_another_length_is_told_by_its_length(backend: Backend, stored: int) -> None:
    backend.put(b"contract:length", [b"x" * stored], TTL, SECONDS)

    lengths = [get(backend, b"contract:length", 4, 6)[0] for _ in range(2)]

    assert lengths == [stored, stored]


def test_a_later_put_replaces_an_earlier_one_where_values_can_be_replaced(backend: Backend) -> None:
    backend.put(b"contract:twice", [b"old value"], TTL, SECONDS)

    backend.put(b"contract:twice", [b"new"], TTL, SECONDS)

    expected = (9, b"old value") if isinstance(backend, HyperPodBackend) else (3, b"new")
    assert get(backend, b"contract:twice", expected[0]) == expected


def test_exists_answers_in_the_order_of_the_keys(backend: Backend) -> None:
    keys = [b"contract:order:%d" % i for i in range(300)]
    for key in keys[::3]:
        backend.put(key, [b"x"], TTL, SECONDS)

    found = backend.exists_many(keys, SECONDS)

    assert found == [i % 3 == 0 for i in range(300)]
    assert backend.exists_many([], SECONDS) == []


def test_threads_do_not_mix_up_answers(backend: Backend) -> None:
    def round_trip(i: int) -> bool:
        value = bytes([i % 256]) * (10_000 + i)
        backend.put(b"contract:thread:%d" % i, [value], TTL, SECONDS)
        return get(backend, b"contract:thread:%d" % i, len(value)) == (len(value), value)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(round_trip, range(64)))

    assert all(results)


def test_a_closed_backend_refuses(backend: Backend) -> None:
    backend.exists_many([b"contract:any"], SECONDS)

    backend.close()

    with pytest.raises(TierUnavailableError):
        backend.exists_many([b"contract:any"], SECONDS)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operations=st.lists(
        st.tuples(st.sampled_from(["put", "get", "exists"]), st.integers(0, 3), st.binary(max_size=2000)),
        max_size=20,
    ),
)
def test_any_order_of_calls_agrees_with_a_dict(
    backend: Backend, operations: list[tuple[str, int, bytes]]
) -> None:
    run = uuid.uuid4()
    model: dict[bytes, bytes] = {}

    for operation, number, value in operations:
        key = f"contract:{run}:{number}".encode()
        if operation == "put":
            backend.put(key, [value[:7], value[7:]], TTL, SECONDS)
            if not (isinstance(backend, HyperPodBackend) and key in model):
                model[key] = value
        elif operation == "exists":
            assert backend.exists_many([key], SECONDS) == [key in model]
        elif key in model:
            assert get(backend, key, len(model[key])) == (len(model[key]), model[key])
        else:
            assert get(backend, key, 1)[0] is None


def test_closing_frees_a_thread_that_waits() -> None:
    backend = MemoryBackend()
    backend.gate.clear()
    failed = threading.Event()

    def wait() -> None:
        with pytest.raises(TierUnavailableError):
            backend.exists_many([b"k"], SECONDS)
        failed.set()

    thread = threading.Thread(target=wait)
    thread.start()

    backend.close()

    assert failed.wait(SECONDS)
    thread.join()


def test_a_value_lives_for_its_time_from_the_last_get_on(backend: Backend) -> None:
    if isinstance(backend, HyperPodBackend):
        return  # the daemon evicts by itself
    gone, kept = b"contract:gone", b"contract:kept"
    for key in (gone, kept):
        backend.put(key, [b"x"], 1, SECONDS)

    get(backend, kept, 1)

    assert eventually(lambda: not backend.exists_many([gone], SECONDS)[0])
    assert backend.exists_many([kept], SECONDS) == [True]
