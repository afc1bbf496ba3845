"""CloudFormation's functions in a template, evaluated: `Ref`, `Fn::GetAtt`, `Fn::Join`, and so on."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypertier.errors import DeploymentError

_DYNAMIC = re.compile(r"\{\{resolve:secretsmanager:([^}]+?):SecretString:([^:}]*)[^}]*\}\}")
_SUBSTITUTE = re.compile(r"\$\{(!?)([^}]+)\}")
_NO_VALUE = object()


class Resolver:
    """Evaluates values of one template.

    `ref` and `attribute` look up what exists, `imported` an export of another stack, `secret` a field of a
    secret by the secret's ARN.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        *,
        ref: Callable[[str], Any],
        attribute: Callable[[str, str], Any],
        imported: Callable[[str], Any],
        secret: Callable[[str, str], str],
        zones: Callable[[str], list[str]],
    ) -> None:
        self._template = template
        self._ref = ref
        self._attribute = attribute
        self._imported = imported
        self._secret = secret
        self._zones = zones

    def resolve(self, value: Any) -> Any:
        """Evaluate a value, however deep its functions stand; what is `AWS::NoValue` is left out.

        Raises:
            DeploymentError: a function that is not known, or that cannot be evaluated.
        """
        resolved = self._resolve(value)
        return None if resolved is _NO_VALUE else resolved

    def condition(self, name: str) -> bool:
        """Whether a condition of the template holds."""
        conditions = self._template.get("Conditions", {})
        if name not in conditions:
            raise DeploymentError(f"the condition {name} is not in the template")
        return self._holds(conditions[name])

    def _resolve(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._with_secrets(value)
        if isinstance(value, list):
            return [found for entry in value if (found := self._resolve(entry)) is not _NO_VALUE]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            ((function, argument),) = value.items()
            if function == "Ref":
                return _NO_VALUE if argument == "AWS::NoValue" else self._ref(argument)
            if function.startswith("Fn::"):
                called = self._call(function, argument)
                return self._with_secrets(called) if isinstance(called, str) else called
        resolved = {key: self._resolve(entry) for key, entry in value.items()}
        return {key: entry for key, entry in resolved.items() if entry is not _NO_VALUE}

    def _with_secrets(self, text: str) -> str:
        """The text with its dynamic references replaced, also those that a function put together."""
        return _DYNAMIC.sub(lambda match: self._secret(match[1], match[2]), text)

    def _call(self, function: str, argument: Any) -> Any:
        if function == "Fn::GetAtt":
            path = argument if isinstance(argument, list) else argument.split(".", 1)
            return self._attribute(path[0], path[1])
        if function == "Fn::If":
            name, then, otherwise = argument
            return self._resolve(then if self.condition(name) else otherwise)
        if function == "Fn::Sub":
            return self._substitute(argument)
        resolved = self._resolve(argument)
        simple: dict[str, Callable[[Any], Any]] = {
            "Fn::Join": lambda given: given[0].join(str(part) for part in given[1]),
            "Fn::Select": lambda given: given[1][int(given[0])],
            "Fn::Split": lambda given: given[1].split(given[0]),
            "Fn::GetAZs": lambda given: self._zones(given or self._ref("AWS::Region")),
            "Fn::ImportValue": self._imported,
            "Fn::Base64": lambda given: base64.b64encode(str(given).encode()).decode(),
            "Fn::FindInMap": lambda given: self._template["Mappings"][given[0]][given[1]][given[2]],
            "Fn::ToJsonString": lambda given: json.dumps(given, separators=(",", ":")),
        }
        if function not in simple:
            raise DeploymentError(f"{function} is not known to the emulator")
        try:
            return simple[function](resolved)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise DeploymentError(
                f"{function} of {json.dumps(argument)} cannot be evaluated: {error!r}"
            ) from error

    def _substitute(self, argument: Any) -> str:
        text, own = argument if isinstance(argument, list) else (argument, {})
        values = {name: self._resolve(value) for name, value in own.items()}

        def value_of(match: re.Match[str]) -> str:
            if match[1]:
                return f"${{{match[2]}}}"
            name = match[2]
            if name in values:
                return str(values[name])
            head, dot, attribute = name.partition(".")
            return str(self._attribute(head, attribute) if dot else self._ref(name))

        return _SUBSTITUTE.sub(value_of, text)

    def _holds(self, condition: Any) -> bool:
        ((function, argument),) = condition.items()
        if function == "Condition":
            return self.condition(argument)
        if function == "Fn::Equals":
            left, right = (self._resolve(side) for side in argument)
            return bool(left == right)
        if function == "Fn::Not":
            return not self._holds(argument[0])
        if function in ("Fn::And", "Fn::Or"):
            combine = all if function == "Fn::And" else any
            return combine(self._holds(part) for part in argument)
        raise DeploymentError(f"{function} in a condition is not known to the emulator")


def references(value: Any) -> Iterator[str]:
    """The logical ids that a value names in its functions."""
    if isinstance(value, list):
        for entry in value:
            yield from references(entry)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            if key == "Ref" and isinstance(entry, str):
                yield entry
            elif key == "Fn::GetAtt":
                yield entry[0] if isinstance(entry, list) else entry.partition(".")[0]
            elif key == "Fn::Sub":
                text = entry[0] if isinstance(entry, list) else entry
                yield from (match[2].partition(".")[0] for match in _SUBSTITUTE.finditer(text))
                yield from references(entry[1] if isinstance(entry, list) else {})
            else:
                yield from references(entry)


def creation_order(template: Mapping[str, Any]) -> list[str]:
    """The logical ids of a template's resources, each after what it depends on, else in the template's order.

    Raises:
        DeploymentError: they depend on one another in a circle.
    """
    resources = template.get("Resources", {})
    before = {}
    for logical_id, resource in resources.items():
        named = resource.get("DependsOn", [])
        named = [named] if isinstance(named, str) else named
        before[logical_id] = {
            other for other in (*named, *references(resource.get("Properties", {}))) if other in resources
        }
    ordered: list[str] = []
    waiting = list(resources)
    while waiting:
        ready = [logical_id for logical_id in waiting if before[logical_id] <= set(ordered)]
        if not ready:
            raise DeploymentError(
                f"resources depend on one another in a circle: {', '.join(sorted(waiting))}"
            )
        ordered.append(ready[0])
        waiting.remove(ready[0])
    return ordered
