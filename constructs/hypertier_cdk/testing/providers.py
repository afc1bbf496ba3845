"""What makes a resource: a provider for each type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that a template asks for, its properties evaluated.

    `name` is what CloudFormation would call it where the template does not: unique to its place.
    """

    stack: str
    logical_id: str
    type: str
    properties: Mapping[str, Any]
    name: str
    account: str
    region: str


@dataclass(frozen=True, slots=True)
class Made:
    """A resource that exists: what `Ref` gives, and what `Fn::GetAtt` gives by attribute."""

    ref: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Provider(Protocol):
    """Makes, changes and deletes resources of one type. What it raises ends the deployment."""

    def create(self, resource: Resource) -> Made: ...

    def update(self, resource: Resource, made: Made) -> Made: ...

    def delete(self, resource: Resource, made: Made) -> None: ...
