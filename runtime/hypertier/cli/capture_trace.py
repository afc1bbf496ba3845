"""`hypertier capture trace`: captured requests as a trace to simulate with, without a word of them."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from hypertier.errors import ConfigError, HypertierError, ManifestError

if TYPE_CHECKING:
    from hypertier.simulation.captured.lines import LeftOut
    from hypertier.simulation.captured.reading import Line
    from hypertier.simulation.captured.traced import TraceMaker

STDOUT = "-"
TELL_SECONDS = 10.0
MAX_SHOWN = 10
"""Lines that are told as malformed, one by one."""


@click.command(
    "trace",
    epilog="Example: hypertier capture trace /var/lib/captures -o trace.jsonl && "
    "hypertier simulate --trace trace.jsonl",
)
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option(
    "-o", "--output", "target", required=True, metavar="FILE", help="The trace; - writes it to stdout."
)
@click.option("--model", metavar="NAME", help="Requests for this model alone.")
@click.option(
    "--rate", type=float, metavar="RATIO", help="Requests a second, for lines that have no timestamp."
)
@click.option(
    "--shared-cache",
    is_flag=True,
    help="Prompts of different tenants share blocks, as with access.sharedCache.",
)
def command(
    files: tuple[str, ...], target: str, model: str | None, rate: float | None, shared_cache: bool
) -> None:
    """Make a trace of captured requests: times, lengths and which prompts begin alike, and nothing they said.

    FILES are captured files, folders of them, or - for stdin; also OpenAI's batch files and request bodies,
    one a line. Blocks and sessions are numbered in the order in which they are first seen. Tokens are those
    of the answers' usage, or estimated from bytes. Lines that can't be read are named, and left out. Ends
    with 1 where no request is left.
    """
    from hypertier.simulation.captured import report
    from hypertier.simulation.captured.reading import read_lines
    from hypertier.simulation.captured.traced import TraceMaker

    if rate is not None and not 0 < rate < float("inf"):
        raise ConfigError("--rate", rate, "a number above 0")
    check_apart(files, target)
    maker = TraceMaker(shares_cache=shared_cache)
    collector = Collector(maker, model, rate)
    for line in read_lines(files):
        collector.add(line)
    collector.end()
    with opened(target) as file:
        for row in maker.rows():
            file.write(f"{row}\n")
    told = report.lines(
        maker.holds, collector.left_out, collector.num_malformed, None if target == STDOUT else target
    )
    for text in told:
        click.echo(text, err=target == STDOUT)


class Collector:
    """Hands lines that are requests to `maker`, counts and names all others, and tells how far it is."""

    def __init__(self, maker: TraceMaker, model: str | None, rate: float | None) -> None:
        self.left_out: Counter[LeftOut] = Counter()
        self.num_malformed = 0
        self._maker = maker
        self._model = model
        self._rate = rate
        self._models: Counter[str] = Counter()
        self._num_requests = self._num_untimed = self._num_lines = self._num_bytes = 0
        self._told_at = time.monotonic()

    def add(self, line: Line) -> None:
        """One line."""
        from hypertier.simulation.captured.lines import LeftOut, read_line

        self._progress(line)
        try:
            if line.text is None:
                raise ValueError("too long")
            exchange = read_line(line.text)
            if isinstance(exchange, LeftOut):
                self.left_out[exchange] += 1
                return
            at = exchange.at if exchange.at is not None else self._next_time()
        except ValueError as error:
            self.num_malformed += 1
            if self.num_malformed <= MAX_SHOWN:
                click.echo(f"{line.file}:{line.number}: {error}", err=True)
            return
        self._models[exchange.model] += 1
        if self._model in (None, exchange.model):
            self._num_requests += 1
            self._maker.add(exchange, line.tenant, at)

    def end(self) -> None:
        """Say what was not told one by one.

        Raises:
            ConfigError: none of the requests is for the model.
            HypertierError: there is no request; says what there is instead.
        """
        if self.num_malformed > MAX_SHOWN:
            click.echo(f"and {self.num_malformed - MAX_SHOWN:,} more lines that can't be read", err=True)
        if self._num_requests:
            return
        if self._models:
            raise ConfigError("--model", self._model, f"one of {', '.join(sorted(self._models))}")
        reasons = [f"{count:,} are {reason}" for reason, count in self.left_out.items()]
        if self.num_malformed:
            reasons.append(f"{self.num_malformed:,} can't be read")
        raise HypertierError(f"no request to make a trace of: {'; '.join(reasons) or 'no line'}")

    def _next_time(self) -> float:
        if self._rate is None:
            raise ValueError("no timestamp; --rate N sends requests without one at N a second")
        self._num_untimed += 1
        return (self._num_untimed - 1) / self._rate

    def _progress(self, line: Line) -> None:
        self._num_lines += 1
        self._num_bytes += len(line.text or b"")
        now = time.monotonic()
        if now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            click.echo(
                f"{line.file}: {self._num_lines:,} lines read, {self._num_bytes / 1e6:,.0f} MB", err=True
            )


def check_apart(files: Iterable[str], target: str) -> None:
    """Raises ConfigError where the trace would take the place of what it is made of, or can't be."""
    place = Path(target)
    if target == STDOUT:
        return
    if place.is_dir() or not place.absolute().parent.is_dir():
        raise ConfigError("--output", target, "a file in a folder that exists, or - for stdout")
    if any(place.exists() and Path(file).exists() and place.samefile(file) for file in files):
        raise ConfigError("--output", target, "another file than those that are read")


@contextmanager
def opened(target: str) -> Iterator[IO[str]]:
    """A file that takes the place of `target` once it is whole. Raises ManifestError."""
    if target == STDOUT:
        yield sys.stdout
        return
    place = Path(target)
    unfinished: str | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=place.parent, prefix=".", suffix=".tmp", delete=False
        ) as file:
            unfinished = file.name
            yield file
        os.replace(unfinished, place)
        unfinished = None
    except OSError as error:
        raise ManifestError(target, None, f"cannot be written: {error.strerror}") from error
    finally:
        if unfinished is not None:
            Path(unfinished).unlink(missing_ok=True)
