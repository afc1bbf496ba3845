"""Replicas kept in step with EndpointSlices, against a server that speaks the API's protocol over TLS."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from fakes_endpoint_slices import SlicesApi, endpoint, slice_of
from fakes_engine import eventually, run_loop

from hypertier.errors import ConfigError
from hypertier.router.discovery import slice_discovery
from hypertier.router.discovery.addresses import Service
from hypertier.router.discovery.api_server import in_cluster
from hypertier.router.discovery.slice_discovery import CHANGES_A_TURN, SliceDiscovery
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.telemetry.metrics import DiscoveryCounts

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def said(what: bytes, instead: bytes) -> bytes:
    """The event of a slice of B, one thing of it another."""
    thing = slice_of("s1", endpoint(B, pod="b", ready=True))
    thing["metadata"]["resourceVersion"] = "9999"
    line = json.dumps({"type": "MODIFIED", "object": thing}).encode()
    assert what in line
    return line.replace(what, instead) + b"\n"


class Followed:
    """A router's list that follows the API."""

    def __init__(self, api: SlicesApi) -> None:
        self.api = api
        self.now = 0.0
        self.replicas = ReplicaSet()
        self.reports: list[str] = []
        self.counts = DiscoveryCounts(lambda: self.now, self.reports.append)
        self.pauses: list[float] = []
        self.discovery = SliceDiscovery(
            api.server,
            Service("ns", "engine", 8000),
            self.replicas,
            self.counts,
            now=lambda: self.now,
            sleep=self._nap,
        )

    @property
    def naps(self) -> int:
        """How often it waited after a failure; `pauses` are for how long."""
        return len(self.pauses)

    async def _nap(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0.002)

    @property
    def hosts(self) -> list[str]:
        """What is listed now."""
        return sorted(replica.address.host for replica in self.replicas.by_url.values())

    async def sees(self, *hosts: str) -> None:
        """Return once exactly these are listed."""
        await eventually(lambda: self.hosts == sorted(hosts))

    async def watches(self) -> None:
        """Return once the server has one watch more."""
        before = self.api.num_watches
        await eventually(lambda: self.api.num_watches > before)


def follow(folder: Path, act: Callable[[Followed], Awaitable[None]]) -> Followed:
    """Follow a Service of one ready engine, A, and act on its API."""

    async def run() -> Followed:
        api = await SlicesApi(folder).start()
        api.put(slice_of("s1", endpoint(A, ready=True)))
        api.put(slice_of("foreign", endpoint("10.9.9.9", ready=True), service="router"))
        followed = Followed(api)
        await followed.discovery.step()
        task = asyncio.create_task(followed.discovery.run())
        await eventually(lambda: api.num_watches == 1)
        try:
            await act(followed)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await api.stop()
        return followed

    return run_loop(run())


