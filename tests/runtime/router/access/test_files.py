"""What is wrong with the files is said at start, by the flag; and keys of JWTs are fetched as they change."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fakes_access import ACME, CHAT, AccessFolder, bearer
from fakes_engine import FakeEngine, RawClient, eventually, json_answer, post, run_loop
from fakes_jwt import AUDIENCE, ISSUER, Issuer
from fakes_router import routed

from hypertier.cli.router import command
from hypertier.errors import ConfigError, HypertierError, JwksError
from hypertier.router.access import files, jwks, keys
from hypertier.router.access.files import AccessFiles
from hypertier.router.app import Router
from hypertier.router.settings import RouterSettings

ENGINE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        pytest.param({"api_keys": "/no/such/file"}, "--api-keys", id="no-keys"),
        pytest.param({"salt_key": "/no/such/file"}, "--salt-key", id="no-salt-key"),
        pytest.param({"salt_key": None}, "--salt-key", id="salt-key-missing"),
        pytest.param({"api_keys": None}, "--salt-key", id="salt-without-tenants"),
        pytest.param({"metrics_port": None}, "--metrics-port", id="metrics-without-a-port"),
        pytest.param({"access": __file__}, "--access", id="no-section"),
        pytest.param({"session_key": "jwt:sid"}, "--session-key", id="claim-without-access"),
    ],
)
def test_what_cannot_work_is_said_by_its_flag(tmp_path: Path, change: dict[str, Any], setting: str) -> None:
    settings = AccessFolder(tmp_path).settings | change

    with pytest.raises(HypertierError) as caught:
        Router(RouterSettings(replicas=(ENGINE,), **settings))

    assert setting in str(caught.value) or Path(__file__).name in str(caught.value)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param("access: {tenants: [{name: a, requestsPerMinute: 0}]}", id="limit"),
        pytest.param("access: {tenants: [{name: a}, {name: a}]}", id="twice"),
        pytest.param("access: {queue: {size: 3}}", id="queue-without-a-bound"),
        pytest.param("access: {queue: {maxInFlightPerReplica: 1, timeout: 2}}", id="timeout-without-unit"),
        pytest.param("access: {tenant: []}", id="unknown-key"),
        pytest.param("access: {paths: [tokenize]}", id="path"),
        pytest.param("access: {paths: ['/x y']}", id="path-with-a-space"),
        pytest.param("access: {paths: ['/x?y']}", id="path-with-a-query"),
        pytest.param("access: {paths: ['/x%y']}", id="path-with-half-an-escape"),
        pytest.param("access: {default: {weight: -1}}", id="weight"),
        pytest.param("access: []", id="a-list"),
        pytest.param("access: false", id="no-mapping"),
    ],
)
def test_what_a_policy_gets_wrong_is_named(tmp_path: Path, policy: str) -> None:
    folder = AccessFolder(tmp_path, policy)

    with pytest.raises(ConfigError, match="access"):
        AccessFiles(str(folder.policy), str(folder.keys), str(folder.salt_key)).read()


@pytest.mark.parametrize("text", ["", "short", "AAAA", "!" * 44, "A" * 64])
def test_a_salt_key_is_32_bytes_and_never_shown(tmp_path: Path, text: str) -> None:
    folder = AccessFolder(tmp_path)
    folder.salt_key.write_text(text)

    with pytest.raises(ConfigError, match="--salt-key") as caught:
        AccessFiles(None, str(folder.keys), str(folder.salt_key)).read()

    assert not text or text not in str(caught.value)


def test_what_the_command_makes_works(tmp_path: Path) -> None:
    runner = CliRunner()
    made = runner.invoke(command, ["key", "new", "--tenant", "acme", "--until", "2999-01-01"])
    salt = runner.invoke(command, ["key", "salt"])
    (tmp_path / "keys").write_text(made.stdout)
    (tmp_path / "salt-key").write_text(salt.stdout)

    _, ring, salt_key = AccessFiles(None, str(tmp_path / "keys"), str(tmp_path / "salt-key")).read()

    key = next(word for word in made.stderr.split() if word.startswith(keys.PREFIX))
    found = ring.find(key.encode(), 0.0)
    assert found is not None
    assert found.tenant == "acme"
    assert key not in made.stdout
    assert salt_key is not None
    assert len(salt_key) == 32


def test_a_key_without_a_tenant_is_not_made() -> None:
    made = CliRunner().invoke(command, ["key", "new", "--tenant", "two words"])

    assert isinstance(made.exception, ConfigError)
    assert keys.PREFIX not in made.output


@contextmanager
def serving(answers: dict[str, tuple[int, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """An issuer's web server; its URL, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body = answers[self.path]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/jwks")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("path", ["/moved", "/broken", "/large"])
def test_what_is_no_set_of_keys_is_refused(path: str) -> None:
    answers = {
        "/moved": (302, b""),
        "/broken": (500, b""),
        "/large": (200, b" " * (jwks.MAX_BYTES + 1)),
        "/jwks": (200, Issuer().jwks()),
    }

    with serving(answers) as (url, asked):
        with pytest.raises(JwksError):
            jwks.read(url + path)

        assert asked == [path]


