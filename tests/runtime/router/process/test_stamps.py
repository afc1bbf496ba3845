"""Files that change while the router runs, whichever it is that reads them."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes_access import ZETA, AccessFolder
from fakes_engine import FakeEngine, run_loop
from fakes_router import routed
from fakes_tls import Authority

from hypertier.router.access import keys
from hypertier.router.http.tls import EngineTls, server_certificate
from hypertier.router.process.stamps import Complaint
from hypertier.router.routes.route_file import RouteFile
from hypertier.router.routes.routes import Routes

log = logging.getLogger("hypertier.router")


@contextmanager
def without_files_left() -> Iterator[None]:
    """This process can open no further file; what it has open stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def look_at_routes(folder: Path, looks: Callable[[Callable[[], None], Callable[[], None]], None]) -> bool:
    path, used = folder / "routes.yaml", list[Routes]()
    path.write_text("strategy: session")
    file = RouteFile(str(path), has_kvaware=False, use=used.append, complaint=Complaint(log.error, log.info))
    file.start()
    looks(lambda: path.write_text("strategy: roundrobin") and None, file.step)
    return [routes.strategy for routes in used] == ["session", "roundrobin"]


def look_at_a_certificate(
    folder: Path, looks: Callable[[Callable[[], None], Callable[[], None]], None]
) -> bool:
    authority = Authority(folder)
    cert, key = authority.issue("first")
    certificate = server_certificate(cert, key)
    looks(lambda: authority.issue("second, longer", at=Path(cert).parent) and None, certificate.refresh)
    return certificate.reloads["good"] == 1


def look_at_authorities(
    folder: Path, looks: Callable[[Callable[[], None], Callable[[], None]], None]
) -> bool:
    (folder / "other").mkdir()
    ca, other = Authority(folder).ca, Authority(folder / "other").ca
    authorities = EngineTls(ca).authorities
    both = Path(ca).read_text() + Path(other).read_text()
    looks(lambda: Path(ca).write_text(both) and None, authorities.refresh)
    return authorities.reloads["good"] == 1


def look_at_keys(folder: Path, looks: Callable[[Callable[[], None], Callable[[], None]], None]) -> bool:
    files = AccessFolder(folder)

    async def act() -> set[str]:
        async with routed(FakeEngine(), **files.settings) as router:
            door = router._door
            assert door is not None
            looks(lambda: files.write_keys(keys.line(ZETA, "zeta", None)), door.watch.step)
            return door.gate.ring.tenants

    return run_loop(act()) == {"zeta"}


LOOKS = pytest.mark.parametrize(
    "look", [look_at_routes, look_at_a_certificate, look_at_authorities, look_at_keys]
)


@LOOKS
def test_a_change_that_could_not_be_read_for_a_moment_is_read_at_the_next_look(
    tmp_path: Path, look: Callable[..., bool]
) -> None:
    """As where this process had no more files to open: a withdrawn key must not stay for that."""

    def looks(change: Callable[[], None], step: Callable[[], None]) -> None:
        change()
        with without_files_left():
            step()
        step()

    assert look(tmp_path, looks)


@LOOKS
def test_a_file_that_stays_unreadable_is_said_once_and_when_it_reads_again(
    tmp_path: Path, look: Callable[..., bool], caplog: pytest.LogCaptureFixture
) -> None:
    """A look each second or two would fill the log with one sentence."""
    caplog.set_level(logging.INFO, "hypertier.router")

    def looks(change: Callable[[], None], step: Callable[[], None]) -> None:
        change()
        caplog.clear()
        with without_files_left():
            for _ in range(5):
                step()
        step()

    assert look(tmp_path, looks)
    said = [record.getMessage() for record in caplog.records]
    assert sum("Too many open files" in line for line in said) == 1
    assert sum("again" in line for line in said) == 1


def test_a_file_that_changed_and_has_the_same_fault_is_said_again() -> None:
    said = list[str]()
    complaint = Complaint(said.append, said.append)

    for number in (1, 1, 2):
        complaint.failed("routes", "no YAML", number)

    assert said == ["routes: no YAML"] * 2
