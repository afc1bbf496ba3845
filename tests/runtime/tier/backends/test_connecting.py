"""A name is resolved and a server verified by what is true now, within the time there is."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes_tier import RealValkey, TlsRelay

from hypertier.errors import TierUnavailableError
from hypertier.tier.address import L2Address
from hypertier.tier.backends import connecting
from hypertier.tier.backends.connecting import Places, Trust, tls_context
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.credentials import FixedCredentials

LONG, SHORT = 20.0, 0.2


class Resolver:
    """`socket.getaddrinfo` of a world with one name; while `holds` it does not answer."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = hosts
        self.num_asked = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        self.num_asked += 1
        assert self.may_answer.wait(LONG)
        if not self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in self.hosts]


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    """In the place of the system's, for names alone."""
    made, real = Resolver("127.0.0.1"), socket.getaddrinfo

    def lookup(host: str, *args: Any, **kwargs: Any) -> Any:
        return made(host, *args, **kwargs) if host == "l2.example" else real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    yield made
    made.may_answer.set()


def connect(places: Places, seconds: float = LONG) -> float:
    begin = time.monotonic()
    places.connect(begin + seconds).close()
    return time.monotonic() - begin


def test_a_resolver_that_hangs_holds_nobody_longer_than_there_is_time(resolver: Resolver, port: int) -> None:
    resolver.may_answer.clear()
    backend = RespBackend(L2Address("l2.example", port), FixedCredentials())
    begin = time.monotonic()

    for call in (
        lambda: backend.exists_many([b"k"], SHORT),
        lambda: backend.get_into(b"k", [memoryview(bytearray(4))], 60, SHORT),
        lambda: backend.put(b"k", [b"v"], 60, SHORT),
    ):
        with pytest.raises(TierUnavailableError):
            call()

    assert time.monotonic() - begin < LONG / 2
    assert resolver.num_asked == 1


def test_while_the_resolver_hangs_the_last_addresses_serve(resolver: Resolver, port: int) -> None:
    places = Places(L2Address("l2.example", port))
    connect(places)
    resolver.may_answer.clear()

    assert connect(places, 2 * SHORT) < LONG / 2


def test_an_answer_that_came_too_late_serves_the_next(resolver: Resolver, port: int) -> None:
    places = Places(L2Address("l2.example", port))
    resolver.may_answer.clear()
    with pytest.raises(TierUnavailableError, match=r"l2\.example"):
        connect(places, SHORT)

    resolver.may_answer.set()

    connect(places)


def test_every_connection_goes_where_the_name_leads_now(resolver: Resolver, port: int) -> None:
    places = Places(L2Address("l2.example", port))
    connect(places)
    resolver.hosts = ("127.0.0.2",)

    with places.connect(time.monotonic() + LONG) as connection:
        assert connection.getpeername()[0] == "127.0.0.2"


def test_a_name_that_leads_nowhere_is_an_error_that_names_it(resolver: Resolver, port: int) -> None:
    resolver.hosts = ()

    with pytest.raises(TierUnavailableError, match=r"l2\.example"):
        connect(Places(L2Address("l2.example", port)))


def test_an_address_that_is_dead_takes_its_share_of_the_time_alone(
    resolver: Resolver, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, float]] = []

    def create_connection(address: tuple[str, int], timeout: float) -> socket.socket:
        given.append((address[0], timeout))
        if address[0] == "10.255.255.1":
            raise TimeoutError("timed out")
        return socket.socket()

    monkeypatch.setattr(connecting.socket, "create_connection", create_connection)
    resolver.hosts = ("10.255.255.1", "127.0.0.1")

    connect(Places(L2Address("l2.example", port)), 4.0)

    assert [host for host, _ in given] == ["10.255.255.1", "127.0.0.1"]
    assert given[0][1] <= 2.0


def test_a_number_is_asked_about_nowhere(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(L2Address("127.0.0.1", port))
    monkeypatch.setattr(places._asker, "answer", lambda seconds: pytest.fail("asked"))

    connect(places)


def test_tls_verifies_certificate_and_name() -> None:
    context = tls_context()

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_new_connections_are_verified_by_the_certificates_that_the_file_has_now(tmp_path: Path) -> None:
    ca_file = tmp_path / "trusted.pem"
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    with (
        RealValkey() as valkey,
        contextlib.closing(TlsRelay(valkey.port, tmp_path / "old")) as old,
        contextlib.closing(TlsRelay(valkey.port, tmp_path / "new")) as new,
    ):
        ca_file.write_bytes(old.ca_file.read_bytes())
        trust = Trust(str(ca_file))
        before = [is_trusted(trust, relay) for relay in (old, new)]

        ca_file.write_text("half writ")
        broken = [is_trusted(trust, relay) for relay in (old, new)]
        ca_file.with_suffix(".new").write_bytes(new.ca_file.read_bytes())
        ca_file.with_suffix(".new").replace(ca_file)
        after = [is_trusted(trust, relay) for relay in (old, new)]
        ca_file.unlink()
        gone = [is_trusted(trust, relay) for relay in (old, new)]

    assert (before, broken, after, gone) == ([True, False], [True, False], [False, True], [False, True])


def is_trusted(trust: Trust, relay: TlsRelay) -> bool:
    with socket.create_connection(("127.0.0.1", relay.port), LONG) as raw:
        try:
            with trust.context().wrap_socket(raw, server_hostname="localhost"):
                return True
        except ssl.SSLCertVerificationError:
            return False
