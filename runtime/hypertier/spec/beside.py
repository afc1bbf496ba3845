"""The deployment file that an endpoint's manifest still needs beside it, as far as the manifest tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypertier.spec.tree import View

DEFAULT_INSTANCE_TYPE = "ml.p5.48xlarge"


def deployment_beside(manifest_name: str, manifest: Mapping[str, Any]) -> str:
    """A deployment file of one group for the manifest's instance type, with a node for each engine."""
    view = View(manifest)
    types = view.get("spec.instanceTypes")
    first = types[0] if isinstance(types, list) and types else DEFAULT_INSTANCE_TYPE
    instance_type = view.text("spec.instanceType") or first
    backend = view.text("spec.kvCacheSpec.l2CacheSpec.l2CacheBackend")
    lines = [
        "apiVersion: hypertier.dev/v1",
        "kind: Deployment",
        f"region: {view.text('spec.modelSourceConfig.s3Storage.region') or 'us-west-2'}",
        "instanceGroups:",
        "  - {name: system, instanceType: ml.m5.4xlarge, count: 3}",
        f"  - {{name: gpu, instanceType: {instance_type}, count: {_num_engines(view)}}}",
        *(["cache: {l2: {backend: tieredstorage}}"] if backend == "tieredstorage" else []),
        f"endpoints: [{manifest_name}]",
    ]
    return "\n".join(lines)


def _num_engines(view: View) -> int:
    if isinstance(view.get("spec.pdSpec"), dict):
        roles = ("spec.pdSpec.prefillSpec.replicas", "spec.pdSpec.decodingSpec.replicas")
        return sum(_count(view.get(role)) for role in roles)
    return _count(view.get("spec.replicas"))


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1
