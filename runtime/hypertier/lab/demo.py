"""`make demo`: from one manifest to a cache hit, on this machine."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from hypertier.errors import HypertierError, LabError
from hypertier.lab.client import ask, post
from hypertier.lab.demo_table import Row, broken_promises, table
from hypertier.lab.interrupts import ended_by_signals
from hypertier.lab.lab import Lab
from hypertier.lab.measuring import Measurement, measure, wait_until_stored
from hypertier.lab.metrics import read_counts
from hypertier.lab.model import ModelShape
from hypertier.lab.plan import ENGINES
from hypertier.lab.prepare import prepare_lab
from hypertier.lab.running import lab_directory, make_directory, stop_lab

REFERENCE = Path("examples/reference/deployment.yaml")
DIRECTORY = Path(".hypertier/demo")
MANIFESTS = DIRECTORY / "manifests"
NAME = "demo"
REPLICAS = 2
REVIEW_WIDTH = 120
NUM_STEPS = 7
DOCUMENT = Path("LICENSE")
MAX_DOCUMENT_TOKENS = 6000
WARM_UP = "Nothing that is measured begins with these words. " * 20
COMMAND = str(Path(sys.executable).with_name("hypertier"))

QUIET = {"CDK_DISABLE_CLI_TELEMETRY": "true", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20"}
HOW_TO_READ = (
    "hit source: where the prompt's keys and values came from. GPU: the engine's own cache (here in CPU",
    "memory). L1: host memory beside the engine. L2: Valkey, shared by all engines. none: all were computed.",
    "TTFT: time to the first token, as the engine counts it.",
)


class Narrator:
    """Tells on standard output what happens, step by step."""

    def __init__(self, num_steps: int) -> None:
        self._num_steps = num_steps
        self._number = 0

    def step(self, title: str) -> None:
        """Begin the next step."""
        self._number += 1
        click.echo(f"\n[{self._number}/{self._num_steps}] {title}")

    def say(self, text: str) -> None:
        """Tell what happens within the step."""
        click.echo(f"      {text}")


@click.command("demo", epilog="Example: python -m hypertier.lab.demo --engine simulated")
@click.option("--engine", type=click.Choice(ENGINES), default="vllm", show_default=True, help="What serves.")
def command(engine: str) -> None:
    """Lint, synthesize and render the reference deployment, run it here, and show what the cache does."""
    begin = time.monotonic()
    try:
        with ended_by_signals():
            run(engine)
    except HypertierError as error:
        click.echo(f"\nThe demo failed: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("\nThe demo was interrupted; nothing is left running.", err=True)
        sys.exit(130)
    click.echo(f"\nDone in {time.monotonic() - begin:.0f} s; nothing is left running.")


def run(engine: str) -> None:
    """Everything, from lint to the table.

    Raises:
        HypertierError: says what failed and where its log is.
    """
    if not REFERENCE.is_file():
        raise LabError(f"{REFERENCE} is not here; run the demo in the root of hypertier's repository")
    click.echo("From one endpoint manifest to a cache hit. This takes two to three minutes.")
    narrator = Narrator(NUM_STEPS)
    objects = review(narrator)
    narrator.step(f"Start it on this machine: {REPLICAS} engines, the router, and Valkey as L2")
    num_ended = stop_lab(lab_directory(NAME))
    if num_ended:
        narrator.say(f"an earlier demo was cut off: {num_ended} of its processes were ended")
    lab = prepare_lab(objects, NAME, engine, REPLICAS, narrator.say, brief=True)
    with lab:
        rows = requests(lab, narrator)
        narrator.step("What the engines' own metrics say")
        show(rows, lab.directory, narrator)
    broken = list(broken_promises(rows))
    if broken:
        raise LabError("; ".join(broken) + f". Logs: {lab.directory}")


def review(narrator: Narrator) -> list[dict[str, Any]]:
    """Lint, synthesize and render the reference deployment; returns the rendered objects."""
    narrator.step(f"Lint {REFERENCE}: Llama 3.1 70B on seven ml.p5.48xlarge, two cache tiers")
    for line in run_command("lint", (COMMAND, "lint", str(REFERENCE)), narrator.say):
        narrator.say(line)
    narrator.step("Synthesize CloudFormation templates and the review page (cdk synth; about 30 s)")
    cdk = ("node_modules/.bin/cdk", "synth", "--quiet", "--no-notices")
    lines = run_command("cdk synth", cdk, narrator.say)
    for line in review_lines(lines):
        narrator.say(line)
    narrator.step(f"Render Kubernetes manifests into {MANIFESTS}")
    shutil.rmtree(MANIFESTS, ignore_errors=True)
    run_command("render", (COMMAND, "render", str(REFERENCE), "-o", str(MANIFESTS)), narrator.say)
    files = sorted(MANIFESTS.rglob("*.yaml"))
    narrator.say(f"{len(files)} manifests in {MANIFESTS}")
    return [item for file in files for item in yaml.safe_load_all(file.read_text("utf-8")) if item]


def review_lines(lines: Sequence[str]) -> list[str]:
    """What `cdk synth` says to a reviewer, of all that it says: a heading and the indented lines below."""
    heads = [number for number, line in enumerate(lines) if line.startswith("Review of ")]
    if not heads:
        return []
    below = itertools.takewhile(lambda line: line.startswith("  "), lines[heads[0] + 1 :])
    return [cut(line.strip(), REVIEW_WIDTH) for line in below]


def cut(text: str, width: int) -> str:
    """The text, its end left out where it is longer than `width`."""
    return text if len(text) <= width else f"{text[: width - 4]} ..."


def run_command(name: str, argv: Sequence[str], say: Callable[[str], None]) -> list[str]:
    """Run a program to its end and return the lines of its output, which a log keeps.

    Raises:
        LabError: it did not end with 0; the message has the end of its output.
    """
    make_directory(DIRECTORY)
    log = DIRECTORY / f"{name.replace(' ', '-')}.log"
    begin = time.monotonic()
    try:
        with log.open("w", encoding="utf-8") as output:
            status = subprocess.run(
                argv, env={**os.environ, **QUIET}, stdout=output, stderr=subprocess.STDOUT, check=False
            ).returncode
    except OSError as error:
        raise LabError(
            f"{name}: {argv[0]} did not start: {error.strerror}; `make setup` installs it"
        ) from error
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if status != 0:
        tail = "".join(f"\n    {line}" for line in lines[-12:])
        raise LabError(f"{name} ended with {status}. Its log, {log}, ends:{tail}")
    say(f"{name}: ok, {time.monotonic() - begin:.0f} s")
    return lines


def requests(lab: Lab, narrator: Narrator) -> list[Row]:
    """Send one prompt four times, each time with less of it left near the GPU."""
    document = DOCUMENT.read_text("utf-8")[: document_tokens(lab.plan.l1_bytes)]
    prompt = f"Summarize this licence:\n{document}"
    narrator.step(f"Send one prompt, a document of {len(document):,} tokens, through the router")
    urls = lab.plan.replica_urls
    warm_up(lab, narrator.say)
    before = [read_counts(url) for url in urls]
    rows = [Row("1  first time", "none", send(lab, prompt, narrator.say))]
    rows.append(Row("2  again", "GPU", send(lab, prompt, narrator.say)))
    for url in urls:
        post(f"{url}/reset_prefix_cache")
    narrator.say("the engines' GPU caches were emptied (POST /reset_prefix_cache)")
    rows.append(Row("2b again, GPU cache emptied", "L1", send(lab, prompt, narrator.say)))
    num_bytes = rows[-1].measured.cached_tokens * ModelShape().kv_bytes_per_token
    wait_until_stored(urls, before, num_bytes)
    narrator.say(f"L2 holds all {num_bytes / 2**20:.0f} MiB of its keys and values by now")
    narrator.step("Restart both engines, which loses GPU cache and L1, and send it again")
    lab.stop(lab.engine_names)
    lab.start(lab.engine_names)
    warm_up(lab, narrator.say)
    rows.append(Row("3  again, engines restarted", "L2", send(lab, prompt, narrator.say)))
    return rows


def document_tokens(l1_bytes: int) -> int:
    """How much of the document to send: what L1 holds with room to spare. A token is a character."""
    return min(MAX_DOCUMENT_TOKENS, l1_bytes // ModelShape().kv_bytes_per_token * 2 // 3)


def warm_up(lab: Lab, say: Callable[[str], None]) -> None:
    """Have every engine answer another prompt, so that no TTFT below is that of an engine's first request."""
    for url in lab.plan.replica_urls:
        ask(url, lab.plan.model_name, WARM_UP, max_tokens=8)
    say("each engine answered an unrelated prompt, so that none is cold in what follows")


