"""What EventBridge's rules do with an event: those that it matches call their functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hypertier.errors import DeploymentError
from hypertier_cdk.testing.permissions import RULES, refuse_stranger
from hypertier_cdk.testing.providers import Made, Resource

_CHANGES_THE_EVENT = ("InputPath", "InputTransformer")


class Rules:
    """The rules among what exists, of the default event bus."""

    def __init__(
        self,
        existing: Callable[[str], Iterable[tuple[Resource, Made]]],
        invoke: Callable[[str, object], Any],
    ) -> None:
        self._existing = existing
        self._invoke = invoke

    def put(self, event: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Deliver an event; return what functions return, by the name of each rule that it matches.

        Raises:
            DeploymentError: a rule does what the emulator does not know, may not call its function, or the
            function failed.
        """
        answers: dict[str, list[Any]] = {}
        for resource, made in list(self._existing("AWS::Events::Rule")):
            rule = resource.properties
            pattern = rule.get("EventPattern")
            if rule.get("State", "ENABLED") == "DISABLED" or pattern is None or not _matches(pattern, event):
                continue
            answers[made.ref] = [self._call(made, target, event) for target in rule.get("Targets", ())]
        return answers

    def _call(self, rule: Made, target: Mapping[str, Any], event: Mapping[str, Any]) -> Any:
        unknown = [key for key in _CHANGES_THE_EVENT if key in target]
        if ":lambda:" not in target["Arn"] or unknown:
            what = f"{unknown[0]} of a target" if unknown else target["Arn"]
            raise DeploymentError(f"the emulator lets rules call functions with the event, not {what}")
        refuse_stranger(self._existing, target["Arn"], RULES, str(rule.attributes["Arn"]))
        return self._invoke(target["Arn"], json.loads(target["Input"]) if "Input" in target else dict(event))


def _matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether an event has, at each of the pattern's places, one of the values that stand there.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html
    (read 2026-12-02)
    """
    for key, wanted in pattern.items():
        got = event.get(key)
        if isinstance(wanted, Mapping):
            if not isinstance(got, Mapping) or not _matches(wanted, got):
                return False
        elif not any(_is_one(each, got, is_there=key in event) for each in wanted):
            return False
    return True


def _is_one(wanted: Any, got: Any, *, is_there: bool) -> bool:
    """Whether a value, or one of a list of values, is what one entry of a pattern asks for."""
    values = got if isinstance(got, list) else [got] if is_there else []
    if not isinstance(wanted, Mapping):
        return wanted in values
    ((operator, operand),) = wanted.items()
    if operator == "exists":
        return is_there is operand
    if operator == "prefix" and isinstance(operand, str):
        return any(isinstance(value, str) and value.startswith(operand) for value in values)
    if operator == "anything-but" and not isinstance(operand, Mapping):
        others = operand if isinstance(operand, list) else [operand]
        return any(value not in others for value in values)
    raise DeploymentError(
        f"the emulator knows exists, prefix and anything-but of patterns, not {json.dumps(wanted)}"
    )
