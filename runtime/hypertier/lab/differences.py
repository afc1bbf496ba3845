"""What differs between the rendered endpoint and the lab, as it is shown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

SHOWN_CHARACTERS = 30


@dataclass(frozen=True)
class Difference:
    """A line of the table: a setting, its value in the manifest and here; None means that it is not set."""

    setting: str
    rendered: str | None
    here: str | None
    why: str


def table(differences: Sequence[Difference]) -> list[str]:
    """Lay out the differences as lines, one a setting; equal lines of several processes are merged."""
    rows = [("setting", "in the manifest", "here", "why")]
    for difference in differences:
        row = (
            shown_setting(difference.setting),
            shown(difference.rendered),
            shown(difference.here),
            difference.why,
        )
        if row not in rows:
            rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in (*widths, 3)))
    return lines


def summary(differences: Sequence[Difference], width: int) -> list[str]:
    """What the manifests set and is another here, in few lines: a reason, then the settings it changes."""
    by_reason: dict[str, dict[str, str]] = {}
    for each in differences:
        if each.rendered is not None:
            name = each.setting.rpartition(".")[2] or each.setting
            change = f"{name} {shown(each.rendered)} -> {shown(each.here)}"
            by_reason.setdefault(each.why, {}).setdefault(name, change)
    lines = []
    for reason, changes in by_reason.items():
        text = f"{', '.join(changes.values())}: {reason}"
        lines += textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False)
    return lines


def shown_setting(setting: str) -> str:
    """A setting in the table: of a member of an option's JSON, the option and the last name."""
    option, *path = setting.split(".")
    return f"{option} ...{path[-1]}" if path else setting


def shown(value: str | None) -> str:
    """A value in the table: a dash where it is not set, `on` for a flag, cut where it is long."""
    if value is None:
        return "-"
    if value == "":
        return "on"
    return value if len(value) <= SHOWN_CHARACTERS else f"...{value[3 - SHOWN_CHARACTERS :]}"