def send(lab: Lab, prompt: str, say: Callable[[str], None]) -> Measurement:
    """Send the prompt through the router, and tell what came back."""
    measured = measure(lab.plan.router_url, lab.plan.replica_urls, lab.plan.model_name, prompt)
    say(f"{measured.served_by} answered, first token after {measured.ttft_seconds:.2f} s")
    return measured


def compared(rows: Sequence[Row]) -> str:
    """Say whether the answers are the same; `broken_promises` says which of them must be."""
    if len({row.measured.answer.text for row in rows}) == 1:
        return "The answers are the same, token by token, wherever the keys and values came from."
    return "The answers from caches are the same; computed in one piece, the last digits gave another."


def show(rows: Sequence[Row], logs: Path, narrator: Narrator) -> None:
    """Print the table, how to read it, and where everything lies."""
    for line in ["", *table(rows), ""]:
        narrator.say(line)
    first, last = rows[0].measured.ttft_seconds, rows[-1].measured.ttft_seconds
    for line in HOW_TO_READ:
        narrator.say(line)
    narrator.say(f"Request 3 had its first token after {last / first:.1%} of the time of request 1.")
    narrator.say(compared(rows))
    narrator.say("")
    for what, path in (
        ("review page", Path("cdk.out/review.md")),
        ("templates", Path("cdk.out")),
        ("manifests", MANIFESTS),
        ("logs", logs),
    ):
        narrator.say(f"{what:12} {path}")


if __name__ == "__main__":
    command()
