"""`hypertier lab`: the rendered workloads as processes on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from hypertier.cli.groups import Group

FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group("lab", cls=Group, epilog="Example: hypertier lab up examples/reference/deployment.yaml")
def command() -> None:
    """Run what the charts render for a deployment as processes on this machine.

    FILE is a deployment file with one endpoint, served selfhosted. Logs and state lie in .hypertier/lab.
    """


@command.command("up", epilog="Example: hypertier lab up examples/reference/deployment.yaml --replicas 1")
@FILE
@click.option(
    "--engine",
    default="vllm",
    show_default=True,
    help="vllm, a real one on CPUs, or simulated: real caches, made-up words.",
)
@click.option("--replicas", default=2, show_default=True, help="Engines to start, 1 to 8.")
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="An argument or variable of the manifests to leave out, such as --enable-lora; repeatable.",
)
def up(file: Path, engine: str, replicas: int, without: tuple[str, ...]) -> None:
    """Start engines, router and an embedded Valkey; they run until `hypertier lab down`."""
    from hypertier.lab.interrupts import ended_by_signals
    from hypertier.lab.prepare import prepare_lab, render_file
    from hypertier.lab.running import check_is_down, lab_directory

    name, objects = render_file(file)
    check_is_down(lab_directory(name), str(file))
    lab = prepare_lab(objects, name, engine, replicas, click.echo, without=without)
    try:
        with ended_by_signals():
            lab.up()
    except KeyboardInterrupt:
        click.echo("Interrupted; nothing is left running.", err=True)
        sys.exit(130)
    click.echo(f"\n{lab.plan.model_name} is served at {lab.plan.router_url}/v1, as OpenAI's API.")
    click.echo(f"  the router's metrics, and what it decided   {lab.plan.router_metrics_url}")
    for number, url in enumerate(lab.plan.replica_urls):
        click.echo(f"  {f'engine-{number}':<42}  {url}")
    click.echo("Now:")
    click.echo(f'  hypertier lab chat {file} "Why is the sky blue?"')
    click.echo(f"  hypertier verify {lab.plan.router_url}")
    click.echo(f"  hypertier explain --router {lab.plan.router_metrics_url}")
    if lab.l2_file is not None:
        click.echo(f"  (. {lab.l2_file}; hypertier cache ls)")
    click.echo(f"  hypertier lab down {file}")


@command.command("down", epilog="Example: hypertier lab down examples/reference/deployment.yaml")
@FILE
def down(file: Path) -> None:
    """End everything that `hypertier lab up` started, whatever became of FILE but its name."""
    from hypertier.lab.running import lab_of, stop_lab

    num_ended = stop_lab(lab_of(file))
    click.echo(f"ended {num_ended} processes" if num_ended else "nothing was running")


@command.command(
    "chat", epilog='Example: hypertier lab chat examples/reference/deployment.yaml "Why is the sky blue?"'
)
@FILE
@click.argument("prompt")
@click.option("--max-tokens", default=32, show_default=True, help="Length of the answer.")
def chat(file: Path, prompt: str, max_tokens: int) -> None:
    """Send PROMPT through the router, and tell who answered and where its tokens came from.

    The small model has random weights: its answer means nothing, but it is the same every time.
    """
    from hypertier.errors import ConfigError
    from hypertier.lab.measuring import measure
    from hypertier.lab.overlay import BLOCK_TOKENS
    from hypertier.lab.running import running_lab

    if max_tokens < 1:
        raise ConfigError("--max-tokens", max_tokens, "1 or more")
    state = running_lab(file)
    measured = measure(
        state.router_url,
        state.replica_urls,
        state.model_name,
        prompt,
        max_tokens=max_tokens,
        on_text=lambda text: click.echo(text, nl=False),
    )
    click.echo(
        f"\n\n{measured.served_by} answered. Of {measured.answer.prompt_tokens} prompt tokens, "
        f"{measured.cached_tokens} came from a cache ({measured.hit_source}); "
        f"first token after {measured.ttft_seconds:.2f} s."
    )
    if measured.answer.prompt_tokens <= BLOCK_TOKENS:
        click.echo(f"Blocks of {BLOCK_TOKENS} tokens are cached; of a prompt that is no longer, nothing is.")


@command.command(
    "bench", epilog="Example: hypertier lab bench examples/reference/deployment.yaml --prefixes 8"
)
@FILE
@click.option("--requests", default=40, show_default=True, help="How many requests to send.")
@click.option("--concurrency", default=4, show_default=True, help="How many are under way at once.")
@click.option("--prefixes", default=4, show_default=True, help="Documents that the prompts begin with.")
@click.option("--prompt-tokens", default=2000, show_default=True, help="Length of each prompt.")
@click.option("--max-tokens", default=16, show_default=True, help="Length of each answer.")
@click.option("--seed", default=0, show_default=True, help="Another seed, other prompts.")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="JSON",
    help="What an earlier run printed with --format json; limits may name it.",
)
@click.option(
    "--fail-if",
    multiple=True,
    metavar="LIMIT",
    help="End with 1 where a figure is beyond it, such as 'ttft_p90_seconds > 1.1 * baseline'; repeatable.",
)
def bench(file: Path, style: str, baseline: Path | None, fail_if: tuple[str, ...], **workload: int) -> None:
    """Send a load to the lab and tell its times and where the prompts' tokens came from.

    Ends with 1 when a request failed or a figure is beyond a limit, with 2 where a limit's figure was not
    told. The engines are small ones on CPUs: compare runs with one another, not with a GPU.
    """
    from hypertier.errors import LabError
    from hypertier.lab.bench import lines, run_bench, summary
    from hypertier.lab.limits import read_bench_limits
    from hypertier.lab.running import running_lab
    from hypertier.limits import judge, status, told
    from hypertier.workload import Workload

    limits, before = read_bench_limits(fail_if, baseline)
    state = running_lab(file)
    result = run_bench(state, Workload(**workload), lambda text: click.echo(text, err=True))
    figures = summary(result)
    if style == "json":
        click.echo(json.dumps(figures))
    else:
        for line in lines(figures):
            click.echo(line)
    judged = [judge(each, figures.get(each.figure), before.get(each.figure)) for each in limits]
    for line in told(judged):
        click.echo(line, err=True)
    if result.failures:
        raise LabError(f"{len(result.failures)} requests failed; the first: {result.failures[0]}")
    sys.exit(status(judged))
