"""How addresses are written in flags, and read from them."""

from __future__ import annotations

import pytest

from hypertier.router.discovery.addresses import (
    Address,
    Service,
    parse_discover,
    parse_guardrail,
    parse_listen,
    parse_replica,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0:8000", Address("0.0.0.0", 8000)),
        ("[::]:0", Address("::", 0)),
        ("localhost:65535", Address("localhost", 65535)),
    ],
    ids=["ipv4", "ipv6", "name"],
)
def test_addresses_are_read_and_written_alike(text: str, expected: Address) -> None:
    listen = parse_listen("--listen", text)

    assert listen == expected
    assert str(listen) == text


def test_replica_and_discover_name_an_address() -> None:
    assert parse_replica("http://[fd00::1]:8000/") == Address("fd00::1", 8000)
    assert parse_discover("dns://engines.ns.svc:8000") == Address("engines.ns.svc", 8000)
    assert parse_discover("k8s://ns/engines:8000") == Service("ns", "engines", 8000)
    assert parse_discover("k8s://ns/engines:http") == Service("ns", "engines", "http")


def test_guardrail_has_a_path_of_its_own_or_the_root() -> None:
    assert parse_guardrail("http://guard:8000/v1/check") == (Address("guard", 8000), "/v1/check")
    assert parse_guardrail("http://[::1]:8000") == (Address("::1", 8000), "/")
