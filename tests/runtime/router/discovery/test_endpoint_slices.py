"""Which endpoints of a Service may get new requests."""

from __future__ import annotations

from typing import Any

import pytest
from fakes_endpoint_slices import endpoint, slice_of

from hypertier.router.discovery.endpoint_slices import EndpointSlices

A, B = "10.0.0.1", "10.0.0.2"


def listed(*slices: dict[str, Any], port: int | str = 8000) -> list[str]:
    """The addresses that these slices make."""
    known = EndpointSlices()
    known.replace(slices)
    return [str(address) for address in known.addresses(port)]


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        pytest.param([endpoint(A, ready=True)], [A], id="ready"),
        pytest.param([endpoint(A)], [A], id="unknown-is-ready"),
        pytest.param([endpoint(A, ready=False), endpoint(B, ready=True)], [B], id="not-yet-ready"),
        pytest.param(
            [endpoint(A, ready=False, serving=True, terminating=True), endpoint(B, ready=True)],
            [B],
            id="terminating",
        ),
        pytest.param(
            [endpoint(A, ready=False, serving=True, terminating=True), endpoint(B, ready=False)],
            [A],
            id="all-terminating-still-serve",
        ),
        pytest.param(
            [endpoint(A, ready=False, serving=False, terminating=True)], [], id="terminating-and-not-serving"
        ),
        pytest.param([endpoint(A, ready=True, terminating=True)], [A], id="published-whatever-its-state"),
        pytest.param([], [], id="none"),
    ],
)
def test_ready_endpoints_get_requests(endpoints: list[dict[str, Any]], expected: list[str]) -> None:
    assert listed(slice_of("s", *endpoints)) == [f"{host}:8000" for host in expected]


def test_slices_of_one_service_add_up() -> None:
    assert listed(slice_of("s1", endpoint(A)), slice_of("s2", endpoint(B))) == [f"{A}:8000", f"{B}:8000"]


def test_pod_that_moves_between_slices_counts_once() -> None:
    moving = endpoint(A, pod="p")

    assert listed(slice_of("s1", moving), slice_of("s2", moving)) == [f"{A}:8000"]


def test_pod_with_addresses_of_both_families_is_one_replica() -> None:
    slices = (
        slice_of("v6", endpoint("fd00::1", pod="p"), endpoint("fd00::2", pod="q"), family="IPv6"),
        slice_of("v4", endpoint(A, pod="p")),
    )

    assert listed(*slices) == [f"{A}:8000", "[fd00::2]:8000"]


def test_port_is_found_by_its_name() -> None:
    assert listed(slice_of("s", endpoint(A), port=9000), port="http") == [f"{A}:9000"]
    assert listed(slice_of("s", endpoint(A), port=9000), port="other") == []


def test_names_of_hosts_are_no_addresses() -> None:
    assert listed(slice_of("s", endpoint("example.com"), family="FQDN")) == []


def test_slice_that_is_dropped_takes_its_endpoints_along() -> None:
    known = EndpointSlices()
    known.replace([slice_of("s1", endpoint(A)), slice_of("s2", endpoint(B))])

    known.drop(slice_of("s1"))

    assert [address.host for address in known.addresses(8000)] == [B]
