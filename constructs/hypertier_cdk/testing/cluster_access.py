"""What an EKS cluster lets a role do: access entries give Kubernetes groups, RBAC objects give them verbs.

https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html and
https://kubernetes.io/docs/reference/access-authn-authz/rbac/ (read 2026-12-02)
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hypertier_cdk.testing.providers import Made, Resource

Objects = Mapping[tuple[str, str, str], Mapping[str, Any]]
_PREFIX = "k8s-aws-v1."


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of Kubernetes; `name` is "" of a list, `namespace` of what is in none."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


def access_key_of(token: str) -> str:
    """The id of the credentials that signed a cluster's token."""
    encoded = token.removeprefix(_PREFIX)
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii")
    return parse_qs(urlsplit(url).query)["X-Amz-Credential"][0].partition("/")[0]


def groups_of(role_arn: str, existing: Callable[[str], Iterable[tuple[Resource, Made]]]) -> set[str]:
    """The Kubernetes groups that access entries give a role."""
    return {
        group
        for entry, _ in existing("AWS::EKS::AccessEntry")
        if entry.properties["PrincipalArn"] == role_arn
        for group in entry.properties.get("KubernetesGroups", ())
    }


def is_permitted(groups: set[str], objects: Objects, ask: Ask) -> bool:
    """Whether a cluster's bindings give one of the groups a rule for what is asked."""
    return any(_covers(rule, ask) for rule in _rules(groups, objects, ask.namespace))


def _rules(groups: set[str], objects: Objects, namespace: str) -> Iterator[Mapping[str, Any]]:
    for (kind, where, _), binding in objects.items():
        if kind not in ("RoleBinding", "ClusterRoleBinding") or (
            kind == "RoleBinding" and where != namespace
        ):
            continue
        if not any(
            subject["kind"] == "Group" and subject["name"] in groups for subject in binding["subjects"]
        ):
            continue
        reference = binding["roleRef"]
        place = where if reference["kind"] == "Role" else ""
        yield from objects.get((reference["kind"], place, reference["name"]), {}).get("rules", ())


def _covers(rule: Mapping[str, Any], ask: Ask) -> bool:
    names = rule.get("resourceNames")
    return (
        _has(rule.get("verbs"), ask.verb)
        and _has(rule.get("apiGroups"), ask.group)
        and _has(rule.get("resources"), ask.resource)
        and (not names or ask.name in names)
    )


def _has(listed: Any, wanted: str) -> bool:
    return bool(listed) and (wanted in listed or "*" in listed)
