"""Shapes of the Kubernetes objects that a manifest hands on, as far as a mistake in them would stop a pod.

Bounds: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ (read 2026-12-01).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.quantities import parse_bytes, parse_count
from hypertier.spec.structure import Fault, faults
from hypertier.spec.tree import Path, dotted
from hypertier_cdk.charts.inputs import TOKEN_MARK, refuse

ABOUT_OPERATORS = ("since", "alpha")
BYTES_OF = ("memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi")
DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpGet:
    """A probe by HTTP."""

    port: Any = field(metadata=about("Name or number of the container's port."))
    path: str | None = optional("Path of the request.", pattern="^/", like="a path that begins with /")
    host: str | None = optional("Host to connect to; the pod by default.")
    scheme: str | None = optional("HTTP or HTTPS.", choices=["HTTP", "HTTPS"])
    http_headers: tuple[Mapping[str, Any], ...] | None = optional("Headers of the request.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A probe that connects, or asks by gRPC."""

    port: Any = field(metadata=about("Name or number of the container's port."))
    host: str | None = optional("Host to connect to; the pod by default.")
    service: str | None = optional("Service to ask for, by gRPC.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """A probe that runs a command in the container."""

    command: tuple[str, ...] | None = optional("Command and arguments.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How and how often a container is asked whether it is well."""

    http_get: HttpGet | None = optional("Ask by HTTP.")
    tcp_socket: Socket | None = optional("Connect.")
    grpc: Socket | None = optional("Ask by gRPC.")
    exec: Exec | None = optional("Run a command.")
    initial_delay_seconds: int | None = optional("Wait before the first.", minimum=0)
    period_seconds: int | None = optional("From one to the next.", minimum=1)
    timeout_seconds: int | None = optional("What an answer may take.", minimum=1)
    success_threshold: int | None = optional("Successes to be well.", minimum=1)
    failure_threshold: int | None = optional("Failures to be unwell.", minimum=1)
    termination_grace_period_seconds: int | None = optional("Time to end after it.", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint that the pod tolerates."""

    key: str | None = optional("Key of the taint.")
    operator: str | None = optional("Exists or Equal.", choices=["Exists", "Equal"])
    value: str | None = optional("Value of the taint.")
    effect: str | None = optional(
        "Effect of the taint.", choices=["NoSchedule", "PreferNoSchedule", "NoExecute"]
    )
    toleration_seconds: int | None = optional("How long.")


@dataclass(frozen=True, slots=True, kw_only=True)
class InitContainer:
    """What every container has; the rest is Kubernetes' to check."""

    name: str = field(metadata=about("Name.", pattern=DNS_LABEL, like="a DNS label", max_length=63))
    image: str = field(metadata=about("Image.", pattern=r"^\S+$", like="an image"))
    command: tuple[str, ...] | None = optional("Command.")
    args: tuple[str, ...] | None = optional("Arguments.")
    security_context: Mapping[str, Any] | None = optional("Security context.")


def check_shape(
    endpoint: InferenceEndpointConfig, cls: type, data: Any, where: Path, *, open_ended: bool = False
) -> None:
    """Refuse the first thing in `data` that is no `cls`; further fields are let through where `open_ended`.

    Raises:
        ConfigError: names the field.
    """
    for fault in faults(cls, data):
        got = value_at(data, fault.where)
        known_later = isinstance(got, str) and TOKEN_MARK in got
        if fault.kind in ABOUT_OPERATORS or known_later or (open_ended and fault.kind == "unknown"):
            continue
        raise refuse(endpoint, dotted((*where, *fault.where)), got, expected(fault))


def expected(fault: Fault) -> str:
    """What works, in words."""
    if fault.kind == "unknown":
        meant = fault.rename or (dotted(fault.move) if fault.move else None)
        return f"no such field; {meant} is what is meant" if meant else f"one of the fields {fault.expected}"
    if fault.kind == "missing":
        return "a value: it is required"
    return fault.expected


def value_at(data: Any, where: Path) -> Any:
    """What stands at a place; None where nothing does."""
    for key in where:
        if isinstance(data, Mapping):
            data = data.get(key)
        elif isinstance(data, list | tuple) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return None
    return data


def check_probe(endpoint: InferenceEndpointConfig, name: str, probe: Mapping[str, Any]) -> None:
    """Refuse a probe of another shape, or of a port that the engine does not listen on.

    Raises:
        ConfigError: names the field.
    """
    where: Path = ("spec", "worker", "probes", name)
    check_shape(endpoint, Probe, probe, where)
    kinds = [kind for kind in ("httpGet", "tcpSocket", "grpc", "exec") if probe.get(kind) is not None]
    if len(kinds) != 1:
        raise refuse(endpoint, dotted(where), dict(probe), "one of httpGet, tcpSocket, grpc and exec")
    port = value_at(probe, (kinds[0], "port"))
    listens = endpoint.spec.worker.model_invocation_port.container_port
    if kinds[0] != "exec" and port not in ("http", listens):
        raise refuse(
            endpoint, dotted((*where, kinds[0], "port")), port, f"{listens}, which the engine listens on"
        )


def check_quantities(endpoint: InferenceEndpointConfig) -> None:
    """Refuse amounts that Kubernetes could not read, and parts of devices, of an engine's container.

    Raises:
        ConfigError: names the resource.
    """
    resources = endpoint.spec.worker.resources
    for kind, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for name, amount in (amounts or {}).items():
            setting = f"{endpoint.name}: spec.worker.resources.{kind}.{name}"
            if name in BYTES_OF:
                parse_bytes(setting, amount)
            elif not parse_count(setting, amount).is_integer() and "/" in name:
                raise refuse(endpoint, f"spec.worker.resources.{kind}.{name}", amount, "a whole number")
