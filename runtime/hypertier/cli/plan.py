"""`hypertier plan`: what a deployment needs, holds and costs, before it runs."""

from __future__ import annotations

import json

import click


@click.command("plan", epilog="Example: hypertier plan examples/reference/deployment.yaml")
@click.argument("file", metavar="FILE")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--model-config",
    metavar="FILE",
    help="A model's config.json, for models that hypertier has no table row of.",
)
@click.option(
    "--prefill-tokens-per-second",
    type=float,
    help="Of one replica, measured on prompts of a few thousand tokens; replaces the estimate.",
)
@click.option(
    "--prices",
    metavar="FILE",
    help="Your prices: item -> {usdPerHour, source, date}, such as ml.p5.48xlarge, as YAML or JSON.",
)
def command(
    file: str,
    form: str,
    model_config: str | None,
    prefill_tokens_per_second: float | None,
    prices: str | None,
) -> None:
    """Memory, KV capacity, break-even of L2 per prompt length, cold start, addresses and the bill.

    Exits with 1, and the setting to change, where something does not fit. docs/plan.md has every formula.
    """
    from hypertier.catalog.model_config import load_model_config
    from hypertier.catalog.prices import PRICES, load_prices
    from hypertier.errors import ConfigError
    from hypertier.planning import report
    from hypertier.planning.plan import plan_deployment
    from hypertier.spec.deployment import load_deployment

    if prefill_tokens_per_second is not None and not 0 < prefill_tokens_per_second < 1e12:
        raise ConfigError("--prefill-tokens-per-second", prefill_tokens_per_second, "more than 0")
    deployment = load_deployment(file)
    plan = plan_deployment(
        deployment,
        model=load_model_config(model_config) if model_config is not None else None,
        prefill_tokens_per_second=prefill_tokens_per_second,
        prices={**PRICES, **load_prices(prices, deployment.region)} if prices is not None else PRICES,
    )
    click.echo(json.dumps(report.as_data(plan), indent=2) if form == "json" else report.as_text(plan))
