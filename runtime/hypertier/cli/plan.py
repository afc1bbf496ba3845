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
    "--kv-transfer-bandwidth",
    metavar="RATE",
    help="Between two engines of an endpoint with pdSpec, measured, such as 40GB/s; replaces the assumption.",
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
    kv_transfer_bandwidth: str | None,
    prices: str | None,
) -> None:
    """Memory, KV capacity, break-even of L2 per prompt length, cold start, addresses and the bill.

    With pdSpec also whether it pays to prefill apart.

    Exits with 1, and the setting to change, where something does not fit. docs/plan.md has every formula.
    """
    from hypertier.catalog.model_config import load_model_config
    from hypertier.catalog.prices import PRICES, load_prices
    from hypertier.errors import ConfigError
    from hypertier.planning import report
    from hypertier.planning.plan import plan_deployment
    from hypertier.spec.deployment import load_deployment
    from hypertier.spec.located import located
    from hypertier.spec.quantities import parse_bytes_per_second

    if prefill_tokens_per_second is not None and not 0 < prefill_tokens_per_second < 1e12:
        raise ConfigError("--prefill-tokens-per-second", prefill_tokens_per_second, "more than 0")
    transfer = None
    if kv_transfer_bandwidth is not None:
        transfer = parse_bytes_per_second("--kv-transfer-bandwidth", kv_transfer_bandwidth)
        if transfer <= 0:
            raise ConfigError(
                "--kv-transfer-bandwidth", kv_transfer_bandwidth, "more than 0 bytes per second"
            )
    with located(file):
        deployment = load_deployment(file)
    own_prices = load_prices(prices, deployment.region) if prices is not None else {}
    model = load_model_config(model_config) if model_config is not None else None
    with located(file):
        plan = plan_deployment(
            deployment,
            model=model,
            prefill_tokens_per_second=prefill_tokens_per_second,
            kv_transfer_bytes_per_second=transfer,
            prices={**PRICES, **own_prices},
        )
    click.echo(json.dumps(report.as_data(plan), indent=2) if form == "json" else report.as_text(plan))
