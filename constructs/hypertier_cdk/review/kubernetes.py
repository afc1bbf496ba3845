"""The Kubernetes objects that the stacks apply, read back from the templates."""

from __future__ import annotations

import json
from typing import Any

from hypertier_cdk.review.templates import Assembly, text_of

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"


def objects_of(assembly: Assembly) -> tuple[dict[str, Any], ...]:
    """Every object of every manifest; values that are known at deployment alone stand as `${Id}`."""
    return tuple(
        entry
        for resource in assembly.of_type(MANIFEST)
        for entry in json.loads(text_of(resource.get("Manifest", default="[]")))
    )


def of_kind(objects: tuple[dict[str, Any], ...], kind: str) -> tuple[dict[str, Any], ...]:
    """The objects of one kind."""
    return tuple(entry for entry in objects if entry.get("kind") == kind)
