"""`hypertier verify`: a prompt sent twice to a running endpoint, and what that says of its cache."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from hypertier.cli.asking import asks_endpoint, key_of
from hypertier.errors import ConfigError

if TYPE_CHECKING:
    from hypertier.exporter.cloudwatch import CloudWatch
    from hypertier.exporter.series import DataPoint
    from hypertier.verification.verify import Report

MIN_PROMPT_TOKENS, MAX_PROMPT_TOKENS = 64, 200_000
MAX_TIMEOUT_SECONDS = 3600.0


@click.command(
    "verify",
    epilog="Example: hypertier verify http://llama-70b-router.inference.svc --api-key-env HYPERTIER_API_KEY",
)
@click.argument("url")
@asks_endpoint
@click.option(
    "--timeout", default=120.0, show_default=True, help="Seconds that everything together may take."
)
@click.option("--prompt-tokens", default=2000, show_default=True, help="About how long the prompt is.")
@click.option(
    "--l2/--no-l2", default=True, show_default=True, help="Whether another replica must have it from L2."
)
@click.option(
    "--expect-details",
    is_flag=True,
    help="Engines run with --enable-prompt-tokens-details: an answer without a count is a miss.",
)
@click.option("--publish", metavar="NAME", help="Publish the outcome to CloudWatch, as the endpoint NAME's.")
@click.option("--region", envvar="AWS_REGION", show_envvar=True, help="CloudWatch's region.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    url: str,
    model: str | None,
    api_key_env: str | None,
    ca: str | None,
    timeout: float,
    prompt_tokens: int,
    l2: bool,
    expect_details: bool,
    publish: str | None,
    region: str | None,
    form: str,
) -> None:
    """Send the endpoint at URL a prompt that is new, send it again, and say whether the cache works.

    Ends with 0 where all checks passed, 1 where one failed, 2 where none failed and not all could be told.
    """
    from hypertier.verification.endpoint import Endpoint
    from hypertier.verification.report import as_dict, lines
    from hypertier.verification.verify import Verifier, Wish

    if not 1 <= timeout <= MAX_TIMEOUT_SECONDS:
        raise ConfigError("--timeout", timeout, f"1 to {MAX_TIMEOUT_SECONDS:g} seconds")
    if not MIN_PROMPT_TOKENS <= prompt_tokens <= MAX_PROMPT_TOKENS:
        raise ConfigError("--prompt-tokens", prompt_tokens, f"{MIN_PROMPT_TOKENS} to {MAX_PROMPT_TOKENS}")
    publisher = _publisher(publish, region)
    endpoint = Endpoint(url, key=key_of(api_key_env), ca=ca)
    wish = Wish(
        model=model,
        prompt_tokens=prompt_tokens,
        timeout_seconds=timeout,
        asks_l2=l2,
        expects_details=expect_details,
    )
    report = Verifier(endpoint, wish).run()
    if form == "json":
        click.echo(json.dumps(as_dict(report)))
    else:
        for line in lines(report):
            click.echo(line)
    if publisher is not None:
        publisher.publish(_data(report), datetime.now(UTC))
    sys.exit(report.status)


def _publisher(endpoint: str | None, region: str | None) -> CloudWatch | None:
    """What writes the series; the pod's credentials are found by boto3.

    Raises:
        ConfigError: a name or a region that CloudWatch can't have.
        MissingPackageError: boto3 is not installed.
    """
    from hypertier.catalog.zones import REGION
    from hypertier.cli.exporter import ENDPOINT

    if endpoint is None:
        return None
    if not ENDPOINT.fullmatch(endpoint):
        raise ConfigError("--publish", endpoint, "the endpoint's name: 1 to 253 letters, digits, . and -")
    if region is None or not REGION.fullmatch(region):
        raise ConfigError("--region", region, "a Region of AWS, such as us-west-2")
    from hypertier.exporter.cloudwatch import CloudWatch
    from hypertier.exporter.metrics import NAMESPACE

    return CloudWatch(endpoint, NAMESPACE, region)


def _data(report: Report) -> list[DataPoint]:
    from hypertier.exporter.metrics import VERIFY_SERIES
    from hypertier.exporter.series import DataPoint
    from hypertier.verification.report import values

    found = values(report)
    return [DataPoint(series, (found[series.name],)) for series in VERIFY_SERIES if series.name in found]
