"""`hypertier doctor`: what AWS says would go wrong, before a deployment is made."""

from __future__ import annotations

import json
import sys

import click

UNTOLD = 2


@click.command("doctor", epilog="Example: hypertier doctor examples/reference/deployment.yaml")
@click.argument("file", metavar="FILE")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--policy", is_flag=True, help="Print the least IAM policy that the checks need, and ask nothing."
)
def command(file: str, form: str, policy: bool) -> None:
    """Ask AWS what would go wrong with a deployment file: quotas, zones, addresses, what exists.

    Read-only, with your own credentials, in the file's region. Exits with 0 where nothing would go wrong, 1
    where something would, 2 where nothing is known to but something could not be told: no credentials, a
    permission that is lacking (the line names it), a file that can't be read. docs/doctor.md has every check.
    """
    from datetime import UTC, datetime

    from hypertier.doctor import report
    from hypertier.doctor.checks import checks_of
    from hypertier.errors import HypertierError
    from hypertier.spec.deployment import load_deployment
    from hypertier.spec.located import located

    now = datetime.now(UTC)
    try:
        with located(file):
            deployment = load_deployment(file)
        if policy:
            click.echo(json.dumps(report.policy_of(checks_of(deployment, "ACCOUNT", now)), indent=2))
            return
        from hypertier.doctor.aws import Aws
        from hypertier.doctor.running import run_checks
        from hypertier.doctor.unasked import not_asked

        aws = Aws(deployment.region)
        findings = run_checks(checks_of(deployment, aws.account, now), aws.ask)
    except HypertierError as error:
        click.echo(f"hypertier: {error}", err=True)
        sys.exit(UNTOLD)
    told = (aws.account, deployment.region, findings, not_asked(deployment))
    click.echo(json.dumps(report.as_data(*told), indent=2) if form == "json" else report.as_text(*told))
    sys.exit(report.exit_code(findings))
