from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertier.errors import ConfigError
from hypertier.lab.arguments import Option, edit_json, format_options, parse_engine_options, parse_options

NAMES = st.from_regex(r"--[a-z]{1,6}(-[a-z]{1,6}){0,2}", fullmatch=True)
VALUES = st.text("abc019/._{}:", min_size=1, max_size=8)
OPTIONS = st.lists(st.builds(Option, NAMES, st.lists(VALUES, max_size=3).map(tuple)), max_size=6)


@settings(deadline=None)
@given(OPTIONS)
def test_options_survive_formatting_and_parsing(options: list[Option]) -> None:
    positional, parsed = parse_options(list(format_options(options)))

    assert (positional, list(parsed)) == ((), options)


def test_a_value_after_an_equals_sign_is_a_value() -> None:
    assert parse_options(["MODEL", "--port=8000"]) == (("MODEL",), (Option("--port", ("8000",)),))


def test_an_engine_s_options_come_back_in_full_and_another_program_s_as_they_are() -> None:
    arguments = ["-tp", "8", "--kv-events", "a"]

    assert parse_engine_options(arguments)[1] == (
        Option("--tensor-parallel-size", ("8",)),
        Option("--kv-events-config", ("a",)),
    )
    assert parse_options(arguments)[1] == (Option("-tp", ("8",)), Option("--kv-events", ("a",)))


def test_a_negative_number_is_a_value() -> None:
    assert parse_options(["--seed", "-1"])[1] == (Option("--seed", ("-1",)),)


def test_short_names_and_underscores_come_back_as_vllm_reads_them() -> None:
    _, options = parse_engine_options(["-tp", "8", "--max_model_len", "10"])

    assert [option.name for option in options] == ["--tensor-parallel-size", "--max-model-len"]


def test_a_member_in_a_list_is_edited() -> None:
    text, old = edit_json("--x", '{"tiers": [{"ms": 200}]}', ["tiers", "0", "ms"], 5)

    assert (json.loads(text), old) == ({"tiers": [{"ms": 5}]}, "200")


def test_nothing_is_added_under_a_parent_that_is_not_there() -> None:
    assert edit_json("--x", "{}", ["tiers", "0", "ms"], 5) == ("{}", None)


def test_text_that_is_not_json_names_the_option() -> None:
    with pytest.raises(ConfigError, match="--kv-transfer-config is 'x'; expected a JSON object"):
        edit_json("--kv-transfer-config", "x", ["a"], 1)
