"""Deployments for chart tests: the reference, with fields of its endpoint manifest changed by path."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.endpoint import InferenceEndpointConfig

REFERENCE = Path(__file__).parent.parent / "examples" / "reference"
MANIFEST = yaml.safe_load((REFERENCE / "llama-70b.yaml").read_text(encoding="utf-8"))


def endpoint(changes: Mapping[str, Any] | None = None) -> InferenceEndpointConfig:
    """The reference endpoint with `{"spec.replicas": 3}` and the like; None takes the field out."""
    manifest = copy.deepcopy(MANIFEST)
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        place = manifest
        for key in parents:
            place = place.setdefault(key, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return InferenceEndpointConfig.from_manifest(manifest)


def deployment(changes: Mapping[str, Any] | None = None, **fields: Any) -> Deployment:
    """The reference deployment with a changed endpoint, and fields of `Deployment` replaced."""
    reference = load_deployment(REFERENCE / "deployment.yaml")
    return replace(reference, **{"endpoints": (endpoint(changes),), **fields})
