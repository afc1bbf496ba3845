from __future__ import annotations

from hypertier.cli.router import command
from hypertier.lab.overlay import ENGINE, ROUTER


def test_a_setting_is_ruled_once_and_not_kept_as_well() -> None:
    for overlay in (ENGINE, ROUTER):
        for rules, kept in ((overlay.options, overlay.kept_options), (overlay.env, overlay.kept_env)):
            settings_ = [rule.setting for rule in rules]

            assert len(settings_) == len(set(settings_))
            assert not kept & set(settings_)


def test_every_option_of_the_router_is_kept_or_ruled() -> None:
    named_by_the_lab = {"--replica", "--kv-events"}
    known = ROUTER.kept_options | {rule.setting for rule in ROUTER.options} | named_by_the_lab

    settings = [parameter for parameter in command.params if parameter.expose_value]  # --version is none

    assert {option for parameter in settings for option in parameter.opts} - known == set()
