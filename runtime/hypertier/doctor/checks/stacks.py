"""What the CDK and CloudFormation must find: the bootstrap, and stacks that can be deployed over."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.doctor.check import Check, Talk, Verdict, fails, ok, question
from hypertier.doctor.checks import calls
from hypertier.planning.made import stack_names
from hypertier.spec.deployment import Deployment

# Of the CDK's default bootstrap; its templates read the version from there and refuse an older one.
# https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html (read 2026-12-02)
BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
OLDEST_BOOTSTRAP = 6
# The CDK deletes a stack whose creation failed before it deploys it anew.
MENDED_BY_THE_CDK = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "REVIEW_IN_PROGRESS")


def checks(deployment: Deployment, account: str) -> Iterator[Check]:
    """The bootstrap, and each stack."""
    asked = question(
        "ssm",
        "GetParameter",
        resource=calls.arn(deployment, "ssm", f"parameter{BOOTSTRAP}"),
        Name=BOOTSTRAP,
    )

    def bootstrap() -> Talk:
        said = yield asked
        return bootstrapped(said["Parameter"]["Value"] if said else None, account, deployment.region)

    yield Check("CDK bootstrap", bootstrap, (asked,))
    for name in stack_names(deployment):
        yield _stack(deployment, name)


def _stack(deployment: Deployment, name: str) -> Check:
    asked = calls.stack(deployment, name)

    def talk() -> Talk:
        said = yield asked
        stacks = said["Stacks"] if said else []
        return deployable(name, stacks[0]["StackStatus"] if stacks else None)

    return Check(f"stack {name}", talk, (asked,))


def bootstrapped(version: str | None, account: str, region: str) -> Verdict:
    """Whether the CDK can deploy here, by the version of its bootstrap; None where there is none."""
    command = f"cdk bootstrap aws://{account}/{region}"
    if version is None:
        return fails(f"{region} of account {account} is not bootstrapped", command)
    if not version.isdigit() or int(version) < OLDEST_BOOTSTRAP:
        return fails(f"version {version}, older than {OLDEST_BOOTSTRAP}", command)
    return ok(f"version {version}")


def deployable(name: str, status: str | None) -> Verdict:
    """Whether CloudFormation takes a deployment of the stack, by its status; None where it is not there."""
    if status is None:
        return ok("not there yet")
    if status in MENDED_BY_THE_CDK:
        return ok(f"{status}, which the CDK deletes first")
    if status.endswith("_IN_PROGRESS"):
        return fails(status, "wait until it has ended")
    if status == "UPDATE_ROLLBACK_FAILED":
        return fails(status, f"aws cloudformation continue-update-rollback --stack-name {name}")
    if status.endswith("_FAILED"):
        return fails(status, f"see its events, then: aws cloudformation delete-stack --stack-name {name}")
    return ok(status)
