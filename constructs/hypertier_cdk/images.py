"""The container images of Kubernetes objects, and which of them a closed network has. Plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def is_reachable_image(image: str) -> bool:
    """Whether a node without internet can pull `image`: only from a registry of ECR, by its private
    address."""
    registry = image.partition("/")[0]
    return ".dkr.ecr." in registry or registry.startswith("${Token[")


def images_of(value: Any) -> Iterator[str]:
    """Every container image in a Kubernetes object, however deep it stands."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if key in ("containers", "initContainers"):
                yield from (container["image"] for container in entry if "image" in container)
            else:
                yield from images_of(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from images_of(entry)
