from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.lab.arguments import Option
from hypertier.lab.differences import Difference
from hypertier.lab.rules import Overlay, Place, Rule, lay_over_env, lay_over_options

PLACE = Place(port=1234)
SOME_RULES = Overlay(
    options=(
        Rule("--port", "{port}", "one machine"),
        Rule("--gpus", None, "no GPU", only_if_set=True),
        Rule("--eager", "", "no graphs"),
    ),
    kept_options=frozenset({"--seed"}),
    env=(),
    kept_env=frozenset(),
)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([Option("--port", ("80",)), Option("--gpus", ("8",)), Option("--seed", ("1",))]))
)
def test_laying_over_twice_changes_nothing_more(options: list[Option]) -> None:
    once, _ = lay_over_options(SOME_RULES, options, PLACE)

    twice, differences = lay_over_options(SOME_RULES, once, PLACE)

    assert (twice, differences) == (once, [])


def test_every_difference_is_told() -> None:
    given_options = [Option("--gpus", ("8",)), Option("--port", ("80",)), Option("--seed", ("1",))]

    options, differences = lay_over_options(SOME_RULES, given_options, PLACE)

    assert options == (Option("--port", ("1234",)), Option("--seed", ("1",)), Option("--eager"))
    assert differences == [
        Difference("--port", "80", "1234", "one machine"),
        Difference("--gpus", "8", None, "no GPU"),
        Difference("--eager", None, "", "no graphs"),
    ]


@pytest.mark.parametrize("name", ["--seed", "--port", "--strange"])
def test_what_is_to_be_left_out_goes_whatever_the_rules_say(name: str) -> None:
    given_options = [Option("--port", ("80",)), Option("--seed", ("1",)), Option("--strange", ("2",))]
    without = SOME_RULES.without({"--strange", name})

    options, differences = lay_over_options(without, given_options, PLACE)

    assert {"--strange", name} & {option.name for option in options} == set()
    left_out = {each.setting for each in differences if each.why == "left out by --without"}
    assert left_out == {"--strange", name}


def test_a_variable_can_be_left_out_too() -> None:
    without = SOME_RULES.without(["STRANGE"])

    assert lay_over_env(without, {"STRANGE": None}, PLACE) == (
        {},
        [Difference("STRANGE", "from the cluster", None, "left out by --without")],
    )
