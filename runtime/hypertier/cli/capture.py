"""`hypertier capture`: what routers captured, from their folder to S3, or as a trace."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path

import click

from hypertier.cli import capture_trace
from hypertier.cli.groups import Group


@click.group(
    "capture",
    cls=Group,
    invoke_without_command=True,
    subcommand_metavar="| trace FILES...",
    epilog="Example: hypertier capture --spool /var/lib/captures "
    "--to s3://captures-of-ours/llama-70b --kms-key-id alias/captures",
)
@click.option(
    "--spool",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of a router's --capture-spool.",
)
@click.option("--to", metavar="s3://BUCKET/PREFIX", help="Where the files go.")
@click.option("--kms-key-id", metavar="KEY", help="Key that S3 encrypts them with; else as the bucket says.")
@click.option("--region", envvar="AWS_REGION", help="S3's region.")
@click.option(
    "--interval",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=0.1, max=3600),
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Carry what is there, and end.")
@click.pass_context
def command(
    context: click.Context,
    spool: Path | None,
    to: str | None,
    kms_key_id: str | None,
    region: str | None,
    interval: float,
    once: bool,
) -> None:
    """Carry captured files to S3, each removed once it is there; at the end, once more.

    --spool and --to are needed. With --once it ends with 1 where S3 did not take a file.

    Needs s3:PutObject below the prefix, and kms:GenerateDataKey on the key.
    """
    if context.invoked_subcommand is not None:
        if spool is not None or to is not None:
            raise click.UsageError("--spool and --to carry files to S3; trace has FILES and --output.")
        return
    for option, value in (("--spool", spool), ("--to", to)):
        if value is None:
            raise click.UsageError(f"Missing option '{option}'.")
    assert spool is not None
    assert to is not None

    from hypertier.capture_upload import Uploader, parse_destination, s3_put_object
    from hypertier.errors import ConfigError

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    bucket, prefix = parse_destination(to)
    if once and not spool.is_dir():
        raise ConfigError("--spool", str(spool), "a folder that is there: that of a router's --capture-spool")
    uploader = Uploader(spool, bucket, prefix, s3_put_object(region), kms_key_id)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not once and not ended.is_set():
        uploader.step()
        ended.wait(interval)
    carried = uploader.step()
    if once:
        click.echo(f"carried {carried} files to {to}")
        sys.exit(uploader.is_refused)


command.add_command(capture_trace.command)
