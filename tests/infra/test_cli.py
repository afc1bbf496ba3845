"""`cdk synth` as a user types it: the real CLI, without an account, Docker or a network."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.cli

ROOT = Path(__file__).parents[2]
CDK = ROOT / "node_modules" / ".bin" / "cdk"


def environment(home: Path) -> dict[str, str]:
    """A person's terminal: no credentials and no way to find any; the validator on, `CI` unset."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") and name not in {"CDK_VALIDATION", "CI"}
    }
    return kept | {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(home / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(home / "none"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "DOCKER_HOST": "tcp://127.0.0.1:1",
        "HTTPS_PROXY": "http://127.0.0.1:1",
    }


def synth(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(CDK), "synth", "--quiet", "--no-notices", "--output", str(folder / "cdk.out"), *arguments],
        cwd=ROOT,
        env=environment(folder) | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("synth")


@pytest.fixture(scope="module")
def synthesized(folder: Path) -> subprocess.CompletedProcess[str]:
    done = synth(folder)
    assert done.returncode == 0, done.stderr
    return done


def test_the_review_is_printed_at_the_end(
    synthesized: subprocess.CompletedProcess[str], folder: Path
) -> None:
    said = synthesized.stderr

    assert "Review of reference: 4 stacks" in said
    assert "ml.p5.48xlarge for cluster usage: 7" in said
    assert str(folder / "cdk.out" / "review.md") in said


def test_no_flag_of_the_cdk_is_left_open(synthesized: subprocess.CompletedProcess[str]) -> None:
    assert "feature flags are not configured" not in synthesized.stderr


def test_standard_output_is_left_to_templates(synthesized: subprocess.CompletedProcess[str]) -> None:
    assert synthesized.stdout == ""


def test_in_a_build_server_the_review_stays_off_standard_output(tmp_path: Path) -> None:
    """With `CI=true` the CDK CLI says its own lines on standard output; ours stay where they were."""
    done = synth(tmp_path, CI="true")

    assert done.returncode == 0, done.stderr
    assert "Review of reference: 4 stacks" in done.stderr
    assert "Review of reference" not in done.stdout


def test_the_page_stands_beside_the_templates(
    synthesized: subprocess.CompletedProcess[str], folder: Path
) -> None:
    out = folder / "cdk.out"

    review = json.loads((out / "review.json").read_text())

    assert set(review["stacks"]) == {
        f"reference-{part}" for part in ("network", "cluster", "serving", "operations")
    }
    assert "ml.p5.48xlarge" in review["bill"]["unknown"]
    assert (out / "review.md").read_text().startswith("# Review of reference")
    assert (out / "review.svg").read_text().startswith("<svg ")


def test_the_templates_name_where_a_thing_stands(
    synthesized: subprocess.CompletedProcess[str], folder: Path
) -> None:
    review = json.loads((folder / "cdk.out" / "review.json").read_text())

    assert any(entry["what"].startswith("L2:") for entry in review["encryption"])


def test_a_mistake_ends_in_one_sentence_with_its_place(tmp_path: Path) -> None:
    reference = ROOT / "examples" / "reference"
    written = yaml.safe_load((reference / "deployment.yaml").read_text())
    written["endpoints"] = [str(reference / name) for name in written["endpoints"]]
    written["cluster"]["kubernetesVersion"] = "1.20"
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump(written))

    done = synth(tmp_path, "-c", f"deployment={file}")

    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    place = f'error: {file}:11:3: cluster.kubernetesVersion is "1.20"; expected one that HyperPod supports'
    assert errors[0].startswith(place)
    assert "Subprocess exited with error 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert 'File "' not in done.stderr
