"""Every command, by its word; a command's module is imported when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util

import click

from hypertier.cli.groups import Group

# Command -> its line in `hypertier --help`, which therefore imports none of them.
SUMMARIES = {
    "lint": "Check manifests and deployment files against every rule.",
    "plan": "Memory, KV capacity, break-even of L2 and the bill of a deployment.",
    "doctor": "Ask AWS what would go wrong with a deployment, before it is made.",
    "render": "Write the Kubernetes manifests as plain YAML; needs no AWS.",
    "lab": "Run the rendered workloads as processes on this machine.",
    "router": "Serve OpenAI's API in front of engines.",
    "verify": "Send a running endpoint a prompt twice, and say whether its cache works.",
    "compare": "Send one load through several strategies, and say what differs for sure.",
    "batch": "Send a file of requests through a running endpoint, and keep the answers.",
    "explain": "Say where a request went, or would go, and why.",
    "capture": "Carry what routers captured from their folder to S3.",
    "exporter": "Publish the engines' metrics to CloudWatch.",
    "simulate": "Replay a trace through the real strategies.",
    "cache": "Look at, warm and clear what L2 holds.",
    "schema": "Print the JSON Schema of a manifest or of the deployment file.",
}


class LazyGroup(Group):
    """A group whose commands live in `hypertier.cli.<name>`, as `command`; what is not there is not shown."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands that this installation has."""
        return [name for name in SUMMARIES if importlib.util.find_spec(f"hypertier.cli.{name}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, or None where there is no such."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"hypertier.cli.{cmd_name}").command
        return command

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """The commands' lines, without importing them."""
        return [(name, SUMMARIES[name]) for name in self.list_commands(ctx)]


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: hypertier lint examples/reference/deployment.yaml",
)
@click.version_option(package_name="hypertier")
def cli() -> None:
    """LLM inference with a tiered KV cache and a router that knows it, from AWS's own endpoint manifest."""
