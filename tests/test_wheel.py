"""The wheel as a foreign project gets it: built, installed beside nothing of this checkout, imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UV = Path(sys.prefix) / "bin" / "uv"

pytestmark = pytest.mark.cli


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [
            str(UV),
            "build",
            "--quiet",
            "--wheel",
            "--out-dir",
            str(out),
            "--no-build-isolation",
            "--python",
            sys.executable,
            str(ROOT),
        ],
        check=True,
    )
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def foreign_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel, and this environment's third-party packages behind it."""
    home = tmp_path_factory.mktemp("foreign")
    subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, str(home / "venv")], check=True)
    python = home / "venv" / "bin" / "python"
    subprocess.run(
        [str(UV), "pip", "install", "--quiet", "--offline", "--no-deps", "--python", str(python), str(wheel)],
        check=True,
    )
    site_packages = next((home / "venv" / "lib").glob("python*/site-packages"))
    third_party = next(Path(sys.prefix, "lib").glob("python*/site-packages"))
    # Only a plain path entry: a .pth of the editable install inside it is not followed from here.
    (site_packages / "third_party.pth").write_text(str(third_party), encoding="utf-8")
    return python


def run(python: Path, code: str, cwd: Path) -> str:
    """What `code` prints, run outside the checkout; CDK apps in it write to `cwd`/cdk.out."""
    quiet = {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20", "CDK_VALIDATION": "false"}
    done = subprocess.run(
        [str(python), "-I", "-c", code],
        cwd=cwd,
        env=dict(os.environ) | quiet | {"CDK_OUTDIR": str(cwd / "cdk.out")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}

    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "hypertier",
        "hypertier_cdk",
        "hypertier_lambdas",
    }


@pytest.mark.parametrize(
    "member",
    [
        "hypertier/py.typed",
        "hypertier_cdk/py.typed",
        "hypertier_lambdas/replicas/handler.py",
        "hypertier/Containerfile",
    ],
)
def test_the_wheel_carries_what_a_foreign_stack_deploys(wheel: Path, member: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert member in archive.namelist()


def test_our_constructs_stand_beside_the_cdk_s_own_package(foreign_python: Path, tmp_path: Path) -> None:
    code = (
        "from constructs import Construct\n"
        "from hypertier_cdk import InferenceEndpoint\n"
        "import hypertier_cdk\n"
        "assert issubclass(InferenceEndpoint, Construct)\n"
        "print(hypertier_cdk.__file__)"
    )

    assert str(foreign_python.parent.parent) in run(foreign_python, code, tmp_path)


def test_the_command_of_an_installed_wheel_answers(foreign_python: Path, tmp_path: Path) -> None:
    command = foreign_python.parent / "hypertier"

    done = subprocess.run([str(command), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "lint" in done.stdout


def test_a_team_s_own_stack_takes_one_construct_in_under_20_lines(
    foreign_python: Path, tmp_path: Path
) -> None:
    app = (ROOT / "examples" / "foreign_stack" / "app.py").read_text(encoding="utf-8")

    run(foreign_python, app, tmp_path)

    template = json.loads((tmp_path / "cdk.out" / "Chat.template.json").read_text(encoding="utf-8"))
    types = {resource["Type"] for resource in template["Resources"].values()}
    assert {"AWS::ElastiCache::ReplicationGroup", "AWS::SecretsManager::Secret"} <= types
    assert len(app.splitlines()) < 20


def test_what_a_foreign_stack_uploads_comes_out_of_the_wheel(foreign_python: Path, tmp_path: Path) -> None:
    reference = ROOT / "examples" / "reference" / "deployment.yaml"
    code = f"""
import aws_cdk as cdk
from hypertier.spec import load_deployment
from hypertier_cdk import CacheUtilizationScaling, HyperPodCluster, InferenceEndpoint, Network

app = cdk.App()
stack = cdk.Stack(app, "Theirs", env=cdk.Environment(region="us-west-2"))
deployment = load_deployment({str(reference)!r})
network = Network(stack, "Network", availability_zone_ids=["usw2-az2"])
cluster = HyperPodCluster(
    stack, "Cluster", network=network, kubernetes_version="1.35", instance_groups=deployment.instance_groups,
    name="theirs",
)
endpoint = InferenceEndpoint(stack, "Endpoint", cluster=cluster, deployment=deployment)
CacheUtilizationScaling(
    stack, "Scaling", cluster=cluster, endpoint="llama-70b", namespace="inference",
    deployment=endpoint.deployment_names["engine"], min_replicas=2, max_replicas=7,
)
app.synth()
"""

    run(foreign_python, code, tmp_path)

    staged = {
        str(file.relative_to(asset))
        for asset in (tmp_path / "cdk.out").glob("asset.*")
        for file in asset.rglob("*")
    }
    assert {"Containerfile", "tier/launch.py", "replicas/handler.py", "readiness/handler.py"} <= staged
