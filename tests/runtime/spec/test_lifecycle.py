"""A lifecycle script is found before anything is deployed, and a wrong one is named as it was typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.spec.lifecycle import LifecycleScript

SETTING = "instanceGroups.gpu.lifecycle"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "on_create.sh").write_text("#!/bin/bash\n")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("source", "file"),
    [
        pytest.param("scripts", "on_create.sh", id="a folder and its script"),
        pytest.param("scripts/on_create.sh", None, id="the script itself"),
    ],
)
def test_where_a_local_script_lies_is_spelled_out(source: str, file: str | None, folder: Path) -> None:
    found = LifecycleScript(source=source, file=file).found_from(folder, SETTING)

    assert found == LifecycleScript(source=str((folder / source).resolve()), file=file)
    assert found.found_from(Path("/"), SETTING) == found


def test_a_script_in_s3_is_left_where_it_is(folder: Path) -> None:
    script = LifecycleScript(source="s3://sagemaker-mine/scripts", file="on_create.sh")

    script.check(SETTING)
    assert script.found_from(folder, SETTING) is script


@pytest.mark.parametrize(
    ("script", "setting"),
    [
        pytest.param({"source": "nowhere", "file": "a.sh"}, "source", id="no such folder"),
        pytest.param({"source": "scripts", "file": "other.sh"}, "file", id="no such script"),
        pytest.param({"source": "scripts"}, "file", id="a folder without a script's name"),
        pytest.param({"source": "empty", "file": "a.sh"}, "file", id="an empty folder"),
        pytest.param({"source": "scripts/on_create.sh", "file": "a"}, "source", id="a file below a file"),
    ],
)
def test_what_is_not_there_is_named(script: dict[str, str], setting: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        LifecycleScript(**script).found_from(folder, SETTING)

    assert refused.value.setting == f"{SETTING}.{setting}"


@pytest.mark.parametrize(
    ("script", "setting"),
    [
        pytest.param({"source": "", "file": "a.sh"}, "source", id="nothing"),
        pytest.param({"source": 5, "file": "a.sh"}, "source", id="a number"),
        pytest.param({"source": "s3://mine/x", "file": "a.sh"}, "source", id="a bucket nodes may not read"),
        pytest.param({"source": "s3://sagemaker-mine/x"}, "file", id="no script in S3"),
        pytest.param({"source": "scripts", "file": "../a.sh"}, "file", id="a way out of the folder"),
        pytest.param({"source": "scripts", "file": ""}, "file", id="a script without a name"),
        pytest.param({"source": "scripts", "file": 7}, "file", id="a number for a name"),
    ],
)
def test_what_cannot_work_anywhere_is_named(script: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        LifecycleScript(**script).check(SETTING)

    assert refused.value.setting == f"{SETTING}.{setting}"
