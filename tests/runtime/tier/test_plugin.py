"""The plugin never keeps an engine from starting."""

from __future__ import annotations

from importlib.metadata import entry_points

from hypertier.tier.plugin import register


def test_vllm_finds_the_plugin_by_its_entry_point() -> None:
    (entry,) = entry_points(group="vllm.general_plugins", name="hypertier")

    assert entry.load() is register


def test_registering_beside_another_vllm_or_none_does_nothing() -> None:
    register()
    register()
