"""`hypertier plan`: both formats, its options, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from fakes_manifests import changed, deployment, endpoint

from hypertier.cli.plan import command
from hypertier.errors import ConfigError, ManifestError

REFERENCE = str(Path(__file__).parents[3] / "examples" / "reference" / "deployment.yaml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def written(folder: Path, changes: dict[str, Any]) -> str:
    (folder / "endpoint.yaml").write_text(yaml.safe_dump(changed(endpoint(), changes)), encoding="utf-8")
    file = folder / "deployment.yaml"
    file.write_text(yaml.safe_dump(deployment()), encoding="utf-8")
    return str(file)


def test_the_reference_fits_and_says_where_l2_wins() -> None:
    result = run(REFERENCE)

    assert result.exit_code == 0
    assert "KV a token        327,680 B" in result.output
    assert "L2 wins" in result.output


def test_json_has_the_same_numbers() -> None:
    data = json.loads(run(REFERENCE, "--format", "json").output)

    assert data["endpoints"][0]["kv_bytes_per_token"] == 327680
    assert data["bill"]["unknown"] == ["ml.m5.4xlarge", "ml.p5.48xlarge", data["store"]["node_type"]]


def test_prices_of_one_s_own_make_the_bill(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    row = {"usdPerHour": 60, "source": "contract", "date": "2026-12-01"}
    prices.write_text(yaml.safe_dump({"ml.p5.48xlarge": row}), encoding="utf-8")

    data = json.loads(run(REFERENCE, "--format", "json", "--prices", str(prices)).output)

    assert data["bill"]["known_usd_per_hour"] == 7 * 60
    assert data["endpoints"][0]["usd_per_million_prompt_tokens"] > 0


def test_a_config_json_gives_a_model_that_the_table_lacks_its_shape(tmp_path: Path) -> None:
    config = {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    file = written(tmp_path, {"spec.modelName": "ours", "spec.modelSourceConfig.modelLocation": "ours"})

    data = json.loads(run(file, "--format", "json", "--model-config", str(tmp_path / "config.json")).output)

    assert data["endpoints"][0]["kv_bytes_per_token"] == 2 * 32 * 4096 * 2


def test_what_does_not_fit_is_an_error_with_the_setting(tmp_path: Path) -> None:
    file = written(tmp_path, {"spec.modelName": "Llama-3.1-70B"})

    result = run(file)

    assert isinstance(result.exception, ManifestError)
    assert re.search(r"endpoint\.yaml:\d+:\d+: .*nvidia\.com/gpu is 4", str(result.exception))


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        pytest.param(("none.yaml",), ManifestError, "none.yaml", id="missing-file"),
        pytest.param((REFERENCE, "--prices", "none.yaml"), ManifestError, "none.yaml", id="missing-prices"),
        pytest.param(
            (REFERENCE, "--model-config", "none.json"), ManifestError, "none.json", id="missing-config"
        ),
        pytest.param(
            (REFERENCE, "--prefill-tokens-per-second", "0"),
            ConfigError,
            "--prefill-tokens-per-second",
            id="no-rate",
        ),
    ],
)
def test_a_wrong_option_is_refused_by_name(arguments: tuple[str, ...], error: type, names: str) -> None:
    result = run(*arguments)

    assert isinstance(result.exception, error)
    assert names in str(result.exception)
