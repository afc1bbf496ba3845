"""Where in a section a setting stands that one of its types refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypertier.spec.access import Access
from hypertier.spec.deployment import Scaling
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.routing import Routing
from hypertier.spec.tree import Path, dotted


def _below_named(named: str, setting: str, data: Mapping[str, Any]) -> list[str | int]:
    """The place of what an error calls `tenants.acme.weight` or `jwt.leeway`; `named` is a list."""
    for index, entry in enumerate(data.get(named) or ()):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if setting.startswith(f"{named}.{name}."):
            return [named, index, setting.removeprefix(f"{named}.{name}.")]
    return [named] if setting.startswith(named) else list(setting.split("."))


def below(cls: type, setting: str, where: Path, data: Mapping[str, Any]) -> Sequence[str | int]:
    """The fields of `cls` that an error of it names: those of a group follow the group's name."""
    parts = setting.split(".")
    if cls is Access:
        return [] if setting == "access" else _below_named("tenants", setting.removeprefix("access."), data)
    if cls is Scaling:
        return _below_named("schedules", setting.removeprefix("scaling."), data)
    if cls is Routing:
        section, _, rest = setting.removeprefix("routing").removeprefix(".").partition(".")
        return [part for part in (section, rest) if part]
    if cls is InstanceGroup and len(parts) > 2:
        return [int(part) if part.isdecimal() else part for part in parts[2:]]
    section = f"{dotted(where)}."
    if setting == dotted(where):
        return []
    return setting.removeprefix(section).split(".") if setting.startswith(section) else parts[-1:]
