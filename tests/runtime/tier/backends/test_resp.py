"""What the RESP backend says and does when the server misbehaves."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes_tier import RealValkey, Relay, ScriptedServer, TlsRelay, eventually

from hypertier.errors import TierError, TierProtocolError, TierUnavailableError
from hypertier.tier.address import L2Address, parse_l2_url
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.resp_admin import RespAdmin
from hypertier.tier.credentials import Credentials, CredentialSource, FixedCredentials, SecretCredentials

LONG, SHORT = 20.0, 0.2


@contextlib.contextmanager
def backend(
    server: ScriptedServer, source: CredentialSource | None = None, database: int = 0, tls: bool = False
) -> Iterator[RespBackend]:
    resp = RespBackend(L2Address("127.0.0.1", server.port, tls, database), source or FixedCredentials())
    yield resp
    resp.close()


def get(resp: RespBackend, size: int, seconds: float = LONG) -> tuple[int | None, bytes]:
    target = bytearray(size)
    return resp.get_into(b"k", [memoryview(target)], 60, seconds), bytes(target)


def test_nothing_connects_before_the_first_call() -> None:
    with ScriptedServer(b"+PONG\r\n") as server, backend(server) as resp:
        before = server.num_connections

        resp.exists_many([], LONG)

        assert (before, server.num_connections) == (0, 1)


def test_a_new_connection_logs_in_and_picks_the_database() -> None:
    with (
        ScriptedServer(b"+OK\r\n", b"+OK\r\n", b":1\r\n", b":0\r\n") as server,
        backend(server, FixedCredentials(Credentials("pass word", "tier")), 3) as resp,
    ):
        found = [resp.exists_many([b"k"], LONG), resp.exists_many([b"k"], LONG)]

        assert found == [[True], [False]]
        assert server.commands == [
            [b"AUTH", b"tier", b"pass word"],
            [b"SELECT", b"3"],
            [b"EXISTS", b"k"],
            [b"EXISTS", b"k"],
        ]


def test_a_refused_login_forgets_the_secret_and_never_shows_it() -> None:
    secrets = iter(['{"password": "old-secret"}', '{"password": "new-secret"}'])
    source = SecretCredentials("arn", lambda _: next(secrets))
    script = (b"-WRONGPASS invalid\r\n", b"+OK\r\n", b"+PONG\r\n")
    with ScriptedServer(*script) as server, backend(server, source) as resp:
        with pytest.raises(TierUnavailableError) as refused:
            resp.exists_many([], LONG)
        resp.exists_many([], LONG)

        assert "WRONGPASS" in str(refused.value)
        assert "secret" not in str(refused.value)
        assert server.commands[1] == [b"AUTH", b"new-secret"]


def test_who_looks_through_l2_without_a_password_is_told_where_it_is_read_from() -> None:
    with ScriptedServer(b"-NOAUTH Authentication required.\r\n") as server:
        admin = RespAdmin(L2Address("127.0.0.1", server.port, False, 0), FixedCredentials())

        with pytest.raises(TierUnavailableError, match=r"NOAUTH.* HYPERTIER_L2_PASSWORD"):
            list(admin.values())


def test_a_connection_that_is_to_log_in_anew_is_replaced_by_one_that_does() -> None:
    source = FixedCredentials(Credentials("sesame"))
    script = (b"+OK\r\n", b":1\r\n", b"-NOAUTH Authentication required.\r\n", b"+OK\r\n", b":1\r\n")
    with ScriptedServer(*script) as server, backend(server, source) as resp:
        found = resp.exists_many([b"k"], LONG)
        with pytest.raises(TierUnavailableError, match=r"NOAUTH.* HYPERTIER_L2_PASSWORD"):
            resp.exists_many([b"k"], LONG)

        assert found == resp.exists_many([b"k"], LONG) == [True]
        assert [command for command, *_ in server.commands] == [
            b"AUTH",
            b"EXISTS",
            b"EXISTS",
            b"AUTH",
            b"EXISTS",
        ]


def test_a_secret_that_cannot_be_had_in_time_is_an_error_in_time() -> None:
    over = threading.Event()
    source = SecretCredentials("arn", lambda _: str(over.wait(LONG)))
    with ScriptedServer(b"+OK\r\n") as server, backend(server, source) as resp:
        begin = time.monotonic()

        for _ in range(4):
            with pytest.raises(TierUnavailableError, match="HYPERTIER_L2_SECRET_ARN did not answer"):
                get(resp, 4, SHORT)

        assert time.monotonic() - begin < LONG / 2
        over.set()


def test_put_always_sets_a_time_to_live() -> None:
    with ScriptedServer(b"+OK\r\n") as server, backend(server) as resp:
        resp.put(b"k", [b"ab", memoryview(b"cd")], 60, LONG)

        assert server.commands == [[b"SET", b"k", b"abcd", b"EX", b"60"]]


def test_get_begins_the_time_to_live_anew() -> None:
    with RealValkey() as valkey:
        resp = RespBackend(parse_l2_url(valkey.url), FixedCredentials())
        resp.put(b"k", [b"value"], 60, LONG)

        resp.get_into(b"k", [memoryview(bytearray(5))], 6000, LONG)

        assert int(valkey.ask(b"TTL k")[1:]) > 60
        resp.close()


@pytest.mark.parametrize(
    ("piece", "error"),
    [
        (b"-LOADING Redis is loading\r\n", TierUnavailableError),
        (b"-OOM command not allowed\r\n", TierUnavailableError),
        (b"-READONLY replica\r\n", TierUnavailableError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", TierProtocolError),
        (b"$-5\r\n", TierProtocolError),
    ],
    ids=["loading", "full", "replica", "http", "nonsense"],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda resp: resp.exists_many([b"k"], LONG),
        lambda resp: get(resp, 4),
        lambda resp: resp.put(b"k", [b"v"], 60, LONG),
    ],
    ids=["exists", "get", "put"],
)
def test_a_refusal_is_an_error_of_ours(
    piece: bytes, error: type[TierError], call: Callable[[RespBackend], object]
) -> None:
    with ScriptedServer(piece) as server, backend(server) as resp, pytest.raises(error):
        call(resp)


def test_a_key_of_another_type_holds_no_value() -> None:
    with ScriptedServer(b"-WRONGTYPE Operation against a key\r\n") as server, backend(server) as resp:
        assert get(resp, 4)[0] is None


@pytest.mark.parametrize("piece", [b"", b"$4\r\nab"], ids=["silence", "half a value"])
def test_a_server_that_hangs_is_given_up_on_time(piece: bytes) -> None:
    with ScriptedServer(piece) as server, backend(server) as resp:
        with pytest.raises(TierUnavailableError, match=r"0\.2 s"):
            get(resp, 4, SHORT)

        assert server.num_connections == 1


def test_after_an_error_the_connection_is_not_used_again() -> None:
    with ScriptedServer(b"$4\r\nab", b"$4\r\nwxyz\r\n") as server, backend(server) as resp:
        with pytest.raises(TierUnavailableError):
            get(resp, 4, SHORT)

        found = get(resp, 4)

        assert found == (4, b"wxyz")
        assert server.num_connections == 2


def test_a_connection_that_the_server_closed_meanwhile_is_replaced() -> None:
    with ScriptedServer(b":1\r\n", None, b":1\r\n") as server, backend(server) as resp:
        resp.exists_many([b"k"], LONG)

        found = resp.exists_many([b"k"], LONG)

        assert found == [True]
        assert server.num_connections == 2


def test_a_new_connection_that_is_closed_at_once_is_an_error() -> None:
    with ScriptedServer(None) as server, backend(server) as resp, pytest.raises(TierUnavailableError):
        resp.exists_many([b"k"], LONG)


def test_nobody_listening_is_an_error_that_names_the_address() -> None:
    with ScriptedServer() as server:
        port = server.port
    resp = RespBackend(L2Address("127.0.0.1", port), FixedCredentials())

    with pytest.raises(TierUnavailableError, match=f"127.0.0.1:{port}"):
        resp.exists_many([b"k"], LONG)


def test_close_frees_a_thread_that_waits_for_an_answer() -> None:
    with ScriptedServer() as server, backend(server) as resp:
        ended = threading.Event()

        def wait() -> None:
            with pytest.raises(TierUnavailableError):
                get(resp, 4, 60.0)
            ended.set()

        thread = threading.Thread(target=wait)
        thread.start()
        while not server.commands:
            ended.wait(0.005)

        resp.close()

        assert ended.wait(LONG)
        thread.join()


def test_a_frozen_server_is_given_up_and_found_again() -> None:
    with RealValkey() as valkey:
        resp = RespBackend(parse_l2_url(valkey.url), FixedCredentials())
        resp.put(b"k", [b"value"], 60, LONG)

        valkey.freeze()
        with pytest.raises(TierUnavailableError):
            get(resp, 5, SHORT)
        valkey.thaw()

        assert get(resp, 5) == (5, b"value")
        resp.close()


@pytest.mark.parametrize(
    "answer", [b"-READONLY a read only replica.\r\n", b"-MASTERDOWN Link with MASTER\r\n"]
)
@pytest.mark.parametrize(
    "call", [lambda resp: get(resp, 4), lambda resp: resp.put(b"k", [b"v"], 60, LONG)], ids=["get", "put"]
)
def test_a_primary_that_became_a_replica_is_looked_for_anew(
    answer: bytes, call: Callable[[RespBackend], object]
) -> None:
    with ScriptedServer(answer, b"+PONG\r\n") as server, backend(server) as resp:
        with pytest.raises(TierUnavailableError, match=answer[1:7].decode()):
            call(resp)
        resp.exists_many([], LONG)

        assert server.num_connections == 2


def test_after_a_failover_behind_the_same_name_the_new_primary_is_used() -> None:
    with RealValkey() as first, RealValkey() as second, contextlib.closing(Relay(first.port)) as relay:
        resp = RespBackend(parse_l2_url(relay.url), FixedCredentials())
        second.ask(b"REPLICAOF 127.0.0.1 %d" % first.port)
        resp.put(b"k", [b"value"], 60, LONG)
        assert eventually(lambda: second.ask(b"DBSIZE") == b":1\r\n")

        second.ask(b"REPLICAOF NO ONE")
        first.ask(b"REPLICAOF 127.0.0.1 %d" % second.port)
        relay.target = second.port  # the name's new address; what is connected stays so
        with pytest.raises(TierUnavailableError, match="READONLY"):
            resp.put(b"k", [b"other"], 60, LONG)

        resp.put(b"k", [b"other"], 60, LONG)
        assert get(resp, 5) == (5, b"other")
        resp.close()


@pytest.mark.parametrize(
    ("host", "knows_the_authority", "reason"),
    [("localhost", False, "certificate verify failed"), ("127.0.0.1", True, "IP address mismatch")],
    ids=["unknown authority", "another name"],
)
def test_a_certificate_that_does_not_prove_the_server_is_refused(
    tmp_path: Path, host: str, knows_the_authority: bool, reason: str
) -> None:
    with RealValkey() as valkey, contextlib.closing(TlsRelay(valkey.port, tmp_path)) as relay:
        ca_file = str(relay.ca_file) if knows_the_authority else ""
        resp = RespBackend(L2Address(host, relay.port, tls=True), FixedCredentials(), ca_file)

        with pytest.raises(TierUnavailableError, match=reason):
            resp.exists_many([b"k"], LONG)


def test_a_reader_that_drips_holds_a_store_by_tls_no_longer_than_there_is_time(tmp_path: Path) -> None:
    with RealValkey() as valkey, contextlib.closing(DrippingRelay(valkey.port, tmp_path)) as relay:
        resp = RespBackend(
            L2Address("localhost", relay.port, tls=True), FixedCredentials(), str(relay.ca_file)
        )
        begin = time.monotonic()

        with pytest.raises(TierUnavailableError):
            resp.put(b"k", [bytes(32 * 1024 * 1024)], 60, 1.0)

        assert time.monotonic() - begin < 5.0
        resp.close()


class DrippingRelay(TlsRelay):
    """Takes a little of what it is sent every now and then, and so is never quite stuck."""

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while not answers and source.recv(64 * 1024):
                self._over.wait(0.1)
        super()._pump(source, sink, answers)


def test_rediss_to_a_server_without_tls_is_an_error() -> None:
    with ScriptedServer(b"-ERR unknown\r\n") as server, backend(server, tls=True) as resp:
        with pytest.raises(TierUnavailableError):
            resp.exists_many([b"k"], 2.0)

        assert server.commands == []
