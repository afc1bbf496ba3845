"""What a person sees at the end of a synth: the review, or one sentence about what to change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aws_cdk as cdk

from hypertier.catalog.prices import PRICES, load_prices
from hypertier.errors import HypertierError, ManifestError
from hypertier.exporter.metrics import SERIES, VERIFY_SERIES
from hypertier.spec.deployment import Deployment
from hypertier.spec.refuse import refuse_errors
from hypertier.spec.report import as_line
from hypertier.spec.roles import roles_of
from hypertier.spec.watched import num_replica_metrics, router_series
from hypertier_cdk.charts.exporter import is_exported
from hypertier_cdk.create_only import refuse_replacements
from hypertier_cdk.review.bill import within_budget
from hypertier_cdk.review.page import to_text, write_review
from infra.stacks import chosen_file


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn a user's mistake into one line on standard error and exit status 1, without a traceback."""
    try:
        yield
    except HypertierError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def refuse_what_lint_refuses(app: cdk.App) -> None:
    """Hold the chosen files to every rule of `hypertier lint`, and print what it warns of.

    Raises:
        ManifestError: the first error, with its file and line, and how many more there are.
    """
    for warning in refuse_errors(chosen_file(app)):
        print(as_line(warning), file=sys.stderr)


def refuse_what_would_be_replaced(app: cdk.App) -> None:
    """Compare with what is deployed, where `-c deployed=FOLDER` names its templates; after `app.synth()`.

    Raises:
        ConfigError: a change that CloudFormation would make by replacing what can't be; says what to do.
        ManifestError: the folder holds no templates that can be read.
    """
    deployed = app.node.try_get_context("deployed")
    if deployed is not None:
        folder = Path(str(deployed))
        if not any(folder.glob("*.template.json")):
            raise ManifestError(
                str(folder), None, "holds no template; expected the last deployment's cdk.out"
            )
        refuse_replacements(folder, Path(app.outdir))


def print_review(app: cdk.App, deployment: Deployment) -> None:
    """Write the review page beside the templates and print its short form, after `app.synth()`.

    `-c prices=FILE` adds a team's own prices.

    Raises:
        ManifestError, ConfigError: the file of prices cannot work, or the bill exceeds its budget.
    """
    own = app.node.try_get_context("prices")
    prices = {**PRICES, **(load_prices(str(own), deployment.region) if own else {})}
    exported = [
        endpoint
        for endpoint in deployment.endpoints
        if deployment.serving == "selfhosted" and is_exported(endpoint)
    ]
    num_metrics = len(SERIES) * sum(len(roles_of(deployment, endpoint)) for endpoint in exported)
    num_metrics += sum(len(router_series(deployment, endpoint)) for endpoint in exported)
    num_metrics += sum(num_replica_metrics(deployment, endpoint) for endpoint in exported)
    if deployment.verify is not None:
        num_metrics += len(VERIFY_SERIES) * len(exported)
    review = write_review(
        app.outdir,
        deployment.name,
        deployment.region,
        prices=prices,
        num_custom_metrics=num_metrics,
    )
    # Not standard output: there `cdk synth` writes a template.
    print(to_text(review, app.outdir), file=sys.stderr)
    budget = deployment.scaling.monthly_budget_usd
    if budget is not None:
        print(f"  budget      {within_budget(review.bill, budget)}", file=sys.stderr)
