"""The examples' stacks, synthesized in memory with the flags of cdk.json as the CLI would set them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hypertier.spec.cluster import ClusterAttributes
from hypertier.spec.deployment import Deployment, load_deployment
from infra.stacks import add_stacks, new_app

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*/deployment.yaml"))
FLAGS = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]


def on_what_exists(deployment: Deployment, *, eks: str | None) -> Deployment:
    """The deployment with a new HyperPod cluster in an existing VPC, or on an existing EKS cluster there."""
    zones = [group.availability_zone_id for group in deployment.instance_groups if group.availability_zone_id]
    told = ClusterAttributes(
        vpc_id="vpc-0123456789abcdef0",
        vpc_cidrs=("10.0.0.0/16",),
        availability_zones=("us-west-2a", "us-west-2b"),
        availability_zone_ids=(zones[0], "usw2-az4"),
        private_subnet_ids=("subnet-0123456789abcdef0", "subnet-0123456789abcdef1"),
        private_subnet_cidrs=("10.0.0.0/18", "10.0.64.0/18"),
        eks_cluster_name=eks,
        eks_security_group_id="sg-0123456789abcdef0" if eks else None,
        oidc_provider_arn="arn:aws:iam::123456789012:oidc-provider/oidc.example/id/1" if eks else None,
    )
    return replace(deployment, cluster=replace(deployment.cluster, attributes=told))


def synthesized(*deployments: Deployment) -> Path:
    """The folder with the templates of a deployment, or of several in one app."""
    app = new_app({**FLAGS, "aws:cdk:enable-path-metadata": True})
    for deployment in deployments:
        add_stacks(app, deployment)
    return Path(app.synth().directory)


@cache
def example_folder(file: Path) -> Path:
    """The folder with an example's templates; made once."""
    return synthesized(load_deployment(file))


def example_templates(file: Path) -> dict[str, dict[str, Any]]:
    """The templates of an example, by the stack's name."""
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(example_folder(file).glob("*.template.json"))
    }
