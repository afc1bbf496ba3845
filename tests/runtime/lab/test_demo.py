from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hypertier.errors import LabError
from hypertier.lab.demo import cut, document_tokens, review_lines, run_command
from hypertier.lab.rules import MIB


@pytest.mark.parametrize(
    ("l1_bytes", "num_tokens"),
    [pytest.param(16 * MIB, 2730, id="small"), pytest.param(128 * MIB, 6000, id="large")],
)
def test_the_document_fits_into_l1(l1_bytes: int, num_tokens: int) -> None:
    assert document_tokens(l1_bytes) == num_tokens


def test_the_review_is_taken_out_of_what_cdk_synth_says() -> None:
    lines = ["b'!!'", "Review of reference: 4 stacks", "  bill   1 USD", "  page   cdk.out/review.md", "Done"]

    assert review_lines(lines) == ["bill   1 USD", "page   cdk.out/review.md"]
    assert review_lines(["Done"]) == []


def test_a_long_line_is_cut() -> None:
    assert (cut("abc", 3), cut("abcdefghij", 8)) == ("abc", "abcd ...")


def test_a_command_that_fails_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = (sys.executable, "-c", "print('first'); raise SystemExit('no such zone')")

    with pytest.raises(
        LabError, match=r"cdk synth ended with 1. Its log, \.hypertier/demo/cdk-synth.log"
    ) as error:
        run_command("cdk synth", argv, lambda text: None)

    assert "no such zone" in str(error.value)
    assert "no such zone" in (tmp_path / ".hypertier/demo/cdk-synth.log").read_text()


def test_a_command_that_is_not_installed_is_told_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(
        LabError, match=r"render: no/such did not start: No such file .*`make setup` installs it"
    ):
        run_command("render", ("no/such",), lambda text: None)
