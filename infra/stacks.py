"""From a deployment to its four stacks, each depending on the one before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.suggest import nearest
from hypertier_cdk.validation import add_validator
from infra.adopted import AdoptedStack
from infra.cluster import ClusterStack
from infra.network import NetworkStack
from infra.operations import OperationsStack
from infra.serving import ServingStack
from infra.settings import check_region, settings_as_typed

REFERENCE = Path(__file__).parent.parent / "examples" / "reference" / "deployment.yaml"
CONTEXT = ("deployment", "deployed", "prices")
"""What `-c` takes from the command line."""
_NAME = re.compile(r"[a-zA-Z](-?[a-zA-Z0-9]){0,50}")
# Where in the CDK's JavaScript a resource was made: every line of it would be jsii's own.
_WITHOUT_TRACES = {"aws:cdk:disable-creation-stack-traces": True, "aws:cdk:disable-stack-trace": True}


def new_app(context: Mapping[str, Any] | None = None) -> cdk.App:
    """An app that writes where the CDK CLI says; `context` goes before the command line's.

    Without `tree.json`, which no command of the CDK CLI needs to synthesize or deploy. The CDK's validator
    looks at a template again only when it has changed.
    """
    app = cdk.App(
        context={**_WITHOUT_TRACES, **(context or {})},
        tree_metadata=False,
        builtin_cloud_formation_validation=False,
    )
    add_validator(app)
    return app


def chosen_file(app: cdk.App) -> str:
    """The deployment file that `-c deployment=FILE` names, or the reference.

    Raises:
        ConfigError: it is named by nothing, as by a variable of the shell that is not set, or the key of
            `-c` is misspelled: the reference is no one's wish then.
    """
    for key, value in app.node.get_all_context().items():
        meant = None if key in CONTEXT or ":" in key else nearest(key, CONTEXT)
        if meant is not None:
            raise ConfigError(f"-c {key}", value, f"no such key; -c {meant}={value}?")
    chosen = app.node.try_get_context("deployment")
    if chosen == "":
        raise ConfigError("-c deployment", chosen, "a deployment file; without -c deployment, the reference")
    return str(chosen or REFERENCE)


def chosen_deployment(app: cdk.App) -> Deployment:
    """What the chosen file says.

    Raises:
        ManifestError, ConfigError: the file, or one that it names, cannot work.
    """
    return load_deployment(chosen_file(app))


def add_stacks(app: cdk.App, deployment: Deployment) -> None:
    """Put the stacks of `deployment` into `app`: network, cluster, serving and operations.

    Where the cluster exists already, one small stack that lets manifests in stands for the first two; where
    its VPC does, there is no network stack.

    Raises:
        ConfigError: a setting that cannot work; nothing of it reaches AWS.
    """
    name = deployment.name
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "name",
            name,
            "a letter, then letters, digits and single hyphens: stacks are named after it",
        )
    check_region(deployment)
    with settings_as_typed():
        _add(app, deployment)


def _add(app: cdk.App, deployment: Deployment) -> None:
    name = deployment.name
    common: dict[str, Any] = {
        # The account is the one that deploys; the Region is the deployment's.
        "env": cdk.Environment(region=deployment.region),
        # CloudFormation hands a stack's tags on to resources whose type is taggable, by its schema.
        # https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-resource-tags.html
        # (read 2026-12-02)
        "tags": {"hypertier:deployment": name},
    }
    base = _adopted(app, deployment, common) if deployment.cluster.existing else _new(app, deployment, common)
    serving = ServingStack(
        app,
        f"{name}-serving",
        deployment=deployment,
        network=base.network,
        cluster=base.cluster,
        operator_ready=base.operator_ready,
        controllers=base.controllers,
        **common,
    )
    operations = OperationsStack(
        app,
        f"{name}-operations",
        deployment=deployment,
        cluster=base.cluster,
        scalings=serving.scalings,
        store=serving.store,
        **common,
    )
    operations.add_stack_dependency(serving)


def _adopted(app: cdk.App, deployment: Deployment, common: Mapping[str, Any]) -> AdoptedStack:
    return AdoptedStack(app, f"{deployment.name}-adopted", deployment=deployment, **common)


def _new(app: cdk.App, deployment: Deployment, common: Mapping[str, Any]) -> ClusterStack:
    network = None
    if deployment.cluster.attributes is None:
        network = NetworkStack(app, f"{deployment.name}-network", deployment=deployment, **common).network
    return ClusterStack(app, f"{deployment.name}-cluster", deployment=deployment, network=network, **common)
