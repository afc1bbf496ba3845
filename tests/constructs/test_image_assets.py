"""Images that are built on deployment: what they are built from, and how they are told apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from fakes_templates import REGION

from hypertier_cdk.charts.images import ImageBuild
from hypertier_cdk.image_assets import image_uris


@pytest.fixture
def build(tmp_path: Path) -> ImageBuild:
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "Containerfile").write_text("FROM scratch\n", encoding="utf-8")
    return ImageBuild(folder, "Containerfile", "engine", {"VLLM_IMAGE": "vllm:1"})


def built(outdir: Path, builds: dict[str, ImageBuild]) -> dict[str, Any]:
    """What the assembly says of the images, by the target that each is built for."""
    app = cdk.App(outdir=str(outdir))
    image_uris(cdk.Stack(app, "Images", env=cdk.Environment(region=REGION)), builds)
    app.synth()
    assets = json.loads((outdir / "Images.assets.json").read_text(encoding="utf-8"))["dockerImages"]
    return {image["source"]["dockerBuildTarget"]: (tag, image["source"]) for tag, image in assets.items()}


def test_images_of_one_folder_share_one_copy_of_it(build: ImageBuild, tmp_path: Path) -> None:
    found = built(tmp_path / "out", {"engine": build, "router": replace(build, target="router")})

    (engine, engine_source), (router, router_source) = found["engine"], found["router"]
    assert engine_source["directory"] == router_source["directory"]
    assert (tmp_path / "out" / engine_source["directory"] / "Containerfile").is_file()
    assert engine_source["dockerBuildArgs"] == {"VLLM_IMAGE": "vllm:1"}
    assert engine_source["platform"] == "linux/amd64"
    assert engine != router


def test_an_image_gets_another_tag_with_each_argument_and_file(build: ImageBuild, tmp_path: Path) -> None:
    first, _ = built(tmp_path / "1", {"engine": build})["engine"]
    other = replace(build, build_args={"VLLM_IMAGE": "vllm:2"})
    second, _ = built(tmp_path / "2", {"engine": other})["engine"]

    (build.directory / "new.py").write_text("", encoding="utf-8")
    third, _ = built(tmp_path / "3", {"engine": build})["engine"]

    assert len({first, second, third}) == 3
