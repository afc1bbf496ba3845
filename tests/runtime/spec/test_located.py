"""A setting that cannot work is told with its place, whoever finds out: rules, planning or charts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_manifests import changed, deployment, endpoint

from hypertier.errors import ConfigError, ManifestError
from hypertier.spec.located import located

GROUPS = [
    {"name": "system", "instanceType": "ml.m5.4xlarge", "count": 1},
    {"name": "gpu", "instanceType": "ml.g5.12xlarge", "count": 2},
]


def write(folder: Path, **fields: Any) -> Path:
    """A deployment of two endpoints, `a` and `b`, whose keys stand in the order in which they are made."""
    args = ["/opt/ml/model", "--max_model_len=8192"]
    for name in ("a", "b"):
        metadata = {"name": name, "labels": {"a": "x", "a.b/c": "d"}}
        manifest = changed(endpoint(), {"metadata": metadata, "spec.worker.args": args})
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    file = folder / "deployment.yaml"
    data = {
        **deployment(),
        "endpoints": ["a.yaml", "none.yaml", "b.yaml"],
        "instanceGroups": GROUPS,
        **fields,
    }
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return file


def line_of(file: Path, text: str) -> str:
    """`LINE:COLUMN` of what first begins with `text` in a file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found, *_ = [(i, line.index(text)) for i, line in enumerate(lines, 1) if text in line]
    return f"{found[0]}:{found[1] + 1}"


@pytest.mark.parametrize(
    ("setting", "file", "text"),
    [
        pytest.param("instanceGroups[1].count", "deployment.yaml", "count: 2", id="by index"),
        pytest.param("instanceGroups.gpu.count", "deployment.yaml", "count: 2", id="by name"),
        pytest.param("b: instanceGroups.gpu.count", "deployment.yaml", "count: 2", id="of an endpoint"),
        pytest.param("b: spec.worker.args[1]", "b.yaml", "--max_model_len=8192", id="of the other's"),
        pytest.param("a: --max-model-len", "a.yaml", "--max_model_len=8192", id="an argument"),
        pytest.param("b: metadata.labels.a.b/c", "b.yaml", "a.b/c: d", id="dots in a key"),
        pytest.param("instanceGroups.tpu.count", "deployment.yaml", "instanceGroups:", id="a list's entry"),
        pytest.param("b: spec.worker.nothing.at.all", "b.yaml", "worker:", id="below what is written"),
    ],
)
def test_a_setting_that_is_written_is_named_with_its_place(
    setting: str, file: str, text: str, tmp_path: Path
) -> None:
    deployed = write(tmp_path)

    with pytest.raises(ManifestError) as error, located(deployed):
        raise ConfigError(setting, 7, "8")

    place = f"{tmp_path / file}:{line_of(tmp_path / file, text)}"
    assert str(error.value) == f"{place}: {setting} is 7; expected 8"


@pytest.mark.parametrize(
    "setting", ["scaling.max", "--port", "c: spec.replicas", "JSII_NODE", "spec.worker.image"]
)
def test_a_setting_that_is_not_written_or_in_several_files_keeps_its_error(
    setting: str, tmp_path: Path
) -> None:
    deployed = write(tmp_path)

    with pytest.raises(ConfigError, match=r"is 7; expected 8"), located(deployed):
        raise ConfigError(setting, 7, "8")


@pytest.mark.parametrize("text", [None, "a: b: c", "- endpoints", "endpoints: [{}, 3, null]"])
def test_a_file_that_cannot_be_read_hides_no_error(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "deployment.yaml").write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match="name is 7"), located(tmp_path / "deployment.yaml"):
        raise ConfigError("name", 7, "8")
