"""A pod is one, whatever its addresses."""

from __future__ import annotations

import socket

import pytest

from hypertier.dns_answers import Found, hosts_of_one_family

V4: Found = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80))
OTHER_V4: Found = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 80))
V6: Found = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::1", 80, 0, 0))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([V6, OTHER_V4, V4], ["10.0.0.1", "10.0.0.2"], id="both"),
        pytest.param([V4, V4], ["10.0.0.1"], id="twice"),
        pytest.param([V6], ["fd00::1"], id="IPv6"),
        pytest.param([], [], id="none"),
    ],
)
def test_a_pod_with_an_address_of_each_family_counts_once(found: list[Found], expected: list[str]) -> None:
    assert hosts_of_one_family(found) == expected
