"""`hypertier compare`: strategies of a running router under one load, and how sure the difference is."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import click

from hypertier.cli.asking import asks_endpoint, key_of
from hypertier.errors import AnswerError, ConfigError, HypertierError

MAX_TIMEOUT_SECONDS = 3600.0


@click.command(
    "compare",
    epilog="Example: hypertier compare http://127.0.0.1:27502 --strategies roundrobin,prefixaware",
)
@click.argument("url")
@click.option(
    "--strategies",
    default="roundrobin,prefixaware",
    show_default=True,
    metavar="A,B",
    help="What is compared, each with the first.",
)
@click.option("--rounds", default=5, show_default=True, help="Rounds, each with every strategy in turn.")
@click.option("--requests", default=40, show_default=True, help="Requests of a strategy in a round.")
@click.option("--concurrency", default=4, show_default=True, help="How many are under way at once.")
@click.option("--prefixes", default=4, show_default=True, help="Documents that the prompts begin with.")
@click.option("--prompt-tokens", default=2000, show_default=True, help="About how long each prompt is.")
@click.option("--max-tokens", default=16, show_default=True, help="Length of each answer.")
@click.option("--seed", type=int, help="The prompts; by default new ones, that nobody has cached.")
@asks_endpoint
@click.option("--timeout", default=120.0, show_default=True, help="Seconds that one request may take.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write a page with plots, too; it loads nothing from elsewhere.",
)
@click.option(
    "--fail-if",
    multiple=True,
    metavar="LIMIT",
    help="End with 1 where a strategy is beyond it, such as 'ttft_p90_seconds > 1.1 * baseline'; repeatable.",
)
def command(
    url: str,
    strategies: str,
    rounds: int,
    seed: int | None,
    model: str | None,
    api_key_env: str | None,
    ca: str | None,
    timeout: float,
    form: str,
    html: Path | None,
    fail_if: tuple[str, ...],
    **load: int,
) -> None:
    """Send one load through several strategies of the router at URL, in turns, and tell what differs.

    Clients must be allowed to choose a strategy: strategyByHeader in the router's routes, as in the lab. Each
    strategy gets documents of its own, so that none finds what another had computed. Ends with 1 when
    a request failed or a strategy is beyond a limit, with 2 where a limit's figure was not told.
    """
    from hypertier.comparison.compare import Comparison, Plan
    from hypertier.comparison.limits import FIGURES, verdicts
    from hypertier.comparison.page import page
    from hypertier.comparison.report import as_dict, lines
    from hypertier.comparison.statistics import MAX_ROUNDS, MIN_ROUNDS
    from hypertier.limits import read_limits, status, told
    from hypertier.router.settings import STRATEGIES
    from hypertier.verification.endpoint import Endpoint
    from hypertier.workload import Workload

    names = tuple(name.strip() for name in strategies.split(","))
    if len(names) < 2 or len(set(names)) < len(names) or not set(names) <= set(STRATEGIES):
        raise ConfigError("--strategies", strategies, f"two or more of {', '.join(STRATEGIES)}, by commas")
    if not MIN_ROUNDS <= rounds <= MAX_ROUNDS:
        raise ConfigError("--rounds", rounds, f"{MIN_ROUNDS} to {MAX_ROUNDS}: fewer say nothing for sure")
    if not 1 <= timeout <= MAX_TIMEOUT_SECONDS:
        raise ConfigError("--timeout", timeout, f"1 to {MAX_TIMEOUT_SECONDS:g} seconds")
    if html is not None and not html.parent.is_dir():
        raise ConfigError("--html", str(html), f"a file in a folder that exists; {html.parent} does not")
    limits = read_limits(fail_if, FIGURES)
    workload = Workload(**load, seed=secrets.randbelow(10**6) if seed is None else seed)
    plan = Plan(strategies=names, rounds=rounds, workload=workload, model=model, timeout_seconds=timeout)
    endpoint = Endpoint(url, key=key_of(api_key_env), ca=ca)
    try:
        report = Comparison(endpoint, plan, lambda text: click.echo(text, err=True)).run()
    except AnswerError as error:
        raise HypertierError(f"{error}; {error.to_do}" if error.to_do else str(error)) from error
    if form == "json":
        click.echo(json.dumps(as_dict(report)))
    else:
        for line in lines(report):
            click.echo(line)
    judged = tuple(verdicts(limits, report.figures))
    for line in told(judged):
        click.echo(line, err=True)
    if html is not None:
        html.write_text(page(report, [*told(judged)]), encoding="utf-8")
    if report.failures:
        raise SystemExit(1)
    raise SystemExit(status(judged))
