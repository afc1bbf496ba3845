"""What an IAM policy allows: pure, by its statements. The standard library alone: functions load this file.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-denyallow.html
and .../reference_policies_elements_condition_operators.html (read 2026-12-02): an explicit deny wins, and
what nothing allows is denied. moto 5.2 evaluates policies too, but takes every resource for `*` and denies
each action that has a condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Statement = Mapping[str, Any]

RESOURCES: dict[str, str] = {
    "eks:DescribeCluster": "arn:aws:eks:{region}:{account}:cluster/{name}",
    "lambda:InvokeFunction": "arn:aws:lambda:{region}:{account}:function:{FunctionName}",
    "s3:GetObject": "arn:aws:s3:::{Bucket}/{Key}",
    "s3:ListBucket": "arn:aws:s3:::{Bucket}",
    "s3:PutObject": "arn:aws:s3:::{Bucket}/{Key}",
    "secretsmanager:GetSecretValue": "{SecretId}",
    "sns:Publish": "{TopicArn}",
    "ssm:GetParameter": "arn:aws:ssm:{region}:{account}:parameter{Name}",
}
"""An action's resource by the call's parameters; others have `*`, which no narrower statement allows."""
PREFIXES = {"monitoring": "cloudwatch"}
"""Services that sign by another name than policies know them by."""
ACTIONS = {"lambda:Invoke": "lambda:InvokeFunction", "s3:ListObjectsV2": "s3:ListBucket"}
"""Calls whose action has another name."""
CONTEXT = {"cloudwatch:PutMetricData": {"cloudwatch:namespace": "Namespace"}}
"""Condition keys that an action has by its parameters."""


def matches(pattern: str, text: str) -> bool:
    """Whether `text` is what `pattern` says, in which `*` stands for any text and `?` for a character."""
    parts = (".*" if part == "*" else "." if part == "?" else re.escape(part) for part in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _equals(wanted: str, got: str) -> bool:
    return wanted == got


def _same_truth(wanted: str, got: str) -> bool:
    return wanted.lower() == got.lower()


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": _equals,
    "StringLike": matches,
    "ArnEquals": matches,
    "ArnLike": matches,
    "Bool": _same_truth,
}


def is_allowed(
    statements: Iterable[Statement], action: str, resource: str, context: Mapping[str, str]
) -> bool:
    """Whether the statements of a role's policies let it do `action` on `resource`.

    Raises:
        NotImplementedError: a condition's operator is not one of those that are known here.
    """
    effects = {
        statement["Effect"] for statement in statements if _speaks_of(statement, action, resource, context)
    }
    return effects == {"Allow"}


def _speaks_of(statement: Statement, action: str, resource: str, context: Mapping[str, str]) -> bool:
    if "NotAction" in statement:
        names_action = not _any_action(statement["NotAction"], action)
    else:
        names_action = _any_action(statement["Action"], action)
    if "NotResource" in statement:
        names_resource = not any(matches(each, resource) for each in _list(statement["NotResource"]))
    else:
        names_resource = any(matches(each, resource) for each in _list(statement["Resource"]))
    return names_action and names_resource and _holds(statement.get("Condition", {}), context)


def _any_action(patterns: Any, action: str) -> bool:
    return any(matches(pattern.lower(), action.lower()) for pattern in _list(patterns))


def _holds(condition: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    """Whether all of a statement's conditions hold; one on a key that the request does not have does not."""
    for operator, keys in condition.items():
        if operator not in _OPERATORS:
            raise NotImplementedError(
                f"the emulator does not know the condition {operator} of {sorted(keys)}; it knows "
                f"{', '.join(_OPERATORS)}"
            )
        compare = _OPERATORS[operator]
        for key, wanted in keys.items():
            got = context.get(key)
            if got is None or not any(compare(str(each), got) for each in _list(wanted)):
                return False
    return True


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def resource_of(action: str, named: Mapping[str, str]) -> str:
    """The ARN of what an action is done to, by the call's parameters; `*` where it has none."""
    if action == "ssm:GetParameter":  # a name without a path stands behind a slash in the ARN, too
        named = {**named, "Name": f"/{named['Name'].removeprefix('/')}"}
    return RESOURCES.get(action, "*").format_map(named)


def watch_calls(statements: list[Statement], who: Mapping[str, str]) -> None:
    """Refuse what boto3 is asked for in this process and the statements do not allow, as AWS refuses it.

    `who` has the caller's `arn`, `account` and `region`.
    """
    import botocore.session
    from botocore.exceptions import ClientError

    def check(**event: Any) -> None:
        params, model = event["params"], event["model"]
        service = model.service_model
        called = f"{PREFIXES.get(service.signing_name, service.signing_name)}:{model.name}"
        action = ACTIONS.get(called, called)
        if action == "sts:GetCallerIdentity":  # whatever the policies say
            return
        resource = resource_of(action, {**who, **params})
        context = {key: str(params[name]) for key, name in CONTEXT.get(action, {}).items()}
        if not is_allowed(statements, action, resource, context):
            message = f"User: {who['arn']} is not authorized to perform: {action} on resource: {resource}"
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, model.name)

    class Session(botocore.session.Session):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.register("before-parameter-build", check)

    # boto3 makes each of its sessions by this name.
    botocore.session.Session = Session  # type: ignore[misc]
