"""What the emulator knows of a stack: what was asked for, what was made of it, and how that went."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypertier_cdk.testing.providers import Made, Resource


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a deployment: CREATE, UPDATE or DELETE of a resource, and the `reason` where it failed."""

    action: str
    stack: str
    logical_id: str
    type: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What a deployment asks for: a template, its parameters, and its assets' folder, if any."""

    template: dict[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def resource(self, logical_id: str) -> Mapping[str, Any]:
        """A resource as the template has it; empty where it has none of that name."""
        found: Mapping[str, Any] = self.template.get("Resources", {}).get(logical_id, {})
        return found


@dataclass(slots=True)
class Stack:
    """A stack that is deployed. `status` is spelled as CloudFormation spells it.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-describing-stacks.html
    """

    region: str
    request: Request = field(default_factory=Request)
    status: str = ""
    resources: dict[str, Resource] = field(default_factory=dict)
    made: dict[str, Made] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    exports: dict[str, Any] = field(default_factory=dict)

    def retains(self, logical_id: str, *, undoing: bool) -> bool:
        """Whether a resource outlives its deletion; `undoing` what its stack's first deployment made.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html
        """
        policy = self.policies.get(logical_id)
        return policy == "Retain" or (policy == "RetainExceptOnCreate" and not undoing)


def made_up_name(stack: str, logical_id: str) -> str:
    """What CloudFormation would call a resource whose template does not say: unique to its place."""
    digest = hashlib.sha256(f"{stack}/{logical_id}".encode()).hexdigest()[:12].upper()
    return f"{stack}-{logical_id}-{digest}"[-64:].lstrip("-")
