"""A ValidatingAdmissionPolicy as the API server applies it, its expressions evaluated by Google's own CEL.

A policy that does not match lets pass; a validation that is false denies, and so does one that cannot be
evaluated, where `failurePolicy` is Fail. Kubernetes' types are not known here: a field of a wrong name fails
when it is read, as one does that is not there.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ (read 2026-12-03)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cel_expr_python import cel

Object = Mapping[str, Any]
NAMES = ("object", "oldObject", "request", "variables")


@dataclass(frozen=True)
class Write:
    """What the API server is asked for, as an admission sees it; `groups` are of who asks."""

    old: Object
    new: Object
    groups: Sequence[str] | None
    namespace: str
    resource: str = "pods"
    operation: str = "UPDATE"


class Admission:
    """The `spec` of a policy; an expression that does not compile fails here."""

    def __init__(self, spec: Object) -> None:
        self._spec = spec
        environment = cel.NewEnv(variables=dict.fromkeys(NAMES, cel.Type.DYN))
        self._compiled = {
            entry["expression"]: environment.compile(entry["expression"])
            for part in ("matchConditions", "variables", "validations")
            for entry in spec[part]
        }

    def denials(self, write: Write) -> list[str]:
        """Why the write is denied: the policy's messages, or those of evaluations that failed."""
        assert self._spec["failurePolicy"] == "Fail"
        if not self._is_meant(write):
            return []
        user = {} if write.groups is None else {"groups": list(write.groups)}
        known: dict[str, Any] = {
            "object": write.new,
            "oldObject": write.old,
            "request": {"userInfo": {"username": "somebody"} | user},
            "variables": {},
        }
        for condition in self._spec["matchConditions"]:
            is_met = self._value(condition["expression"], known)
            if is_met is not True:
                return [] if is_met is False else [f"failed: {is_met}"]
        values = {entry["name"]: self._value(entry["expression"], known) for entry in self._spec["variables"]}
        denied = []
        for entry in self._spec["validations"]:
            holds = self._value(entry["expression"], known | {"variables": values})
            if holds is not True:
                denied.append(entry["message"] if holds is False else f"failed: {holds}")
        return denied

    def _is_meant(self, write: Write) -> bool:
        constraints = self._spec["matchConstraints"]
        labels = {"kubernetes.io/metadata.name": write.namespace}
        return constraints["namespaceSelector"]["matchLabels"].items() <= labels.items() and any(
            write.operation in rule["operations"] and write.resource in rule["resources"]
            for rule in constraints["resourceRules"]
        )

    def _value(self, expression: str, known: Mapping[str, Any]) -> Any:
        """A plain value; a text that says what went wrong where there is none."""
        return self._compiled[expression].eval(data=dict(known)).plain_value()
