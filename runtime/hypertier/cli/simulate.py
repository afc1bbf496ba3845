"""`hypertier simulate`: a trace through the router's strategies and through other routers' policies."""

from __future__ import annotations

from pathlib import Path

import click

from hypertier.errors import ConfigError

FORMATS = ("text", "json", "html")
ROUTERS_OWN = "prefixaware,kvaware,session,roundrobin"


@click.command(
    "simulate",
    epilog="Example: hypertier simulate --workload conversation --strategies prefixaware,llm-d --load 1",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A trace in Mooncake's form, one JSON object a line.",
)
@click.option("--workload", metavar="NAME", help="Generated traffic instead of a trace; see docs/routing.md.")
@click.option("--requests", default=3000, show_default=True, help="Requests of a generated workload.")
@click.option("--seed", default=1, show_default=True, help="Of the generated workload and of all chance.")
@click.option(
    "--strategies",
    default=ROUTERS_OWN,
    show_default=True,
    metavar="A,B",
    help="Strategies and policies of peers, such as prefixaware,llm-d; see docs/routing.md.",
)
@click.option("--replicas", default=8, show_default=True, help="Engines.")
@click.option("--routers", default=1, show_default=True, help="Routers side by side.")
@click.option(
    "--load",
    type=float,
    metavar="RATIO",
    help="Squeeze time so that computing every prompt whole keeps this share of the engines busy; above 1, "
    "they keep up by hits alone. Default: time as in the trace.",
)
@click.option(
    "--cache-tokens", default=400_000, show_default=True, help="Tokens that an engine's GPU and L1 keep."
)
@click.option(
    "--l2-tokens", default=0, show_default=True, help="Tokens that L2 keeps, for all engines; 0 for no L2."
)
@click.option(
    "--events/--no-events", default=False, show_default=True, help="Whether policies hear KV events."
)
@click.option("--usd-per-hour", type=float, help="Price of one engine's hour, for USD per million tokens.")
@click.option("--format", "form", default="text", show_default=True, type=click.Choice(FORMATS))
def command(
    trace: Path | None,
    workload: str | None,
    requests: int,
    seed: int,
    strategies: str,
    replicas: int,
    routers: int,
    load: float | None,
    cache_tokens: int,
    l2_tokens: int,
    events: bool,
    usd_per_hour: float | None,
    form: str,
) -> None:
    """Say what each strategy makes of the same traffic: hits, time to first token, balance and cost.

    The engines are a model, described in docs/routing.md: good for comparing strategies, not for capacity.
    """
    from hypertier.simulation import report
    from hypertier.simulation.catalog import policy
    from hypertier.simulation.cluster import ClusterSpec, simulate
    from hypertier.simulation.engine import EngineProfile
    from hypertier.simulation.trace import read_trace, with_load
    from hypertier.simulation.workloads import WORKLOADS

    check_sizes(replicas, routers, requests, cache_tokens, l2_tokens)
    for setting, value in (("--load", load), ("--usd-per-hour", usd_per_hour)):
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(setting, value, "a number above 0")
    names = [name for name in strategies.split(",") if name]
    builders = {name: policy(name) for name in names}
    if not builders:
        raise ConfigError(
            "--strategies", strategies, "names with commas between, such as prefixaware,roundrobin"
        )
    if (trace is None) == (workload is None):
        raise ConfigError(
            "--trace",
            str(trace) if trace else None,
            f"either --trace FILE or --workload NAME, which is one of {', '.join(WORKLOADS)}",
        )
    if workload is not None and workload not in WORKLOADS:
        raise ConfigError("--workload", workload, f"one of {', '.join(WORKLOADS)}")

    profile = EngineProfile(cache_tokens=cache_tokens)
    traffic = read_trace(trace) if trace else WORKLOADS[workload or ""](seed, requests)
    if load is not None:
        traffic = with_load(traffic, replicas * load, profile.prefill_seconds)
    spec = ClusterSpec(replicas, profile, routers, events=events, l2_tokens=l2_tokens)
    summaries = {
        name: report.summarize(simulate(traffic, spec, build, seed), usd_per_hour)
        for name, build in builders.items()
    }
    if form == "json":
        click.echo(report.as_json(summaries))
    elif form == "html":
        what = trace.name if trace else workload
        click.echo(
            report.as_html(summaries, f"{what}: {len(traffic)} requests, {replicas} replicas"), nl=False
        )
    else:
        click.echo(report.as_text(summaries))


def check_sizes(replicas: int, routers: int, requests: int, cache_tokens: int, l2_tokens: int) -> None:
    """Refuse what no machine simulates.

    Raises:
        ConfigError: names the option.
    """
    from hypertier.simulation.trace import BLOCK_TOKENS

    for setting, got, least, most, why in (
        ("--replicas", replicas, 1, 10_000, "at least one engine answers, and all fit into memory"),
        ("--routers", routers, 1, 1000, "at least one router chooses, and all fit into memory"),
        ("--requests", requests, 1, 10**7, "at least one request is made, and all fit into memory"),
        ("--cache-tokens", cache_tokens, BLOCK_TOKENS, 10**12, "an engine keeps at least one block"),
        ("--l2-tokens", l2_tokens, 0, 10**15, "0 is no L2"),
    ):
        if not least <= got <= most:
            raise ConfigError(setting, got, f"{least} to {most}: {why}")
