"""`hypertier batch`: the requests of a file through a running endpoint, and their answers into another."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypertier.cli.asking import api_key_option, ca_option, key_of
from hypertier.errors import BatchError, ConfigError

if TYPE_CHECKING:
    from hypertier.batch.sending import Sender

MAX_CONCURRENCY = 1024
MAX_TIMEOUT_SECONDS = 86_400.0
TELL_SECONDS = 10.0


@click.command(
    "batch",
    epilog="Example: hypertier batch http://127.0.0.1:27502 --input in.jsonl --output out.jsonl",
)
@click.argument("url")
@click.option("--input", "source", required=True, metavar="FILE", help="Requests, in OpenAI's batch form.")
@click.option(
    "--output",
    "target",
    required=True,
    metavar="FILE",
    help="Where answers go; one that is there is gone on with.",
)
@click.option("--concurrency", default=16, show_default=True, help="How many are under way at once.")
@api_key_option
@ca_option
@click.option("--timeout", default=600.0, show_default=True, help="Seconds that one request may take.")
def command(
    url: str,
    source: str,
    target: str,
    concurrency: int,
    api_key_env: str | None,
    ca: str | None,
    timeout: float,
) -> None:
    """Send the requests of a batch file through the endpoint at URL, and keep each answer at once.

    Requests that begin alike are sent one after another. What is refused for now is tried again; what has
    an answer in the output is not sent again, so a run that was broken off is typed once more. Ends with 1
    where a request has no answer; those stand in FILE.errors.
    """
    from hypertier.batch.requests import in_order_of_prompts, read_requests
    from hypertier.batch.results import Output, answered
    from hypertier.batch.sending import Sender
    from hypertier.verification.endpoint import Endpoint

    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise ConfigError("--concurrency", concurrency, f"1 to {MAX_CONCURRENCY}")
    if not 1 <= timeout <= MAX_TIMEOUT_SECONDS:
        raise ConfigError("--timeout", timeout, f"1 to {MAX_TIMEOUT_SECONDS:g} seconds")
    endpoint = Endpoint(url, key=key_of(api_key_env), ca=ca)
    try:
        with Path(source).open("rb") as file:
            requests = read_requests(file, source)
    except OSError as error:
        raise BatchError(f"{source} can't be read: {error.strerror}") from error
    known = answered(Path(target))
    missing = in_order_of_prompts(each for each in requests if each.custom_id not in known)
    progress = Progress(len(missing), len(requests) - len(missing))
    sender = Sender(endpoint, timeout)
    with Output(Path(target)) as output, ended_by_signals(sender):
        for result in sender.results(missing, concurrency):
            output.add(result)
            progress.add(result.is_answer)
    click.echo(progress.line(time.monotonic()), err=True)
    if sender.over.is_set():
        click.echo("broken off; the same command goes on with what is missing", err=True)
        sys.exit(130)
    if progress.num_failed:
        raise BatchError(f"requests without an answer: {progress.num_failed}; {output.failures} says why")


class Progress:
    """Counts results, and tells of them every `TELL_SECONDS`."""

    def __init__(self, num_requests: int, num_known: int) -> None:
        self.num_failed = 0
        self._num_requests = num_requests
        self._num_known = num_known
        self._num_done = 0
        self._begin = self._told_at = time.monotonic()

    def add(self, is_answer: bool) -> None:
        """One more result."""
        self._num_done += 1
        self.num_failed += not is_answer
        now = time.monotonic()
        if now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            click.echo(self.line(now), err=True)

    def line(self, now: float) -> str:
        """Where it stands."""
        seconds = max(now - self._begin, 1e-9)
        rate = self._num_done / seconds
        left = self._num_requests - self._num_done
        known = f", {self._num_known} answered before" if self._num_known else ""
        more = f", about {left / rate:.0f} s more" if left and rate else ""
        return (
            f"{self._num_done} of {self._num_requests} requests{known}, {self.num_failed} failed, "
            f"{rate:.1f} a second, {seconds:.0f} s{more}"
        )


@contextmanager
def ended_by_signals(sender: Sender) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM begins nothing more and keeps what is under way; a second ends at once."""

    def end(number: int, frame: Any) -> None:
        if sender.over.is_set():
            os._exit(130)  # all answers that came are kept
        sender.over.set()
        click.echo("waiting for what is under way; once more ends at once", err=True)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
