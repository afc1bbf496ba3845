"""`hypertier schema`: what editors complete and check manifests by."""

from __future__ import annotations

import json

import click


@click.command("schema", epilog="Example: hypertier schema endpoint > endpoint.schema.json")
@click.argument("kind", type=click.Choice(("endpoint", "jumpstart", "deployment")))
def command(kind: str) -> None:
    """Print the JSON Schema of an endpoint's manifest, a JumpStart model's, or the deployment file."""
    from hypertier.spec.json_schema import json_schema

    click.echo(json.dumps(json_schema(kind), indent=2, ensure_ascii=False))
