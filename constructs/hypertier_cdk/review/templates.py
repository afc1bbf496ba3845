"""The synthesized templates as plain values: everything that the review says is read from here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of one template. `path` is where it stands in the construct tree, or its logical id."""

    stack: str
    logical_id: str
    type: str
    properties: Mapping[str, Any]
    path: str

    def get(self, *keys: str, default: Any = None) -> Any:
        """The property at `keys`, or `default` where one of them is missing."""
        value: Any = self.properties
        for key in keys:
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return value


@dataclass(frozen=True, slots=True)
class Assembly:
    """Every stack's resources, in the order in which the stacks are deployed."""

    stacks: tuple[str, ...]
    resources: tuple[Resource, ...]

    def of_type(self, *types: str) -> tuple[Resource, ...]:
        """The resources of these CloudFormation types."""
        return tuple(resource for resource in self.resources if resource.type in types)


def read_assembly(directory: Path | str) -> Assembly:
    """Read the stacks of a cloud assembly (`cdk.out`)."""
    root = Path(directory)
    artifacts = json.loads((root / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    stacks = {
        str(artifact.get("displayName") or name): artifact["properties"]["templateFile"]
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    return assembly_of(
        {name: json.loads((root / file).read_text(encoding="utf-8")) for name, file in stacks.items()}
    )


def assembly_of(templates: Mapping[str, Mapping[str, Any]]) -> Assembly:
    """The same from templates at hand: stack's name -> template."""
    resources = tuple(
        Resource(
            stack=stack,
            logical_id=logical_id,
            type=body["Type"],
            properties=body.get("Properties") or {},
            path=_short_path((body.get("Metadata") or {}).get("aws:cdk:path")) or logical_id,
        )
        for stack, template in templates.items()
        for logical_id, body in (template.get("Resources") or {}).items()
    )
    return Assembly(tuple(templates), resources)


def text_of(value: Any) -> str:
    """A property as a person would write it: `Fn::GetAtt` as `${Id.Attribute}`, a join joined.

    Of a condition's two values it is the first, of a part of a text the whole text.
    """
    if isinstance(value, str | int | float | bool):
        return str(value)
    if isinstance(value, Mapping) and len(value) == 1:
        (function, argument) = next(iter(value.items()))
        if function == "Ref":
            return "${" + str(argument) + "}"
        if function == "Fn::GetAtt":
            parts = argument if isinstance(argument, list) else [argument]
            return "${" + ".".join(map(str, parts)) + "}"
        if function == "Fn::Join":
            return str(argument[0]).join(text_of(part) for part in argument[1])
        if function == "Fn::Sub":
            return text_of(argument if isinstance(argument, str) else argument[0])
        if function == "Fn::If":
            return text_of(argument[1])
        if function in ("Fn::Select", "Fn::Split"):
            return text_of(argument[1])
        if function == "Fn::ImportValue":
            return "${" + text_of(argument) + "}"
    return json.dumps(value, sort_keys=True)


def listed(value: Any) -> Sequence[Any]:
    """IAM writes one thing as itself and several as a list; this is always a list."""
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


def strings_in(value: Any) -> Iterator[str]:
    """Every string inside `value`, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from strings_in(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from strings_in(entry)


def _short_path(path: str | None) -> str | None:
    """`Stack/Network/Vpc/Resource` is what a person calls `Network/Vpc`."""
    if path is None:
        return None
    parts = path.split("/")[1:]
    if len(parts) > 1 and parts[-1] in ("Resource", "Default"):
        parts = parts[:-1]
    return "/".join(parts)
