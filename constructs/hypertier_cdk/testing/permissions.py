"""Who may call a function: its resource-based policy, which stacks write by `AWS::Lambda::Permission`.

https://docs.aws.amazon.com/lambda/latest/dg/access-control-resource-based.html (read 2026-12-02)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypertier.errors import DeploymentError
from hypertier_cdk.testing.iam import matches
from hypertier_cdk.testing.providers import Made, Resource

ALARMS, TOPICS = "lambda.alarms.cloudwatch.amazonaws.com", "sns.amazonaws.com"
RULES = "events.amazonaws.com"


def refuse_stranger(
    existing: Callable[[str], Iterable[tuple[Resource, Made]]], function: str, principal: str, source: str
) -> None:
    """Refuse a service's call of a function, by ARN, on behalf of `source`, an ARN, where nothing permits it.

    Raises:
        DeploymentError: names all three.
    """
    account, name = source.split(":")[4], function.split(":")[6]
    for resource, _ in existing("AWS::Lambda::Permission"):
        said = resource.properties
        if (
            said["Action"] == "lambda:InvokeFunction"
            and said["Principal"] == principal
            and said["FunctionName"] in (function, name)
            and matches(said.get("SourceArn", "*"), source)
            and said.get("SourceAccount", account) == account
        ):
            return
    raise DeploymentError(
        f"{principal} may not call {function} for {source}: no AWS::Lambda::Permission lets it"
    )
