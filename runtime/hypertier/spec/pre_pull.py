"""Whether nodes get the engine's image before an engine comes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypertier.catalog.instance_types import find_instance_type
from hypertier.spec.instance_group import InstanceGroup

if TYPE_CHECKING:
    from hypertier.spec.deployment import Deployment


def pulls_ahead(deployment: Deployment, group: InstanceGroup) -> bool:
    """Whether every node of `group` is to have the image: engines of ours run there, on GPUs.

    Images with CUDA are 12 GB and more to pull, and others are left alone.
    https://github.com/vllm-project/vllm/issues/27154 (read 2026-12-03)
    """
    node = find_instance_type(group.instance_type)
    return (
        deployment.serving == "selfhosted"
        and deployment.images.pre_pull
        and node is not None
        and bool(node.gpus)
    )
