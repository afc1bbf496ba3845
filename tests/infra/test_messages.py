"""What a person reads at the end: the review, or one sentence."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fakes_stacks import EXAMPLES, FLAGS
from fakes_templates import UNSTAGED

from hypertier.errors import ConfigError, ManifestError
from hypertier.spec.deployment import Deployment
from infra.messages import (
    plain_errors,
    print_review,
    refuse_what_lint_refuses,
    refuse_what_would_be_replaced,
)
from infra.stacks import REFERENCE, add_stacks, chosen_deployment, new_app

(ADOPT,) = (file for file in EXAMPLES if file.parent.name == "adopt-existing")


def write(folder: Path, **changes: str) -> Path:
    """A deployment file with a fault."""
    keys = {"apiVersion": "hypertier.dev/v1", "kind": "Deployment", "endpoints": "[nowhere.yaml]"} | changes
    file = folder / "deployment.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return file


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"scaling": "{min: -1}"}, "scaling.min is -1", id="a number that is too small"),
        pytest.param({"cach": "{}"}, "cach", id="a key that is none"),
        pytest.param({"region": "[a"}, "is not YAML", id="no YAML"),
        pytest.param({}, "nowhere.yaml: cannot be read", id="a manifest that is not there"),
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


def copy_of_the_reference(folder: Path, **changes: str) -> Path:
    """The reference deployment's files with texts replaced; returns the deployment file."""
    for file in REFERENCE.parent.glob("*.yaml"):
        text = file.read_text()
        for right, wrong in changes.items():
            text = text.replace(f"{right}:", f"{wrong}:")
        (folder / file.name).write_text(text)
    return folder / REFERENCE.name


def test_what_lint_refuses_synth_refuses(tmp_path: Path) -> None:
    file = copy_of_the_reference(tmp_path, routingStrategy="routing_strategy")

    with pytest.raises(ManifestError, match=r"llama-70b\.yaml:27:5: .*routing_strategy.*\["):
        refuse_what_lint_refuses(new_app({"deployment": str(file)}))


def test_what_lint_warns_of_synth_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy_of_the_reference(tmp_path)
    file.write_text(file.read_text().replace("selfhosted", "operator", 1))

    refuse_what_lint_refuses(new_app({"deployment": str(file)}))

    said = capsys.readouterr().err
    assert "warning: " in said
    assert "[no-room-to-roll]" in said


def test_an_operator_that_the_cluster_has_needs_nothing_to_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ADOPT.name
    for found in ADOPT.parent.glob("*.yaml"):
        (tmp_path / found.name).write_text(found.read_text())
    written = yaml.safe_load(ADOPT.read_text()) | {"serving": "operator", "scaling": {"min": 2, "max": 2}}
    told = written["cluster"]["attributes"]
    del told["oidcProviderArn"]
    told["addons"] = ["amazon-sagemaker-hyperpod-inference"]
    file.write_text(yaml.safe_dump(written))
    app = new_app({**UNSTAGED, "deployment": str(file)})

    refuse_what_lint_refuses(app)
    add_stacks(app, chosen_deployment(app))

    assert "[existing-cluster-addons]" not in capsys.readouterr().err


def test_a_fault_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), plain_errors():
        _ = 1 / 0


def test_without_a_choice_the_reference_is_deployed() -> None:
    assert chosen_deployment(new_app(UNSTAGED)).name == "reference"


@pytest.mark.parametrize(
    ("key", "meant"), [("deploymnt", "deployment"), ("price", "prices"), ("deploy", "deployed")]
)
def test_a_misspelled_key_does_not_lead_to_the_reference(key: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"-c {key} is 'my.yaml'; expected no such key; -c {meant}=my.yaml"):
        chosen_deployment(new_app({**UNSTAGED, key: "my.yaml"}))


def test_keys_of_others_are_let_through() -> None:
    assert chosen_deployment(new_app({**UNSTAGED, "team": "x", "deployment:y": "z"})).name == "reference"


def test_a_choice_of_nothing_deploys_no_reference() -> None:
    """As of `-c deployment=$FILE` where FILE is not set."""
    with pytest.raises(ConfigError, match="-c deployment is empty; expected a deployment file"):
        chosen_deployment(new_app({**UNSTAGED, "deployment": ""}))


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

    with pytest.raises(ManifestError, match=r"nowhere\.yaml: cannot be read"):
        print_review(app, reference_deployment)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        pytest.param(100_000.0, "budget      within 100,000.00 USD per month", id="enough"),
        pytest.param(60_000.0, "scaling.monthlyBudgetUsd is 60000.0; expected", id="too little"),
    ],
)
def test_a_budget_is_held_against_the_bill(
    budget: float,
    said: str,
    reference_deployment: Deployment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = ("ml.p5.48xlarge", "ml.m5.4xlarge", "cache.r7g.16xlarge", "alarm")
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "".join(
            f"{item}: {{usdPerHour: {10 if 'p5' in item else 1}, source: a, date: 2026-11-30}}\n"
            for item in items
        )
    )
    scaling = replace(reference_deployment.scaling, monthly_budget_usd=budget)
    deployment = replace(reference_deployment, scaling=scaling)
    app = new_app({"prices": str(prices)})
    add_stacks(app, deployment)
    app.synth()

    with suppress(SystemExit), plain_errors():
        print_review(app, deployment)

    assert said in capsys.readouterr().err


def test_a_budget_that_cannot_be_told_is_said_to_be(
    reference_deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    scaling = replace(reference_deployment.scaling, monthly_budget_usd=1e6)
    deployment = replace(reference_deployment, scaling=scaling)
    app = new_app(UNSTAGED)
    add_stacks(app, deployment)
    app.synth()

    print_review(app, deployment)

    assert "cannot be held to it without the prices of what is unknown" in capsys.readouterr().err


def test_a_change_that_would_replace_the_cluster_is_refused(
    reference_deployment: Deployment, reference_folder: Path
) -> None:
    app = new_app({**FLAGS, **UNSTAGED, "deployed": str(reference_folder)})
    moved = replace(
        reference_deployment,
        instance_groups=tuple(
            replace(group, availability_zone_id="usw2-az1" if group.availability_zone_id else None)
            for group in reference_deployment.instance_groups
        ),
    )
    add_stacks(app, moved)
    app.synth()

    with pytest.raises(ConfigError):
        refuse_what_would_be_replaced(app)


def test_the_same_deployment_again_is_let_through(
    reference_deployment: Deployment, reference_folder: Path
) -> None:
    app = new_app({**FLAGS, **UNSTAGED, "deployed": str(reference_folder)})
    add_stacks(app, reference_deployment)
    app.synth()

    refuse_what_would_be_replaced(app)


def test_a_folder_without_templates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="holds no template"):
        refuse_what_would_be_replaced(new_app({"deployed": str(tmp_path)}))
