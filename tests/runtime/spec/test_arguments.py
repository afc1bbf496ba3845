"""An option is found as vLLM's parser finds it."""

from __future__ import annotations

import pytest

from hypertier.spec.arguments import find_option, option_name, option_value


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param(("--max-model-len", "8"), (1, "8"), id="two-words"),
        pytest.param(("--max-model-len=8",), (0, "8"), id="one-word"),
        pytest.param(("--max_model_len", "8"), (1, "8"), id="underscores"),
        pytest.param(("--max_model-len=8",), (0, "8"), id="both"),
        pytest.param(("--max-model-len", "4", "--max_model_len", "8"), (3, "8"), id="the-last-wins"),
        pytest.param(("--max-model-len",), None, id="no-value"),
        pytest.param(("max_model_len", "8"), None, id="no-option"),
    ],
)
def test_an_option_is_found_in_every_spelling(words: tuple[str, ...], found: tuple[int, str] | None) -> None:
    assert find_option(words, "--max-model-len") == found
    assert option_value(words, "--max-model-len") == (found and found[1])


def test_keys_of_json_behind_a_dot_keep_their_underscores() -> None:
    assert option_name("--kv_transfer_config.kv_connector=a_b") == "--kv-transfer-config.kv_connector"


def test_a_short_name_stays_as_it_is() -> None:
    assert option_name("-tp") == "-tp"


@pytest.mark.parametrize(
    ("word", "name"),
    [
        pytest.param("--tensor-par=8", "--tensor-parallel-size", id="short"),
        pytest.param("--tensor_par", "--tensor-parallel-size", id="short-with-underscores"),
        pytest.param("--kv-tr.kv_role", "--kv-transfer-config.kv_role", id="short-before-a-dot"),
        pytest.param("--no-enable-prefix", "--no-enable-prefix-caching", id="negated"),
        pytest.param("--model", "--model", id="in-full-and-the-beginning-of-others"),
        pytest.param("--max", "--max", id="short-for-several"),
        pytest.param("--mine", "--mine", id="unknown"),
        pytest.param("--", "--", id="end-of-options"),
    ],
)
def test_what_is_short_for_one_option_is_that_option(word: str, name: str) -> None:
    assert option_name(word) == name