def test_issuer_that_does_not_speak_http_is_refused() -> None:
    """Whatever else it raised would end the watch, and with it the withdrawal of keys."""

    def answer() -> None:
        client, _ = listening.accept()
        with client:
            client.recv(65536)
            client.sendall(b"garbage\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(JwksError):
            jwks.read(f"http://127.0.0.1:{listening.getsockname()[1]}/jwks")
        thread.join()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(Issuer(kid="k1"), Issuer(kid="k2"), id="another-name"),
        pytest.param(Issuer(kid="k1"), Issuer(kid="k1"), id="the-same-name"),
        pytest.param(Issuer(kid=None), Issuer(kid=None), id="no-name"),
        pytest.param(Issuer(kid=None), Issuer("EdDSA", kid=None), id="another-kind"),
    ],
)
def test_keys_of_jwts_are_fetched_kept_and_fetched_again_but_not_too_often(
    tmp_path: Path, old: Issuer, new: Issuer
) -> None:
    answers = {"/jwks": (503, b"")}

    async def act(url: str, asked: list[str]) -> tuple[list[int], list[int]]:
        policy = f"access: {{jwt: {{jwks: {url}/jwks, issuer: '{ISSUER}', audience: {AUDIENCE}}}}}\n"
        async with routed(FakeEngine(), **AccessFolder(tmp_path, policy).settings) as router:
            assert router._door is not None
            watch = router._door.watch
            assert watch._jwt is not None
            statuses, fetched = [], []
            for now, answer in (
                (0.0, None),  # not there when the router starts: 503, and keys of the file work
                (10.0, (200, old.jwks())),
                (11.0, (200, new.jwks())),  # too soon
                (21.0, (200, new.jwks())),
                (400.0, (500, b"")),  # what is known stays
            ):
                if answer is not None:
                    answers["/jwks"] = answer
                    await watch._step_jwks(watch._jwt, now)
                fetched.append(len(asked))
                statuses += [
                    await status(router, b"Authorization: Bearer " + issuer.token(exp=32_000_000_000))
                    for issuer in (old, new)
                ]
            statuses.append(await status(router, bearer(ACME)))
            return statuses, fetched

    with serving(answers) as (url, asked):
        statuses, fetched = run_loop(act(url, asked))

    assert statuses == [503, 503, 200, 401, 200, 401, 401, 200, 401, 200, 200]
    assert fetched == [1, 2, 2, 3, 4]


def test_an_issuer_that_never_answers_holds_up_no_withdrawn_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(files, "JWKS_SECONDS", 0.0)
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 600.0)

    async def act() -> int:
        connections: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(writer)
            await reader.readuntil(b"\r\n\r\n")
            if len(connections) == 1:
                writer.write(json_answer(Issuer().jwks()))
                writer.close()

        issuer = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{issuer.sockets[0].getsockname()[1]}/jwks"
        policy = f"access: {{jwt: {{jwks: '{url}', issuer: '{ISSUER}', audience: {AUDIENCE}}}}}\n"
        folder = AccessFolder(tmp_path, policy)
        try:
            async with routed(FakeEngine(), **folder.settings) as router:
                assert await status(router, bearer(ACME)) == 200
                await eventually(lambda: len(connections) == 2)
                folder.keys.write_text("# nobody's\n")
                assert router._door is not None
                gate = router._door.gate
                await eventually(lambda: len(gate.ring) == 0)
                answered = await status(router, bearer(ACME))
                assert len(connections) == 2  # it is still asked, and nobody beside it
                for connection in connections:
                    connection.transport.abort()
                return answered
        finally:
            issuer.close()

    assert run_loop(act()) == 401


def test_a_set_of_keys_that_comes_drop_by_drop_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jwks, "FETCH_SECONDS", 0.05)
    has_given_up = threading.Event()

    def answer() -> None:
        client, _ = listening.accept()
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 300\r\n\r\n")
            for _ in range(300):
                if not has_given_up.wait(0.001):
                    client.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with pytest.raises(JwksError):
                jwks.read(f"http://127.0.0.1:{listening.getsockname()[1]}/jwks")
        finally:
            has_given_up.set()
            thread.join()


async def status(router: Router, header: bytes) -> int:
    client = await RawClient.connect(router.port)
    client.send(post(CHAT, b"{}", header))
    async with asyncio.timeout(10):
        return (await client.answer()).status


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        pytest.param("access: {}", True, id="gone"),
        pytest.param("access: {queue: {maxInFlightPerReplica: 2, size: 9}}", True, id="size"),
        pytest.param("access: {queue: {maxInFlightPerReplica: 5, size: 3}}", False, id="bound"),
    ],
)
def test_a_change_that_takes_a_restart_is_said(
    tmp_path: Path, policy: str, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    folder = AccessFolder(tmp_path, "access: {queue: {maxInFlightPerReplica: 2, size: 3}}")

    async def act() -> None:
        async with routed(FakeEngine(), **folder.settings) as router:
            assert router._door is not None
            folder.policy.write_text(policy + "\n")
            router._door.watch.step()

    run_loop(act())

    assert ("takes a restart" in caplog.text) is told
