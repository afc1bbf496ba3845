"""Which pods a Service sends to, as Kubernetes' EndpointSlices tell it: values in, addresses out.

https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/ (read 2026-12-01)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from hypertier.router.discovery.addresses import Address

# Of a pod with addresses of both families one counts: two would be two replicas with half its load each.
FAMILIES = ("IPv4", "IPv6")


class Endpoint(NamedTuple):
    """One address of one pod. `pod` tells the addresses of one pod; `ports` are a slice's, by name."""

    pod: str
    family: str
    host: str
    ports: tuple[tuple[str, int], ...]
    is_ready: bool
    is_serving: bool
    is_terminating: bool


def endpoints_of(slice_: Mapping[str, Any]) -> list[Endpoint]:
    """The endpoints of one EndpointSlice, as its JSON; of another address type than an IP family, none.

    Raises ValueError, LookupError, TypeError or AttributeError for what is no EndpointSlice.
    """
    family = slice_.get("addressType")
    if family not in FAMILIES:
        return []
    ports = tuple(
        (str(port.get("name") or ""), _number(port["port"]))
        for port in slice_.get("ports") or ()
        if port.get("port") is not None
    )
    return [
        _endpoint(endpoint, family, ports)
        for endpoint in slice_.get("endpoints") or ()
        if endpoint["addresses"]
    ]


def _endpoint(endpoint: Mapping[str, Any], family: str, ports: tuple[tuple[str, int], ...]) -> Endpoint:
    """What is left out of the conditions: ready and serving, and not about to end."""
    conditions = endpoint.get("conditions") or {}
    target = endpoint.get("targetRef") or {}
    # The others, if any, are to be ignored: the API's own words.
    host = str(ip_address(str(endpoint["addresses"][0])))
    is_ready = conditions.get("ready") is not False
    serving = conditions.get("serving")
    return Endpoint(
        pod=str(target.get("uid") or host),
        family=family,
        host=host,
        ports=ports,
        is_ready=is_ready,
        is_serving=is_ready if serving is None else bool(serving),
        is_terminating=bool(conditions.get("terminating")),
    )


def _number(port: object) -> int:
    if type(port) is not int or not 0 < port < 65536:
        raise ValueError(f"a port of {port!r}")
    return port


class EndpointSlices:
    """All slices of one Service, kept in step by a list and the events that follow it."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Endpoint]] = {}

    def replace(self, slices: Iterable[Mapping[str, Any]]) -> None:
        """These, and no others: what a list says."""
        self._by_name = {str(slice_["metadata"]["name"]): endpoints_of(slice_) for slice_ in slices}

    def put(self, slice_: Mapping[str, Any]) -> None:
        """One was added or changed."""
        self._by_name[str(slice_["metadata"]["name"])] = endpoints_of(slice_)

    def drop(self, slice_: Mapping[str, Any]) -> None:
        """One was deleted."""
        self._by_name.pop(str(slice_["metadata"]["name"]), None)

    def addresses(self, port: int | str) -> list[Address]:
        """Where new requests may go, sorted: every ready pod once, on a port or the port of that name.

        Where no pod is ready, those that still serve while they end: as kube-proxy does, since a request that
        they finish is better than one that nobody takes
        (https://kubernetes.io/docs/concepts/services-networking/service/, read 2026-12-01).
        """
        known = [endpoint for endpoints in self._by_name.values() for endpoint in endpoints]
        chosen = [endpoint for endpoint in known if endpoint.is_ready] or [
            endpoint for endpoint in known if endpoint.is_serving and endpoint.is_terminating
        ]
        by_pod: dict[str, Address] = {}
        for endpoint in sorted(chosen, key=lambda endpoint: FAMILIES.index(endpoint.family)):
            number = port if isinstance(port, int) else dict(endpoint.ports).get(port)
            if number is not None:
                by_pod.setdefault(endpoint.pod, Address(endpoint.host, number))
        return sorted(set(by_pod.values()), key=str)
