"""`hypertier`: where the process begins. What takes its time to import is imported below."""

from __future__ import annotations

import os
import sys

from hypertier.errors import HypertierError


def main() -> None:
    """Run the command line; a `HypertierError` is one message on stderr and exit 1."""
    if sys.argv[1:2] == ["router"]:
        from hypertier import held_signals

        held_signals.hold()
    import click

    from hypertier.cli.commands import cli

    os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")  # says nothing to a user
    try:
        cli(prog_name="hypertier")
    except HypertierError as error:
        click.echo(f"hypertier: {error}", err=True)
        sys.exit(1)
