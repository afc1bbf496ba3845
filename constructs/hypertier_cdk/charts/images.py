"""How the images of the pods are built from `runtime/Containerfile`: what a build on deployment is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.spec.deployment import Deployment

CONTAINERFILE = "Containerfile"
TARGETS = ("engine", "router")


@dataclass(frozen=True, slots=True)
class ImageBuild:
    """`docker build --file FILE --target TARGET --build-arg ... DIRECTORY`; `file` lies in `directory`."""

    directory: Path
    file: str
    target: str
    build_args: Mapping[str, str]


def image_build(deployment: Deployment, target: str) -> ImageBuild:
    """How to build `engine` or `router`: from a checkout, or from what an installed wheel brings along.

    Raises:
        ConfigError: the target does not exist, or the endpoints want engines of different images.
        MissingPackageError: hypertier is installed without its Containerfile.
    """
    if target not in TARGETS:
        raise ConfigError("target", target, " or ".join(TARGETS))
    build_args = {"VLLM_IMAGE": vllm_image(deployment)} if target == "engine" else {}
    package = package_folder()
    if (package / CONTAINERFILE).is_file():
        return ImageBuild(package, CONTAINERFILE, target, {**build_args, "PACKAGE": "."})
    if (package.parent / CONTAINERFILE).is_file():
        return ImageBuild(package.parent, CONTAINERFILE, target, build_args)
    raise MissingPackageError("building images", f"hypertier with {CONTAINERFILE}", "cdk")


def vllm_image(deployment: Deployment) -> str:
    """The image that the engine's is built on: `spec.worker.image` of the endpoints.

    Raises:
        ConfigError: the endpoints name different ones, and one image is built for all.
    """
    images = list(dict.fromkeys(endpoint.spec.worker.image for endpoint in deployment.endpoints))
    if len(images) != 1:
        raise ConfigError(
            "spec.worker.image",
            images,
            "the same image in every endpoint, as one engine image is built for all of them; or build them "
            "yourself and name one in images.engine",
        )
    return images[0]


def package_folder() -> Path:
    """The folder of the package `hypertier`."""
    return Path(str(files("hypertier")))
