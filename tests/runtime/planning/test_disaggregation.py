"""Whether it pays to prefill apart: the arithmetic by hand, and what moves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from hypertier.cli.plan import command
from hypertier.errors import ConfigError
from hypertier.planning import report
from hypertier.planning.disaggregation import Split
from hypertier.planning.plan import DeploymentPlan, plan_deployment
from hypertier.spec.deployment import Deployment, Disaggregation, load_deployment

EXAMPLES = Path(__file__).parents[3] / "examples"
LLAMA_BYTES, PARAMETERS, WIDTH, H100 = 327_680, 70.6e9, 80 * 64 * 128, 989e12


def disaggregated() -> Deployment:
    return load_deployment(str(EXAMPLES / "disaggregated" / "deployment.yaml"))


def splits_of(plan: DeploymentPlan) -> dict[int, Split]:
    (found,) = plan.disaggregations
    return {split.num_tokens: split for split in found.splits}


def test_a_split_is_what_the_page_says() -> None:
    split = splits_of(plan_deployment(disaggregated()))[32768]

    prefill = (2 * PARAMETERS * 32768 + 2 * WIDTH * 32768**2) / (8 * H100 * 0.4)
    token = 2 * PARAMETERS / (8 * 3350e9)
    assert split.whole_seconds == split.prefill_seconds == pytest.approx(prefill)
    assert split.transfer_seconds == pytest.approx(0.002 + 32768 * LLAMA_BYTES / (0.5 * 400e9))
    assert split.delay_seconds == pytest.approx(split.transfer_seconds)
    assert split.step_seconds == pytest.approx(prefill / 4)
    assert split.stretch_seconds == pytest.approx(prefill - 4 * token)
    assert split.pays_from == 1


def test_lengths_begin_at_the_threshold() -> None:
    assert list(splits_of(plan_deployment(disaggregated()))) == [8192, 16384, 32768, 65536]


def test_an_endpoint_that_is_whole_has_no_such_plan() -> None:
    plan = plan_deployment(load_deployment(str(EXAMPLES / "reference" / "deployment.yaml")))

    assert plan.disaggregations == ()
    assert "prefill apart" not in report.as_text(plan)


def test_over_tcp_the_first_token_waits_longer_and_more_answers_must_gain() -> None:
    by_tcp = replace(disaggregated(), disaggregation=Disaggregation(backend="UCX"))

    split = splits_of(plan_deployment(by_tcp))[8192]

    assert split.transfer_seconds == pytest.approx(0.002 + 8192 * LLAMA_BYTES / (8 * 625e6))
    assert split.pays_from == 2


def test_a_measured_rate_replaces_the_assumption() -> None:
    plan = plan_deployment(disaggregated(), kv_transfer_bytes_per_second=1e9)

    assert splits_of(plan)[8192].transfer_seconds == pytest.approx(0.002 + 8192 * LLAMA_BYTES / 1e9)
    assert "1.0 GB/s between two engines (measured)" in report.as_text(plan)


@pytest.mark.parametrize(
    ("prefill_seconds", "whole_seconds", "stretch_seconds", "pays_from", "said"),
    [
        pytest.param(1.0, 3.0, 2.9, 0, "always", id="faster-engines-prefill"),
        pytest.param(1.0, 1.0, 0.0, None, "never", id="nobody-gains"),
        pytest.param(1.0, 1.0, 0.5, 1, "1 answer", id="gains-twice"),
        pytest.param(1.0, 1.0, 0.06, 4, "4 answers", id="several-must"),
    ],
)
def test_it_pays_once_others_gain_what_the_prompt_loses(
    prefill_seconds: float, whole_seconds: float, stretch_seconds: float, pays_from: int | None, said: str
) -> None:
    split = Split(8192, 1, prefill_seconds, whole_seconds, 0.2, 0.1, stretch_seconds)
    plan = plan_deployment(disaggregated())
    plan = replace(plan, disaggregations=(replace(plan.disaggregations[0], splits=(split,)),))

    assert split.pays_from == pays_from
    assert f" {said} " in report.as_text(plan)


def test_where_something_is_not_known_it_says_so() -> None:
    found = plan_deployment(disaggregated())
    plan = replace(found, disaggregations=(replace(found.disaggregations[0], splits=()),))

    assert "does it pay       unknown" in report.as_text(plan)


@pytest.mark.parametrize("rate", ["0GB/s", "fast"])
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    file = str(EXAMPLES / "disaggregated" / "deployment.yaml")

    result = CliRunner().invoke(command, [file, "--kv-transfer-bandwidth", rate])

    assert isinstance(result.exception, ConfigError)
    assert "--kv-transfer-bandwidth" in str(result.exception)
