"""What a person reads at the end: the review, or one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypertier.errors import ManifestError
from hypertier.spec.deployment import Deployment
from infra.messages import plain_errors, print_review
from infra.stacks import add_stacks, chosen_deployment, new_app


def write(folder: Path, **changes: str) -> Path:
    """A deployment file with a fault."""
    keys = {"apiVersion": "hypertier.dev/v1", "kind": "Deployment", "endpoints": "[nowhere.yaml]"} | changes
    file = folder / "deployment.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return file


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"scaling": "{min: 0}"}, "scaling.min is 0", id="a number that is too small"),
        pytest.param({"cach": "{}"}, "cach", id="a key that is none"),
        pytest.param({"region": "[a"}, "is not YAML", id="no YAML"),
        pytest.param({}, "nowhere.yaml:1: cannot be read", id="a manifest that is not there"),
    ],
)
def test_a_mistake_is_one_line_on_standard_error_and_status_1(
    changes: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, **changes)

    with pytest.raises(SystemExit) as left, plain_errors():
        chosen_deployment(new_app({"deployment": str(file)}))

    printed = capsys.readouterr()
    assert left.value.code == 1
    assert printed.err.startswith("error: ")
    assert said in printed.err
    assert printed.out == ""


def test_a_fault_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), plain_errors():
        _ = 1 / 0


def test_without_a_choice_the_reference_is_deployed() -> None:
    assert chosen_deployment(new_app()).name == "reference"


def test_a_team_s_own_prices_are_in_the_bill(
    reference_deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("ml.p5.48xlarge: {usdPerHour: 10, source: our contract, date: 2026-11-30}\n")
    app = new_app({"prices": str(prices)})
    add_stacks(app, reference_deployment)
    app.synth()

    print_review(app, reference_deployment)

    lines = json.loads((Path(app.outdir) / "review.json").read_text())["bill"]["lines"]
    (line,) = [entry for entry in lines if entry["item"] == "ml.p5.48xlarge"]
    assert (line["usd_per_hour"], line["source"], line["read_on"]) == (70.0, "our contract", "2026-11-30")
    assert "unknown for " in capsys.readouterr().err


def test_prices_that_cannot_be_read_are_refused(reference_deployment: Deployment) -> None:
    app = new_app({"prices": "nowhere.yaml"})
    app.synth()

    with pytest.raises(ManifestError, match=r"nowhere\.yaml:1: cannot be read"):
        print_review(app, reference_deployment)
