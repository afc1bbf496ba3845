"""A router captures what it answers, apart for each tenant, and never holds up or fails a request for it."""

from __future__ import annotations

import json
import logging
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes_engine import Answer, FakeEngine, RawClient, eventually, get, post, run_loop
from fakes_router import routed

from hypertier.capture_upload import waiting_in
from hypertier.router.admission import Arrival, Grant
from hypertier.router.app import Router
from hypertier.router.capture import capture as capture_module
from hypertier.router.capture.spool import LOOK_SECONDS, Spool, variant_of

PATH = b"/v1/completions"
BODY = b'{"model":"m","prompt":"p"}'


async def ask(router: Router, request: bytes = b"") -> Answer:
    client = await RawClient.connect(router.port)
    client.send(request or post(PATH, BODY, b"content-type: application/json"))
    return await client.answer()


def lines_in(spool: Path) -> list[tuple[str, Any]]:
    """What was captured, each line after its tenant's folder."""
    return [
        (file.relative_to(spool).parts[0], json.loads(line))
        for file in waiting_in(spool)
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def captured(
    act: Callable[[Router], Awaitable[object]], spool: Path, engine: FakeEngine | None = None, **settings: Any
) -> Counter[str]:
    """Run a router that captures, and return what it counted once it has ended."""

    async def run() -> Counter[str]:
        async with routed(engine or FakeEngine(), capture_spool=str(spool), **settings) as router:
            await act(router)
            capture = router.front.capture
            assert capture is not None
        assert capture.held_bytes == 0
        return +capture.counts

    return run_loop(run())


def test_what_is_asked_and_answered_lies_in_the_spool_once_the_router_ends(tmp_path: Path) -> None:
    async def act(router: Router) -> None:
        assert (await ask(router)).status == 200

    counts = captured(act, tmp_path)

    ((variant, line),) = lines_in(tmp_path)
    assert variant == "AllTraffic"
    assert line["captureData"]["endpointInput"]["data"] == BODY.decode()
    assert json.loads(line["captureData"]["endpointOutput"]["data"]) == {"served_by": "engine"}
    assert counts == {"captured": 1}


@pytest.mark.parametrize(
    ("request_bytes", "settings"),
    [
        pytest.param(post(PATH, BODY), {"capture_sampling_percentage": 0}, id="none is drawn"),
        pytest.param(get(b"/v1/models"), {}, id="nothing was said"),
    ],
)
def test_what_is_not_drawn_is_not_captured(
    request_bytes: bytes, settings: dict[str, Any], tmp_path: Path
) -> None:
    async def act(router: Router) -> None:
        await ask(router, request_bytes)

    assert captured(act, tmp_path, **settings) == Counter()
    assert lines_in(tmp_path) == []


def test_without_the_flag_nobody_captures() -> None:
    async def act() -> bool:
        async with routed(FakeEngine()) as router:
            return router.front.capture is None

    assert run_loop(act())


class Desk:
    """Lets all in, each as the tenant that its request names."""

    def admit(self, arrival: Arrival) -> None:
        arrival.proceed(Grant((arrival.request.field(b"x-tenant") or b"").decode()))


def test_tenants_lie_apart_whatever_they_are_called(tmp_path: Path) -> None:
    tenants = ["acme", "../acme", "a/b"]

    async def act(router: Router) -> None:
        for tenant in tenants * 2:
            await ask(router, post(PATH, BODY, b"x-tenant: %b" % tenant.encode()))

    counts = captured(act, tmp_path / "spool", admission=Desk(), capture_batch_size=2)

    found = Counter(variant for variant, _ in lines_in(tmp_path / "spool"))
    assert found == dict.fromkeys(map(variant_of, tenants), 2)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["spool"]
    assert counts == {"captured": 6}


def test_a_batch_that_is_full_does_not_wait(tmp_path: Path) -> None:
    async def act(router: Router) -> None:
        await ask(router)
        await ask(router)
        await eventually(lambda: len(lines_in(tmp_path)) == 2)

    captured(act, tmp_path, capture_batch_size=2)


def test_a_spool_that_takes_nothing_costs_records_and_no_answer(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")

    async def act(router: Router) -> None:
        assert (await ask(router)).status == 200

    assert captured(act, blocked) == {"failed": 1}


def test_a_spool_that_takes_nothing_is_said_before_anything_is_captured_and_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    said: list[list[str]] = []

    def note() -> None:
        said.append([line for line in caplog.messages if line.startswith("captured requests")])

    async def act(router: Router) -> None:
        note()
        assert (await ask(router)).status == 200

    captured(act, blocked / "captures")
    note()

    assert said == [["captured requests are lost: Not a directory"]] * 2


def test_a_spool_that_takes_files_has_none_before_anything_is_captured(tmp_path: Path) -> None:
    async def act(router: Router) -> None:
        assert list((tmp_path / "captures").iterdir()) == []

    assert captured(act, tmp_path / "captures") == {}


def test_a_spool_that_is_full_takes_no_more(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_bytes(b"x" * 1024 * 1024)

    async def act(router: Router) -> None:
        assert (await ask(router)).status == 200

    assert captured(act, tmp_path, capture_spool_bytes=1024 * 1024) == {"spool_full": 1}


def test_what_waits_to_be_written_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_module, "MAX_HELD_BYTES", 10)

    async def act(router: Router) -> None:
        assert (await ask(router)).status == 200

    assert captured(act, tmp_path) == {"busy": 1}


def test_a_client_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    engine = FakeEngine()

    async def act(router: Router) -> None:
        engine.frozen = True
        client = await RawClient.connect(router.port)
        client.send(post(PATH, BODY))
        await eventually(lambda: len(engine.received) > 0)
        client.close()
        capture = router.front.capture
        assert capture is not None
        await eventually(lambda: capture.held_bytes == 0)

    assert captured(act, tmp_path, engine) == {"not_answered": 1}
    assert lines_in(tmp_path) == []


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_unfinished_file_is_none(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1024)

    assert spool.write("acme", 0.0, [b"a\n", b"b\n"])
    assert not spool.write("acme", 0.0, [b"x" * 1024])
    (file,) = [entry for entry in tmp_path.rglob("*") if entry.is_file()]
    assert file.parent == tmp_path / "tenant=acme" / "1970" / "01" / "01" / "00"
    assert (file.read_bytes(), file.stat().st_mode & 0o77) == (b"a\nb\n", 0)


def test_what_was_carried_away_makes_room_again_at_the_next_look(tmp_path: Path) -> None:
    clock = Clock()
    spool = Spool(tmp_path, 10, now=clock)
    assert spool.write("", 0.0, [b"12345678"])
    for file in tmp_path.rglob("*.jsonl"):
        file.unlink()

    took = []
    for _ in range(2):
        took.append(spool.write("", 0.0, [b"12345678"]))
        clock.now += LOOK_SECONDS

    assert took == [False, True]


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """What is longer fails as it is written, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_nothing_of_what_it_has_no_room_for(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1024)

    with files_of_at_most(10), pytest.raises(OSError, match="too large"):
        spool.write("", 0.0, [b"x" * 100])

    assert [entry for entry in tmp_path.rglob("*") if entry.is_file()] == []
    assert spool.write("", 0.0, [b"x" * 100])


def test_a_full_disk_is_said_once_and_when_it_takes_records_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line for each batch, on the same disk perhaps, would help nobody."""
    caplog.set_level(logging.INFO, "hypertier.router")

    async def act(router: Router) -> None:
        capture = router.front.capture
        assert capture is not None
        with files_of_at_most(10):
            for number in range(1, 5):
                assert (await ask(router)).status == 200
                await eventually(lambda number=number: capture.counts["failed"] == number)  # type: ignore[misc]
        await ask(router)

    assert captured(act, tmp_path, capture_batch_size=1) == {"failed": 4, "captured": 1}
    said = [line for line in caplog.messages if line.startswith("captured requests")]
    assert said == ["captured requests are lost: File too large", "captured requests are written again"]
