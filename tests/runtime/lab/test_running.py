"""The lab of a deployment file is found as long as the file says its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypertier.errors import ConfigError, LabError, ManifestError
from hypertier.lab.processes import ProcessRecord, start_time
from hypertier.lab.running import check_is_down, lab_directory, lab_of
from hypertier.lab.state import LabState, save_state


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("name: mine\nendpoints: [gone.yaml]\nsise: 3\n", "mine", id="a-file-that-does-not-work"),
        pytest.param("kind: Deployment\n", "hypertier", id="no-name"),
        pytest.param("", "hypertier", id="an-empty-file"),
    ],
)
def test_a_lab_can_be_ended_whatever_became_of_its_file(text: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(text)

    assert lab_of(file) == lab_directory(name)


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text("name: ../../other\n")

    with pytest.raises(ConfigError, match="name is"):
        lab_of(file)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"gone\.yaml"):
        lab_of(tmp_path / "gone.yaml")


def test_who_starts_a_lab_twice_is_told_the_command_that_ends_it(tmp_path: Path) -> None:
    own = os.getpid()
    alive = ProcessRecord("router", own, start_time(own), "router.log", "http://127.0.0.1:9/health")
    save_state(tmp_path, LabState("simulated", "llama", "http://127.0.0.1:9", (), (alive,)))

    with pytest.raises(LabError, match=r"end it with: hypertier lab down mine/deployment\.yaml$"):
        check_is_down(tmp_path, "mine/deployment.yaml")
