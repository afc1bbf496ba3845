"""The images: built from one Containerfile, out of a checkout or an installed wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier_cdk.charts.images import image_build, vllm_image
from hypertier_cdk.charts.pods import USER_ID

ROOT = Path(__file__).parents[3]
CONTAINERFILE = (ROOT / "runtime" / "Containerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
IN_IMAGE = re.search(r"<<EOF pyproject\.toml\n(.*?)\nEOF\n", CONTAINERFILE, re.DOTALL)
assert IN_IMAGE is not None


@pytest.fixture(scope="module")
def reference() -> Deployment:
    return load_deployment(ROOT / "examples" / "reference" / "deployment.yaml")


def test_an_image_is_built_from_the_folder_that_holds_the_containerfile(reference: Deployment) -> None:
    build = image_build(reference, "router")

    assert (build.directory / build.file).read_text(encoding="utf-8") == CONTAINERFILE
    assert build.target == "router"
    assert build.build_args == {}


def test_an_installed_wheel_brings_its_containerfile_inside_the_package(
    reference: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Containerfile").write_text(CONTAINERFILE, encoding="utf-8")
    monkeypatch.setattr("hypertier_cdk.charts.images.package_folder", lambda: tmp_path)

    build = image_build(reference, "router")

    assert (build.directory, build.build_args) == (tmp_path, {"PACKAGE": "."})


def test_a_hypertier_without_a_containerfile_says_so(
    reference: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypertier_cdk.charts.images.package_folder", lambda: tmp_path / "hypertier")

    with pytest.raises(
        MissingPackageError, match=r"building images needs the package hypertier with Containerfile"
    ):
        image_build(reference, "engine")


def test_the_engine_is_built_on_the_image_of_the_manifest(reference: Deployment) -> None:
    assert image_build(reference, "engine").build_args == {"VLLM_IMAGE": "vllm/vllm-openai:v0.32.0"}


def test_a_target_that_does_not_exist_is_refused(reference: Deployment) -> None:
    with pytest.raises(ConfigError, match=r"target is 'exporter'; expected engine or router"):
        image_build(reference, "exporter")


def test_endpoints_with_different_images_are_refused(reference: Deployment) -> None:
    endpoint = reference.endpoints[0]
    other = replace(
        endpoint,
        metadata=replace(endpoint.metadata, name="other"),
        spec=replace(endpoint.spec, worker=replace(endpoint.spec.worker, image="vllm/vllm-openai:v1")),
    )

    with pytest.raises(ConfigError, match=r"spec\.worker\.image is .*images\.engine"):
        vllm_image(replace(reference, endpoints=(endpoint, other)))


@pytest.mark.parametrize("target", ["engine", "router"])
def test_the_targets_are_there_and_run_as_the_user_of_the_pods(target: str) -> None:
    stage = re.search(rf"^FROM \S+ AS {target}\n(.*?)(?=^FROM |\Z)", CONTAINERFILE, re.DOTALL | re.MULTILINE)

    assert stage is not None
    assert re.findall(r"^USER (\S+)$", stage[1], re.MULTILINE)[-1] == f"{USER_ID}:{USER_ID}"


@pytest.mark.parametrize(
    ("target", "extra"), [("engine", "engine"), ("router", "router"), ("router", "exporter")]
)
def test_each_target_has_what_its_part_of_hypertier_asks_for(target: str, extra: str) -> None:
    stage = re.search(rf"^FROM \S+ AS {target}\n(.*?)(?=^FROM |\Z)", CONTAINERFILE, re.DOTALL | re.MULTILINE)
    asked = {re.split(r"[<>=]", name)[0] for name in PROJECT["project"]["optional-dependencies"][extra]}

    assert stage is not None
    assert asked <= set(re.findall(r"\b([a-z0-9-]+)==", stage[1]))


def test_the_project_inside_the_image_is_the_one_outside() -> None:
    inside = tomllib.loads(IN_IMAGE[1])["project"]

    outside = PROJECT["project"]
    assert inside["version"] == version("hypertier")
    assert inside["scripts"] == outside["scripts"]
    assert set(inside["dependencies"]) <= set(outside["dependencies"])  # pods lint nothing
    assert inside["entry-points"] == {"vllm.general_plugins": outside["entry-points"]["vllm.general_plugins"]}


def test_the_packages_in_the_images_have_the_locked_versions() -> None:
    locked = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")

    pins = set(re.findall(r"\b([a-z0-9-]+==[0-9.]+)", CONTAINERFILE))

    assert len(pins) >= 8
    assert {pin for pin in pins if f"\n{pin} " not in f"\n{locked}"} == set()


def test_the_default_base_of_the_engine_is_that_of_the_reference(reference: Deployment) -> None:
    assert f"VLLM_IMAGE=docker.io/{vllm_image(reference)}\n" in CONTAINERFILE


@pytest.mark.cli
def test_the_wheel_inside_the_image_builds_and_has_the_command(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(IN_IMAGE[1], encoding="utf-8")
    shutil.copytree(
        ROOT / "runtime" / "hypertier", tmp_path / "hypertier", ignore=shutil.ignore_patterns("__pycache__")
    )
    command = [str(Path(sys.prefix) / "bin" / "uv"), "build", "--quiet", "--wheel", "--no-build-isolation"]
    command += ["--python", sys.executable, "--out-dir", str(tmp_path / "dist"), str(tmp_path)]
    subprocess.run(command, check=True)

    with zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))) as wheel:
        names = wheel.namelist()
        entry_points = wheel.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()

    assert "hypertier/tier/launch.py" in names
    assert "hypertier = hypertier.cli.main:main" in entry_points
    assert "[vllm.general_plugins]" in entry_points
