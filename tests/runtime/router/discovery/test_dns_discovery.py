"""Replicas kept in step with DNS."""

from __future__ import annotations

import asyncio

import pytest

from hypertier.router.discovery.addresses import Address
from hypertier.router.discovery.dns_discovery import MAX_EMPTY_ANSWERS, DnsDiscovery, resolve
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.telemetry.metrics import DiscoveryCounts

A, B = Address("10.0.0.1", 80), Address("10.0.0.2", 80)


def after(*answers: list[Address] | None) -> list[str]:
    """The replicas listed once DNS has given these answers, one a step."""
    replicas, waiting = ReplicaSet(), list(answers)

    async def answer(target: Address) -> list[Address] | None:
        return waiting.pop(0)

    async def act() -> None:
        discovery = DnsDiscovery(
            Address("e", 80), replicas, DiscoveryCounts(float, str), interval_seconds=1, resolve=answer
        )
        while waiting:
            await discovery.step()

    asyncio.run(act())
    return [replica.address.host for replica in replicas.by_url.values()]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([[A, B]], [A, B], id="first"),
        pytest.param([[A], [B]], [B], id="replaced"),
        pytest.param([[A], None, None, None, None], [A], id="dns-down"),
        pytest.param([[A], *[[]] * (MAX_EMPTY_ANSWERS - 1)], [A], id="empty-for-a-moment"),
        pytest.param([[A], *[[]] * MAX_EMPTY_ANSWERS], [], id="empty-for-good"),
        pytest.param([[A], [], [], [A], [], []], [A], id="empty-now-and-then"),
        pytest.param([None], [], id="never"),
    ],
)
def test_list_follows_dns_and_outlives_its_hiccups(
    answers: list[list[Address] | None], expected: list[Address]
) -> None:
    assert after(*answers) == [address.host for address in expected]


def test_name_is_resolved_to_its_addresses() -> None:
    found = asyncio.run(resolve(Address("127.0.0.1", 8000)))

    assert found == [Address("127.0.0.1", 8000)]


def test_name_that_does_not_exist_is_not_a_list() -> None:
    found = asyncio.run(resolve(Address("no-such-name.invalid", 8000)))

    assert not found
