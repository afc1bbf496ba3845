"""docs/tier.md names everything that can be set and everything that is counted."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from pathlib import Path

import pytest

from hypertier.tier.launch import CacheSettings
from hypertier.tier.metrics import COUNTERS, GAUGES, PREFIX
from hypertier.tier.settings import TierSettings

PAGE = (Path(__file__).parents[3] / "docs" / "tier.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("field", fields(TierSettings), ids=lambda field: field.name)
def test_every_setting_stands_there_with_its_default(field: Field[object]) -> None:
    name, default = field.name, {} if field.default is MISSING else field.default
    shown = "`HYPERTIER_L2_URL`" if name == "url" else default

    assert f"| `{name}` | {shown} |".replace("  ", " ") in PAGE


@pytest.mark.parametrize("name", [field.name for field in fields(CacheSettings)])
def test_every_field_of_the_cache_settings_stands_there(name: str) -> None:
    section = PAGE.partition("`CacheSettings`:")[2].partition("##")[0]

    assert f"| `{name}` |" in section


def test_every_metric_stands_there_and_no_other() -> None:
    section = PAGE.partition("## Metrics")[2]
    documented = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}

    assert documented == {PREFIX + name for name in GAUGES} | {f"{PREFIX}{name}_total" for name in COUNTERS}
