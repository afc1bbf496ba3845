"""Which pods a Service sends to, as Kubernetes' EndpointSlices tell it: values in, addresses out.

https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/ (read 2026-12-01)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple

from hypertier.router.discovery.addresses import Address

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
    host = _host(str(endpoint["addresses"][0]))
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


@lru_cache(maxsize=4096)  # each event names all pods of a slice anew
def _host(text: str) -> str:
    return str(ip_address(text))


def _number(port: object) -> int:
    if type(port) is not int or not 0 < port < 65536:
        raise ValueError(f"a port of {port!r}")
    return port


class EndpointSlices:
    """All slices of one Service, kept in step by a list and the events that follow it.

    New requests may go to every ready pod, on `port` or the port of that name. Where no pod is ready, to
    those that still serve while they end: as kube-proxy does, since a request that they finish is better than
    one that nobody takes (https://kubernetes.io/docs/concepts/services-networking/service/, read 2026-12-01).
    An event costs what it changes, not what there is.
    """

    def __init__(self, port: int | str) -> None:
        self._port = port
        self._by_name: dict[str, list[Endpoint]] = {}
        self._by_pod: dict[str, Counter[Endpoint]] = {}
        self._num_ready = 0
        self._changed: set[str] = set()
        self._is_ready_told = False
        self._told: dict[str, Address] = {}
        self._num_told: Counter[Address] = Counter()

    def replace(self, slices: Iterable[Mapping[str, Any]]) -> None:
        """These, and no others: what a list says."""
        named = {str(slice_["metadata"]["name"]): endpoints_of(slice_) for slice_ in slices}
        for name in self._by_name.keys() - named.keys():
            self._put(name, [])
        for name, endpoints in named.items():
            self._put(name, endpoints)

    def put(self, slice_: Mapping[str, Any]) -> None:
        """One was added or changed."""
        self._put(str(slice_["metadata"]["name"]), endpoints_of(slice_))

    def drop(self, slice_: Mapping[str, Any]) -> None:
        """One was deleted."""
        self._put(str(slice_["metadata"]["name"]), [])

    def changes(self) -> tuple[list[Address], list[Address]]:
        """Where new requests may go that could not when this was last asked, and the reverse; both sorted."""
        is_any_ready = self._num_ready > 0
        pods = self._changed
        if is_any_ready != self._is_ready_told:
            self._is_ready_told = is_any_ready
            pods = pods | self._by_pod.keys()
        before: dict[Address, bool] = {}
        for pod in pods:
            address, told = self._address_of(pod), self._told.pop(pod, None)
            if address is not None:
                self._told[pod] = address
            if address != told:
                for one, num in ((told, -1), (address, 1)):
                    if one is not None:
                        before.setdefault(one, one in self._num_told)
                        self._num_told[one] += num
                        if not self._num_told[one]:
                            del self._num_told[one]
        self._changed = set()
        found = sorted(before, key=str)
        return (
            [one for one in found if one in self._num_told and not before[one]],
            [one for one in found if one not in self._num_told and before[one]],
        )

    def _put(self, name: str, endpoints: list[Endpoint]) -> None:
        before, now = Counter(self._by_name.pop(name, ())), Counter(endpoints)
        if endpoints:
            self._by_name[name] = endpoints
        for endpoint, num in (now - before).items():
            self._count(endpoint, num)
        for endpoint, num in (before - now).items():
            self._count(endpoint, -num)

    def _count(self, endpoint: Endpoint, num: int) -> None:
        pod = endpoint.pod
        known = self._by_pod.setdefault(pod, Counter())
        known[endpoint] += num
        if not known[endpoint]:
            del known[endpoint]
            if not known:
                del self._by_pod[pod]
        self._num_ready += num * endpoint.is_ready
        self._changed.add(pod)

    def _address_of(self, pod: str) -> Address | None:
        """Of addresses of both families one counts: two would be two replicas with half its load each."""
        for family in FAMILIES:
            for endpoint in self._by_pod.get(pod, ()):
                is_chosen = endpoint.is_ready or (
                    not self._num_ready and endpoint.is_serving and endpoint.is_terminating
                )
                port = self._port if isinstance(self._port, int) else dict(endpoint.ports).get(self._port)
                if is_chosen and endpoint.family == family and port is not None:
                    return Address(endpoint.host, port)
        return None
