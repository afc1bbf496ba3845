"""What render and synth refuse before they make anything of a deployment file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertier.errors import ManifestError
from hypertier.spec.refuse import refuse_errors

FOLDER = Path(__file__).parents[2] / "manifests" / "deployments"


def test_a_whole_deployment_is_let_through_with_its_warnings() -> None:
    assert refuse_errors(str(FOLDER / "whole" / "deployment.yaml")) == ()
    warned = refuse_errors(str(FOLDER / "image-elsewhere" / "deployment.yaml"))
    assert [finding.rule for finding in warned] == ["image-region"]


def test_a_file_that_is_not_there_is_named_without_a_line(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as refused:
        refuse_errors(str(tmp_path / "none.yaml"))

    assert str(refused.value).startswith(f"{tmp_path / 'none.yaml'}: cannot be read: ")


def test_the_first_error_is_raised_with_its_file_and_line_and_the_number_of_others() -> None:
    with pytest.raises(ManifestError) as refused:
        refuse_errors(str(FOLDER / "typos" / "deployment.yaml"))

    assert refused.value.file.endswith("deployment.yaml")
    assert refused.value.line > 1
    assert "and 3 more; hypertier lint" in refused.value.problem
