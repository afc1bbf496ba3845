"""Files that Kubernetes mounts and swaps while the router runs."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from fakes_access import ACME, CHAT, ZETA, bearer
from fakes_engine import FakeEngine, RawClient, post, run_loop
from fakes_mounts import Mounted
from fakes_router import routed
from fakes_tls import Authority

from hypertier.router.access import keys
from hypertier.router.app import Router
from hypertier.router.http.tls import Certificate

CERT, KEY = "tls.crt", "tls.key"


def pair(authority: Authority, name: str) -> dict[str, bytes]:
    return {Path(path).name: Path(path).read_bytes() for path in authority.issue(name)}


class Swapped(ssl.SSLContext):
    """A context; its files are swapped as it is about to load them."""

    def load_cert_chain(self, *args: Any, **named: Any) -> None:
        self.swap()
        super().load_cert_chain(*args, **named)

    def swap(self) -> None:
        pass


def handshakes(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Raises SSLError where they do not agree."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(there, back, server_hostname="127.0.0.1"), server.wrap_bio(back, there, True)]
    for side in sides * 2:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_a_pair_that_is_swapped_as_it_is_read_is_never_half_a_pair(tmp_path: Path) -> None:
    """Between the look whether both halves belong together and their use."""
    authority = Authority(tmp_path)
    mounted = Mounted(tmp_path / "mount", pair(authority, "first"))
    context = Swapped(ssl.PROTOCOL_TLS_SERVER)
    certificate = Certificate(context, mounted.path(CERT), mounted.path(KEY), "--tls-cert")
    second, third = pair(authority, "second"), pair(authority, "third")
    context.swap = lambda: mounted.swap({CERT: third[CERT], KEY: second[KEY]})  # type: ignore[method-assign]

    mounted.swap(second)
    certificate.refresh()

    assert certificate.reloads == {"good": 1}
    handshakes(context, authority.client())


async def asked(router: Router, key: str) -> int:
    client = await RawClient.connect(router.port)
    client.send(post(CHAT, b'{"model": "m", "messages": []}', bearer(key)))
    return (await client.answer()).status


@pytest.mark.parametrize("broken", ["strategy: [", "\udcff"], ids=["yaml", "bytes"])
def test_a_live_router_takes_what_is_swapped_and_nothing_of_what_is_broken(
    tmp_path: Path, broken: str
) -> None:
    """All files of one mount, through a swap to broken ones and the next to good ones."""

    def secret(line: str, routes: str) -> dict[str, bytes | str]:
        told = routes.encode("utf-8", "surrogateescape")
        return {"keys": line, "routes.yaml": told, "access.yaml": "access: {sharedCache: true}\n"}

    acme, zeta = keys.line(ACME, "acme", None), keys.line(ZETA, "zeta", None)

    async def act() -> tuple[list[list[int]], dict[str, int]]:
        mounted = Mounted(tmp_path / "mount", secret(acme, "strategy: session"))
        files = {"api_keys": "keys", "access": "access.yaml", "routes": "routes.yaml"}
        settings = {flag: mounted.path(name) for flag, name in files.items()}
        async with routed(FakeEngine(), metrics_port=0, **settings) as router:
            assert router._door is not None
            assert router._route_file is not None
            statuses = [[await asked(router, ACME), await asked(router, ZETA)]]
            for line, routes in (("not a line of keys", broken), (zeta, "strategy: roundrobin")):
                mounted.swap(secret(line, routes))
                router._door.watch.step()
                router._route_file.step()
                statuses.append([await asked(router, ACME), await asked(router, ZETA)])
            return statuses, dict(router._route_file.reads)

    statuses, reads = run_loop(act())

    assert statuses == [[200, 401], [200, 401], [401, 200]]
    assert reads == {"good": 2, "failed": 1}
