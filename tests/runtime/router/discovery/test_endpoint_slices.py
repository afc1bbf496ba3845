"""Which endpoints of a Service may get new requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from fakes_endpoint_slices import endpoint, slice_of
from hypothesis import given
from hypothesis import strategies as st

from hypertier.router.discovery.addresses import Address
from hypertier.router.discovery.endpoint_slices import FAMILIES, EndpointSlices, endpoints_of

A, B = "10.0.0.1", "10.0.0.2"


def listed(*slices: dict[str, Any], port: int | str = 8000) -> list[str]:
    """The addresses that these slices make."""
    known = EndpointSlices(port)
    known.replace(slices)
    came, gone = known.changes()
    assert not gone
    return [str(address) for address in came]


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
    known = EndpointSlices(8000)
    known.replace([slice_of("s1", endpoint(A)), slice_of("s2", endpoint(B))])
    known.changes()

    known.drop(slice_of("s1"))

    assert known.changes() == ([], [Address(A, 8000)])


def test_an_event_that_is_no_slice_changes_nothing() -> None:
    known = EndpointSlices(8000)
    known.replace([slice_of("s1", endpoint(A))])
    known.changes()

    with pytest.raises(ValueError, match="no address"):
        known.replace([slice_of("s2", endpoint(B)), slice_of("s3", endpoint("no address"))])

    assert known.changes() == ([], [])


def where_new_requests_go(slices: Iterable[dict[str, Any]]) -> set[Address]:
    """By the rule as it is written, over all that there is."""
    known = [one for slice_ in slices for one in endpoints_of(slice_)]
    ready = [one for one in known if one.is_ready]
    chosen = ready or [one for one in known if one.is_serving and one.is_terminating]
    by_pod: dict[str, Address] = {}
    for one in sorted(chosen, key=lambda one: FAMILIES.index(one.family)):
        number = dict(one.ports).get("http")
        if number is not None:
            by_pod.setdefault(one.pod, Address(one.host, number))
    return set(by_pod.values())


STATES = ({"ready": True}, {"ready": False}, {"ready": False, "serving": True, "terminating": True}, {})
PODS = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(STATES), st.booleans()), max_size=4)
EVENTS = st.tuples(
    st.sampled_from(["put", "put", "put", "drop", "list"]),
    st.sampled_from(["s1", "s2", "s3"]),
    PODS,
    st.sampled_from(["IPv4", "IPv6"]),
    st.booleans(),
)


@given(st.lists(EVENTS, max_size=25))
def test_changes_add_up_to_where_new_requests_may_go(events: list[tuple[str, str, Any, str, bool]]) -> None:
    """Whatever comes, goes, moves, is no longer ready, and however much of it between two looks."""
    known, slices, told = EndpointSlices("http"), dict[str, dict[str, Any]](), set[Address]()

    for kind, name, pods, family, looks in events:
        host = "10.0.0.{}" if family == "IPv4" else "fd00::{}"
        endpoints = [
            endpoint(host.format(pod), pod=f"p{pod}" if is_named else None, **state)
            for pod, state, is_named in pods
        ]
        made = slice_of(name, *endpoints, family=family)
        if kind == "put":
            slices[name] = made
            known.put(made)
        elif kind == "drop":
            slices.pop(name, None)
            known.drop(made)
        else:
            slices = {name: made}
            known.replace([made])
        if looks:
            came, gone = known.changes()
            assert not told & set(came)
            assert set(gone) <= told
            told = (told | set(came)) - set(gone)
            assert told == where_new_requests_go(slices.values())

    known.replace([])
    assert set(known.changes()[1]) == told
    assert (known._by_pod, known._told, known._num_told) == ({}, {}, {})


def test_one_pod_that_changes_is_no_work_for_all_the_others() -> None:
    """As of a rolling restart, which is an event for each pod, of the hundred that its slice names."""
    known = EndpointSlices(8000)
    slices = [
        slice_of(f"s{each}", *(endpoint(f"10.0.{each}.{pod}", pod=f"{each}-{pod}") for pod in range(100)))
        for each in range(20)
    ]
    known.replace(slices)
    known.changes()
    looked_at: list[str] = []
    look = known._address_of

    def noted(pod: str) -> Address | None:
        looked_at.append(pod)
        return look(pod)

    known._address_of = noted  # type: ignore[method-assign]
    slices[3]["endpoints"][5] = endpoint("10.1.0.0", pod="another")
    known.put(slices[3])
    came, gone = known.changes()

    assert ([one.host for one in came], [one.host for one in gone]) == (["10.1.0.0"], ["10.0.3.5"])
    assert sorted(looked_at) == ["uid-3-5", "uid-another"]
