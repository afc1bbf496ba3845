"""TLS towards clients and engines, with real certificates."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
from fakes_engine import FakeEngine, RawClient, Received, get, json_answer, post, run_loop
from fakes_router import routed
from fakes_tls import Authority

from hypertier.errors import ConfigError, SizeError
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.tls import Certificate, EngineTls, server_certificate
from hypertier.router.replicas.cache_sizes import Reading, read
from hypertier.router.replicas.sizing import fetch
from hypertier.router.settings import RouterSettings

METRICS = b"# nothing of a cache\n"
CHAT = b"/v1/chat/completions"


async def connect(port: int, tls: ssl.SSLContext) -> RawClient:
    return RawClient(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))


def subject(client: RawClient) -> str:
    """The name in the certificate that the router showed."""
    return str(client.writer.get_extra_info("peercert")["subject"][0][0][1])


def touched(certificate: Certificate, path: str) -> None:
    """Make sure that the file's time moved, however coarse the clock of the file system."""
    stat = os.stat(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
    certificate.refresh()


def test_clients_are_served_by_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("router")

    async def act() -> tuple[int, bytes, str]:
        async with routed(FakeEngine(), tls_cert=cert, tls_key=key) as router:
            client = await connect(router.port, authority.client())
            client.send(post(CHAT, b"{}") + get(b"/health"))
            first, _ = await client.answer(), await client.answer()
            return first.status, first.body, subject(client)

    assert run_loop(act()) == (200, b'{"served_by": "engine"}', "router")


@pytest.mark.parametrize("is_encrypted", [True, False], ids=["tls", "plain"])
def test_answer_without_a_length_that_breaks_off_does_not_end_like_a_whole_one(
    tmp_path: Path, is_encrypted: bool
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("router")
    settings = {"tls_cert": cert, "tls_key": key} if is_encrypted else {}

    async def begin(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await asyncio.Event().wait()

    async def act() -> None:
        async with routed(FakeEngine(begin), **settings) as router:
            reached = (
                connect(router.port, authority.client()) if is_encrypted else RawClient.connect(router.port)
            )
            client = await reached
            client.send(post(CHAT, b"{}", b"x-request-timeout: 0.2"))
            await client.reader.readuntil(b"hello")
            await client.reader.read()

    with pytest.raises(ConnectionError):
        run_loop(act())


def test_plain_http_to_a_tls_port_gets_nothing_and_harms_nobody(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("router")

    async def act() -> tuple[bytes, int]:
        async with routed(FakeEngine(), tls_cert=cert, tls_key=key) as router:
            plain = await RawClient.connect(router.port)
            plain.send(get(b"/health"))
            got = await plain.ended()
            client = await connect(router.port, authority.client())
            client.send(get(b"/health"))
            return got, (await client.answer()).status

    got, status = run_loop(act())

    assert b"HTTP/" not in got
    assert status == 200


def test_changed_certificate_is_shown_to_new_clients_and_old_ones_stay(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("first")

    async def act() -> tuple[str, str, int]:
        async with routed(FakeEngine(), tls_cert=cert, tls_key=key) as router:
            old = await connect(router.port, authority.client())
            authority.issue("second", at=Path(cert).parent)
            certificate = router.certificates[0]
            touched(certificate, cert)
            new = await connect(router.port, authority.client())
            old.send(get(b"/health"))
            status = (await old.answer()).status
            assert b'certificate_reloads_total{result="good"} 1.0' in router.metrics.text()
            return subject(old), subject(new), status

    assert run_loop(act()) == ("first", "second", 200)


def test_half_written_certificate_changes_nothing_and_is_counted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("first")
    certificate = server_certificate(cert, key)

    Path(cert).write_text("-----BEGIN CERTIFICATE-----\n")
    touched(certificate, cert)
    authority.issue("second", at=Path(cert).parent)
    touched(certificate, cert)

    assert certificate.reloads == {"failed": 1, "good": 1}


@pytest.mark.parametrize("mutual", [False, True], ids=["server", "mutual"])
def test_engines_are_spoken_to_by_tls(tmp_path: Path, mutual: bool) -> None:
    authority = Authority(tmp_path)
    settings: dict[str, Any] = {"replica_ca": authority.ca}
    if mutual:
        settings |= dict(zip(("replica_cert", "replica_key"), authority.issue("router"), strict=True))

    async def act() -> int:
        engine = FakeEngine(tls=authority.server(asks_client=mutual))
        async with routed(engine, **settings) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            return (await client.answer()).status

    assert run_loop(act()) == 200


@pytest.mark.parametrize("wrong", ["another-ca", "another-name", "no-certificate"])
def test_engine_that_is_not_verified_gets_no_request(tmp_path: Path, wrong: str) -> None:
    authority = Authority(tmp_path)
    trusted = Authority(tmp_path, "other").ca if wrong == "another-ca" else authority.ca
    host = "engine.example" if wrong == "another-name" else "127.0.0.1"

    async def act() -> tuple[int, int]:
        engine = FakeEngine(tls=authority.server(host=host, asks_client=wrong == "no-certificate"))
        async with routed(engine, replica_ca=trusted) as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            return (await client.answer()).status, len(engine.received)

    assert run_loop(act()) == (503, 0)


def test_engines_certificate_may_name_them_all_alike(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def act() -> int:
        engine = FakeEngine(tls=authority.server(host="engine.example"))
        async with routed(engine, replica_ca=authority.ca, replica_server_name="engine.example") as router:
            client = await RawClient.connect(router.port)
            client.send(post(CHAT, b"{}"))
            return (await client.answer()).status

    assert run_loop(act()) == 200


def test_engines_that_a_new_ca_signed_are_believed_beside_those_of_the_former(tmp_path: Path) -> None:
    former, new = Authority(tmp_path, "former"), Authority(tmp_path, "new")
    file = tmp_path / "ca.crt"
    file.write_text(Path(former.ca).read_text())
    tls = EngineTls(str(file))

    async def ask(authority: Authority) -> Reading:
        engine = await FakeEngine(metrics=METRICS, tls=authority.server()).start()
        return await asyncio.to_thread(fetch, Address("127.0.0.1", engine.port, tls))

    async def act() -> list[Reading]:
        with pytest.raises(SizeError):
            await ask(new)
        file.write_text(Path(new.ca).read_text())
        os.utime(file, ns=(0, 1))
        for each in tls.files:
            each.refresh()
        return [await ask(authority) for authority in (former, new)]

    assert run_loop(act()) == [read(METRICS)] * 2
    assert tls.authorities.reloads == {"good": 1}


def test_a_ca_that_can_not_be_used_changes_nothing_and_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(Path(Authority(tmp_path, "former").ca).read_text())
    tls = EngineTls(str(file))

    file.write_text("half a certif")
    tls.authorities.refresh()

    assert tls.authorities.reloads == {"failed": 1}


def test_what_is_asked_beside_requests_goes_by_tls_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = EngineTls(authority.ca, server_name="engine.example")

    async def act() -> Reading:
        engine = FakeEngine(metrics=METRICS, tls=authority.server(host="engine.example"))
        await engine.start()
        reading = await asyncio.to_thread(fetch, Address("127.0.0.1", engine.port, tls))
        await engine.kill()
        return reading

    assert run_loop(act()) == read(METRICS)


def test_models_are_asked_and_prompts_prefilled_by_tls_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def prefilled(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(json_answer(b'{"kv_transfer_params": {"remote_port": 1}}'))

    async def act() -> tuple[int, int, dict[str, int]]:
        prefiller = await FakeEngine(prefilled, tls=authority.server()).start()
        engine = FakeEngine(models=("m",), tls=authority.server())
        settings = {"replica_ca": authority.ca, "prefill_replicas": (prefiller.url,), "prefill_threshold": 1}
        try:
            async with routed(engine, **settings) as router:
                client = await RawClient.connect(router.port)
                statuses = []
                for model in ("m", "unknown"):
                    body = b'{"model": "%b", "messages": [{"content": "a long one"}]}' % model.encode()
                    client.send(post(b"/v1/chat/completions", body))
                    statuses.append((await client.answer()).status)
                assert router.front.prefillers is not None
                return statuses[0], statuses[1], dict(router.front.prefillers.legs)
        finally:
            await prefiller.kill()

    assert run_loop(act()) == (200, 404, {"good": 1})


def test_files_that_do_not_belong_together_are_refused_at_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, _ = authority.issue("one")
    _, key = authority.issue("two")

    with pytest.raises(ConfigError, match="--tls-cert"):
        server_certificate(cert, key)
    with pytest.raises(ConfigError, match="--replica-ca"):
        EngineTls(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"tls_cert": "a"}, "--tls-key"),
        ({"tls_key": "a"}, "--tls-cert"),
        ({"replica_ca": "c", "replica_cert": "a"}, "--replica-key"),
        ({"replica_cert": "a", "replica_key": "b"}, "--replica-cert"),
        ({"replica_server_name": "a"}, "--replica-server-name"),
    ],
)
def test_half_of_a_pair_is_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        RouterSettings(replicas=("http://127.0.0.1:1",), **settings)
