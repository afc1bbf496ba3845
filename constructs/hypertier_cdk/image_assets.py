"""Images that `cdk deploy` builds and pushes; synth copies what they are built from, and needs no Docker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from hypertier_cdk.assets import NOT_IN_ASSETS, fingerprint
from hypertier_cdk.charts.images import ImageBuild

PLATFORM = "linux/amd64"


def image_uris(scope: Construct, builds: Mapping[str, ImageBuild]) -> dict[str, str]:
    """The address that each image will have in the registry of the deployment's account, by its name.

    Images built from one folder share one copy of it, unlike `DockerImageAsset`s, of which each brings its
    own.
    """
    stack = cdk.Stack.of(scope)
    synthesizer, path = stack.synthesizer, scope.node.path
    copies: dict[Path, cdk.AssetStaging] = {}
    found = {}
    for name, build in builds.items():
        if build.directory not in copies:
            copies[build.directory] = cdk.AssetStaging(
                scope,
                f"BuildContext{len(copies)}",
                source_path=str(build.directory),
                exclude=NOT_IN_ASSETS,
                asset_hash=fingerprint(build.directory),
            )
        copy = copies[build.directory]
        options: dict[str, Any] = {
            "docker_file": build.file,
            "docker_build_target": build.target,
            "docker_build_args": dict(build.build_args),
            "platform": PLATFORM,
        }
        location = synthesizer.add_docker_image_asset(
            source_hash=_hash(copy.asset_hash, options),
            directory_name=copy.relative_staged_path(stack),
            display_name=f"{path}/{name}",
            **options,
        )
        found[name] = location.image_uri
    return found


def _hash(context_hash: str, options: Mapping[str, object]) -> str:
    """What the image is tagged with: it changes with whatever the image is built from."""
    return hashlib.sha256(json.dumps([context_hash, options], sort_keys=True).encode()).hexdigest()
