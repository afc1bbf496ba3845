"""What each worker is told to be."""

from __future__ import annotations

from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.router.discovery.addresses import Address
from hypertier.router.settings import MIB, RouterSettings
from hypertier.router.workers.channel import Begin
from hypertier.router.workers.plan import peer_address, ports_of_a_router, shares_news, worker_settings

LOOPBACK = [Address("127.0.0.1", 5001), Address("127.0.0.1", 5002)]
ENGINE = ("http://10.0.0.5:8000",)


def settings_of(**more: Any) -> RouterSettings:
    wanted = {"replicas": ENGINE, "workers": 2, "metrics_port": 9090}
    return RouterSettings(**(wanted | more))


def test_workers_by_themselves_tell_one_another_on_loopback() -> None:
    own = worker_settings(settings_of(), 1, LOOPBACK)

    assert own.peer == ("127.0.0.1:5001", "127.0.0.1:5002")
    assert own.peer_listen == "127.0.0.1:5002"
    assert (own.workers, ports_of_a_router(settings_of())) == (None, 1)


def test_workers_beside_other_routers_have_ports_in_a_row_by_which_those_find_them() -> None:
    settings = settings_of(peers="dns://routers:9091", peer_listen="0.0.0.0:9091")
    told = [peer_address(settings, slot) for slot in range(2)]

    own = worker_settings(settings, 1, told)

    assert own.peer_listen == "0.0.0.0:9092"
    assert (own.peers, own.peer) == ("dns://routers:9091", ())
    assert ports_of_a_router(settings) == 2


def test_bodies_are_divided_and_the_index_is_not() -> None:
    own = worker_settings(settings_of(max_buffered_bytes=1024 * MIB, index_bytes=MIB), 0, [])

    assert (own.max_buffered_bytes, own.index_bytes) == (512 * MIB, MIB)


@pytest.mark.parametrize(
    ("more", "shares"),
    [({}, True), ({"strategy": "roundrobin"}, False), ({"strategy": "roundrobin", "access": "a"}, True)],
)
def test_turns_without_limits_need_no_news(more: dict[str, Any], shares: bool) -> None:
    assert shares_news(settings_of(**more)) is shares


def test_what_a_worker_is_told_is_what_it_reads() -> None:
    begin = Begin(1, worker_settings(settings_of(), 1, LOOPBACK), [[3], [4, 5]], 6, None, 1)

    assert Begin.read(begin.told()) == begin


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        pytest.param({"workers": 0}, "--workers", id="none"),
        pytest.param({"workers": 65}, "--workers", id="more-than-may-connect"),
        pytest.param({"metrics_port": None}, "--metrics-port", id="metrics-of-one"),
        pytest.param({"max_buffered_bytes": 100 * MIB}, "--max-buffered-bytes", id="no-large-body-fits"),
        pytest.param(
            {"peers": "dns://a:9091", "peer_listen": "a:65535"}, "--peer-listen", id="no-port-for-the-second"
        ),
        pytest.param(
            {"peers": "dns://a:9091", "peer_listen": "a:0"}, "--peer-listen", id="port-nobody-finds"
        ),
    ],
)
def test_what_cannot_work_is_refused(wrong: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(**wrong)

    assert caught.value.setting == setting
