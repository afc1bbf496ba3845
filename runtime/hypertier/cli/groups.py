"""Groups of commands: what all of them say of a word that is no command, and of those that they have."""

from __future__ import annotations

import click


class Group(click.Group):
    """Names the command that was probably meant, and lists all with their first sentence in full."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from hypertier.spec.suggest import nearest

            meant = nearest(args[0], self.list_commands(ctx)) if args else None
            if meant is None:
                raise
            raise click.UsageError(f"{error.message} Did you mean {meant!r}?", ctx) from error

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Each command with its line of `--help`."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [(name, command.get_short_help_str(10_000)) for name, command in found if command is not None]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands; click itself cuts their lines off."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))
