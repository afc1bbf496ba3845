"""What render and synth would refuse lint says first, with its place, and once every rule is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_manifests import changed

from hypertier.spec.lint import lint_files

REFERENCE = Path(__file__).parents[3] / "examples" / "reference"
ARGS = ["/opt/ml/model", "--served-model-name", "L", "--tensor-parallel-size", "8"]


def write(folder: Path, manifest: dict[str, Any], deployment: dict[str, Any]) -> str:
    """The reference deployment with changes of its manifest and its own; returns the file's name."""
    data = yaml.safe_load((REFERENCE / "llama-70b.yaml").read_text(encoding="utf-8"))
    own = yaml.safe_load((REFERENCE / "deployment.yaml").read_text(encoding="utf-8"))
    (folder / "llama-70b.yaml").write_text(yaml.safe_dump(changed(data, manifest)), encoding="utf-8")
    (folder / "deployment.yaml").write_text(yaml.safe_dump({**own, **deployment}), encoding="utf-8")
    return str(folder / "deployment.yaml")


@pytest.mark.parametrize(
    ("manifest", "deployment", "path"),
    [
        pytest.param(
            {"spec.tlsConfig": {"tlsCertificateOutputS3Uri": "s3://hyperpod-tls-x"}},
            {},
            "spec.tlsConfig",
            id="no-certificate",
        ),
        pytest.param(
            {"spec.worker.command": ["/bin/sh", "-c", "vllm serve x"]},
            {},
            "spec.worker.command",
            id="command",
        ),
        pytest.param(
            {"spec.worker.args": [*ARGS, "--kv-transfer-config", "{}"]},
            {},
            "spec.worker.args[6]",
            id="argument",
        ),
        pytest.param(
            {"spec.worker.environmentVariables": [{"name": "LMCACHE_CHUNK_SIZE", "value": "256"}]},
            {},
            "spec.worker.environmentVariables[0]",
            id="variable",
        ),
        pytest.param({"metadata.name": "7b-model"}, {}, "metadata.name", id="name"),
        pytest.param({}, {"routing": {"modelAliases": {"a": "b"}}}, "routing.modelAliases.a", id="alias"),
        pytest.param({}, {"cache": {"l1": {"size": "3000Gi"}}}, "cache.l1.size", id="memory"),
    ],
)
def test_what_render_would_refuse_is_an_error_at_its_place(
    manifest: dict[str, Any], deployment: dict[str, Any], path: str, tmp_path: Path
) -> None:
    report = lint_files([write(tmp_path, manifest, deployment)])

    (error,) = [finding for finding in report.findings if finding.severity == "error"]
    assert (error.rule, error.path, error.line > 0) == ("not-rendered", path, True)
    assert error.file.endswith(
        "deployment.yaml" if path.startswith(("routing", "cache")) else "llama-70b.yaml"
    )


def test_it_is_said_in_korean_too(tmp_path: Path) -> None:
    report = lint_files([write(tmp_path, {"metadata.name": "7b-model"}, {})], language="ko")

    assert "metadata.name 값이 '7b-model'입니다" in report.findings[0].message


def test_where_a_rule_is_broken_it_speaks_alone(tmp_path: Path) -> None:
    report = lint_files([write(tmp_path, {"metadata.name": "7b-model", "spec.replicas": 70}, {})])

    assert [finding.rule for finding in report.findings] == ["more-replicas-than-nodes"]