def test_first_step_lists_what_is_there(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        assert followed.hosts == [A]

    followed = follow(tmp_path, act)

    assert followed.counts.answers["list"] == 1


def test_every_change_is_followed_as_it_happens(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        followed.api.put(slice_of("s2", endpoint(B)))
        await followed.sees(A, B)
        followed.api.put(slice_of("s1", endpoint(A), endpoint(C)))
        await followed.sees(A, B, C)
        followed.api.put(
            slice_of("s1", endpoint(C), endpoint(A, ready=False, serving=True, terminating=True))
        )
        await followed.sees(B, C)
        followed.api.delete("s2")
        await followed.sees(C)

    followed = follow(tmp_path, act)

    assert followed.api.num_watches == 1
    assert followed.counts.answers == {"list": 1, "added": 1, "modified": 2, "deleted": 1}


def test_a_long_list_comes_and_goes_in_pieces(tmp_path: Path) -> None:
    """Each of its replicas is a health check, a place in the strategy's index, and a line in the log."""
    hosts = [f"10.1.{number // 100}.{number % 100}" for number in range(420)]

    async def act(followed: Followed) -> None:
        turn, changed = 0, Counter[int]()

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        followed.replicas.watch(lambda replica, reason: changed.update([turn]))
        counting = asyncio.create_task(count_turns())
        followed.api.put(slice_of("s2", *map(endpoint, hosts)))
        await followed.sees(A, *hosts)
        followed.api.delete("s2")
        await followed.sees(A)
        counting.cancel()

        assert max(changed.values()) == CHANGES_A_TURN
        assert changed.total() == 2 * len(hosts)

    follow(tmp_path, act)


def test_what_happens_while_the_watch_is_cut_is_not_lost(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        followed.api.put(slice_of("s2", endpoint(B)))
        await followed.sees(A, B)
        followed.api.cut()
        followed.api.delete("s1")
        followed.api.put(slice_of("s3", endpoint(C)))
        await followed.sees(B, C)

    followed = follow(tmp_path, act)

    assert followed.counts.answers["list"] == 1  # the watch went on where it had been
    assert followed.counts.failures.total() > 0


@pytest.mark.parametrize("status", [410, 504], ids=["gone", "too-large-version"])
def test_version_that_the_server_does_not_take_is_listed_anew(tmp_path: Path, status: int) -> None:
    async def act(followed: Followed) -> None:
        followed.api.cut()
        followed.api.delete("s1")
        followed.api.put(slice_of("s2", endpoint(B)))
        if status == 410:
            followed.api.compact()
        else:
            followed.api.restore()
        await followed.sees(B)
        await eventually(lambda: followed.api.num_watches >= 3)
        followed.api.put(slice_of("s2", endpoint(C)))
        await followed.sees(C)

    followed = follow(tmp_path, act)

    assert followed.counts.answers["list"] == 2
    assert followed.counts.failures["expired"] == 1


def test_bookmark_keeps_a_quiet_watch_young(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        followed.api.bookmark()
        await eventually(lambda: followed.counts.answers["bookmark"] == 1)
        followed.api.oldest = followed.api.version
        followed.api.cut()
        await followed.watches()
        followed.api.put(slice_of("s2", endpoint(B)))
        await followed.sees(A, B)

    followed = follow(tmp_path, act)

    assert followed.counts.answers["list"] == 1


def test_last_list_outlives_the_api(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        await followed.api.stop()
        await eventually(lambda: followed.naps >= 5)
        assert followed.hosts == [A]
        followed.api.put(slice_of("s1", endpoint(B)))
        await followed.api.start()
        await followed.sees(B)

    followed = follow(tmp_path, act)

    assert followed.counts.failures["connect"] >= 4
    assert len([report for report in followed.reports if "127.0.0.1" in report]) <= 2  # said, not repeated


@pytest.mark.parametrize(
    ("status", "cause"),
    [(401, "unauthorized"), (403, "forbidden"), (429, "status_429"), (500, "status_500")],
)
def test_refusal_is_counted_by_its_cause_and_changes_nothing(tmp_path: Path, status: int, cause: str) -> None:
    async def act(followed: Followed) -> None:
        followed.api.answer_with = status
        followed.api.cut()
        await eventually(lambda: followed.counts.failures[cause] >= 2)
        assert followed.hosts == [A]
        followed.api.answer_with = 0
        followed.api.put(slice_of("s1", endpoint(B)))
        await followed.sees(B)

    followed = follow(tmp_path, act)

    assert followed.naps >= 2


def test_token_is_read_anew_as_kubelet_replaces_it(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        followed.api.token = "token-2"
        followed.api.cut()
        await eventually(lambda: followed.counts.failures["unauthorized"] > 0)
        (tmp_path / "token").write_text("token-2\n")
        followed.api.put(slice_of("s1", endpoint(B)))
        await followed.sees(B)

    follow(tmp_path, act)


@pytest.mark.parametrize(
    "line",
    [
        b"{]\n",
        b'{"type":"NEWS","object":{"metadata":{"resourceVersion":"1"}}}\n',
        b'{"type":"ADDED"}\n',
        b"[]\n",
        b"[" * 100_000 + b"\n",
        said(b'"port": 8000', b'"port": 70000'),
        said(b'"port": 8000', b'"port": 1e999'),
        said(b'"10.0.0.2"', b'"no address"'),
    ],
    ids=["no-json", "no-type", "no-object", "a-list", "deep", "port", "infinite", "address"],
)
def test_event_that_makes_no_sense_is_counted_and_all_is_listed(tmp_path: Path, line: bytes) -> None:
    async def act(followed: Followed) -> None:
        followed.api.say(line)
        await eventually(lambda: followed.counts.answers["list"] == 2)
        assert followed.hosts == [A]

    followed = follow(tmp_path, act)

    assert followed.counts.failures["malformed"] == 1


@pytest.mark.parametrize("name", [["a"], {"a": 1}, None])
def test_a_pod_or_slice_of_any_name_is_one(tmp_path: Path, name: object) -> None:
    async def act(followed: Followed) -> None:
        named = endpoint(B, pod="b", ready=True)
        named["targetRef"]["uid"] = name
        followed.api.put(slice_of("s2", named))
        await followed.sees(A, B)

    follow(tmp_path, act)


def test_a_watch_that_ends_inside_a_line_goes_on_before_it(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        followed.api.say(said(b"9999", b"9999")[:-20])
        followed.api.cut()
        await followed.watches()
        followed.api.put(slice_of("s1", endpoint(C, ready=True)))
        await followed.sees(C)

    followed = follow(tmp_path, act)

    assert followed.counts.answers["list"] == 1
    assert followed.counts.failures["malformed"] == 0


def test_an_api_that_is_away_at_the_start_is_followed_once_it_is_there(tmp_path: Path) -> None:
    async def act() -> tuple[list[str], int]:
        api = await SlicesApi(tmp_path).start()
        api.put(slice_of("s1", endpoint(A, ready=True)))
        await api.stop()
        followed = Followed(api)
        await followed.discovery.step()
        found = followed.hosts
        task = asyncio.create_task(followed.discovery.run())
        await eventually(lambda: followed.naps > 3)
        await api.start()
        await followed.sees(A)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await api.stop()
        return found, len(followed.reports)

    assert run_loop(act()) == ([], 1)


def test_a_token_that_is_none_is_a_failure_like_others(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        (tmp_path / "token").write_bytes(b"\xff\xfe")
        followed.api.cut()
        await eventually(lambda: followed.counts.failures["connect"] > 1)
        (tmp_path / "token").write_text(followed.api.token)
        followed.api.put(slice_of("s1", endpoint(B)))
        await followed.sees(B)

    follow(tmp_path, act)


def test_watch_that_went_silent_is_made_up_for_by_the_resync(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        followed.api.silent = True
        followed.api.put(slice_of("s1", endpoint(B)))
        followed.now += slice_discovery.RESYNC_SECONDS
        followed.api.cut()
        await followed.sees(B)

    followed = follow(tmp_path, act)

    assert followed.counts.answers["list"] == 2


@pytest.mark.parametrize("trouble", ["refused", "slow"])
def test_resync_that_fails_leaves_the_watch_on_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """As where an API server with too much to do sheds lists, which cost it most."""
    monkeypatch.setattr(slice_discovery, "LIST_SECONDS", 0.03)

    async def act(followed: Followed) -> None:
        api = followed.api
        api.list_with, api.slow = (429, False) if trouble == "refused" else (0, True)
        followed.now += slice_discovery.RESYNC_SECONDS
        api.cut()
        await eventually(lambda: api.num_watches >= 2)
        api.put(slice_of("s2", endpoint(B)))
        await followed.sees(A, B)
        assert followed.counts.answers["list"] == 1

        api.list_with, api.slow = 0, False
        followed.now += slice_discovery.RETRY_RESYNC_SECONDS
        api.cut()
        await eventually(lambda: followed.counts.answers["list"] == 2)

    followed = follow(tmp_path, act)

    assert followed.counts.failures["status_429" if trouble == "refused" else "timeout"] == 1


def test_list_that_goes_on_for_ever_is_given_up_and_nothing_is_forgotten_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_discovery, "LIST_SECONDS", 0.03)

    async def act(followed: Followed) -> None:
        followed.api.slow = True
        followed.api.compact()
        followed.api.cut()
        await eventually(lambda: followed.counts.failures["timeout"] >= 2)
        assert followed.hosts == [A]
        followed.api.put(slice_of("s2", endpoint(B)))
        followed.api.slow = False
        await followed.sees(A, B)

    follow(tmp_path, act)


def test_watch_that_the_server_ends_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_discovery, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(slice_discovery, "SHORT_WATCH_SECONDS", 0.0)

    async def act(followed: Followed) -> None:
        await eventually(lambda: followed.counts.answers["watched"] >= 2)
        followed.api.put(slice_of("s2", endpoint(B)))
        await followed.sees(A, B)

    followed = follow(tmp_path, act)

    assert followed.counts.answers["list"] == 1
    assert followed.naps == 0


@pytest.fixture
def longest_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_discovery.random, "uniform", lambda least, most: most)


FEWER_EACH_TIME = [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]


@pytest.mark.usefixtures("longest_pauses")
def test_server_that_ends_every_watch_at_once_is_asked_ever_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_discovery, "WATCH_SECONDS", 0)

    async def act(followed: Followed) -> None:
        followed.api.cut()
        await eventually(lambda: followed.naps >= len(FEWER_EACH_TIME))
        followed.api.put(slice_of("s2", endpoint(B)))
        await followed.sees(A, B)

    followed = follow(tmp_path, act)

    assert followed.pauses[: len(FEWER_EACH_TIME)] == pytest.approx(FEWER_EACH_TIME)
    assert followed.counts.failures["closed"] >= len(FEWER_EACH_TIME)


@pytest.mark.usefixtures("longest_pauses")
def test_server_that_lists_and_takes_no_watch_is_asked_ever_less(tmp_path: Path) -> None:
    async def act(followed: Followed) -> None:
        followed.api.oldest = 10**9  # every version is too old as soon as it is given out
        followed.api.cut()
        await eventually(lambda: followed.naps >= len(FEWER_EACH_TIME))
        followed.api.put(slice_of("s2", endpoint(B)))
        await followed.sees(A, B)

    followed = follow(tmp_path, act)

    assert followed.pauses[: len(FEWER_EACH_TIME)] == pytest.approx(FEWER_EACH_TIME)


@pytest.mark.usefixtures("longest_pauses")
def test_watches_that_are_cut_now_and_then_are_taken_up_soon_each_time(tmp_path: Path) -> None:
    """As by what stands between and drops connections that were quiet for a minute."""

    async def act(followed: Followed) -> None:
        for number in range(6):
            followed.now += 60.0
            followed.api.cut()
            await eventually(lambda number=number: followed.api.num_watches >= number + 2)

    followed = follow(tmp_path, act)

    assert followed.pauses == pytest.approx([0.4] * 6)


@pytest.mark.usefixtures("longest_pauses")
def test_watches_that_told_something_and_were_cut_are_taken_up_soon_each_time(tmp_path: Path) -> None:
    """A server that restarts again and again while pods come and go: each of them is news."""

    async def act(followed: Followed) -> None:
        for number in range(6):
            followed.api.put(slice_of("s2", endpoint(f"10.0.1.{number}")))
            await followed.sees(A, f"10.0.1.{number}")
            followed.api.cut()
            await eventually(lambda number=number: followed.api.num_watches >= number + 2)

    followed = follow(tmp_path, act)

    assert followed.pauses == pytest.approx([0.4] * 6)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux tells of its sockets' timers there")
def test_kernel_asks_whether_a_quiet_server_is_still_there(tmp_path: Path) -> None:
    """A host that vanished closes no connection."""

    async def act(followed: Followed) -> None:
        port = b":%04X" % followed.api.server.address.port
        lines = [line.split() for line in Path("/proc/net/tcp").read_bytes().splitlines()[1:]]
        timers = [line[5][:2] for line in lines if line[2].endswith(port) and line[3] == b"01"]
        assert timers == [
            b"02"
        ]  # keepalive: https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt

    follow(tmp_path, act)


def test_server_that_says_nothing_at_all_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(followed: Followed) -> None:
        monkeypatch.setattr(slice_discovery, "SLACK_SECONDS", 0.02 - slice_discovery.WATCH_SECONDS)
        followed.api.cut()
        await eventually(lambda: followed.counts.failures["timeout"] > 0)

    follow(tmp_path, act)


def test_another_ca_than_the_pods_is_not_believed(tmp_path: Path) -> None:
    from fakes_kubernetes import Authority

    async def act(followed: Followed) -> None:
        (tmp_path / "ca.crt").write_text(Authority.create().pem)
        followed.api.put(slice_of("s1", endpoint(B)))
        await followed.sees(B)
        followed.api.cut()
        followed.api.put(slice_of("s1", endpoint(C)))
        await eventually(lambda: followed.counts.failures["connect"] >= 2)
        assert followed.hosts == [B]

    follow(tmp_path, act)


@pytest.mark.parametrize(
    ("environ", "files", "named"),
    [
        pytest.param({}, ("token", "ca.crt"), "KUBERNETES_SERVICE_HOST", id="not-in-a-pod"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "x"}, (), "PORT", id="port"),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "a", "KUBERNETES_SERVICE_PORT": "443"},
            ("ca.crt",),
            "automountServiceAccountToken",
            id="no-token",
        ),
    ],
)
def test_pod_without_access_is_told_what_is_missing(
    tmp_path: Path, environ: dict[str, str], files: tuple[str, ...], named: str
) -> None:
    for name in files:
        (tmp_path / name).write_text("x")

    with pytest.raises(ConfigError, match=named) as caught:
        in_cluster("--discover", Service("ns", "engine", 1), environ, tmp_path)

    assert caught.value.setting == "--discover"
    assert caught.value.got == "k8s://ns/engine:1"


@pytest.mark.parametrize(("code", "cause"), [(410, "expired"), (504, "expired"), (500, "status_500")])
def test_a_watch_from_a_version_that_is_gone_or_not_seen_asks_for_a_new_list(code: int, cause: str) -> None:
    assert slice_discovery._watch_error({"code": code, "message": "no"}).cause == cause
