"""What the hook for replicas may do in Kubernetes: plain objects.

RBAC knows no pods of one Deployment, and no annotation apart: who may patch a pod may give it another image.
An admission policy leaves the hook the two annotations by which it tells the coldest replicas.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ (stable since 1.30, read
2026-12-03)
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

DELETION_COST, WORTH = "controller.kubernetes.io/pod-deletion-cost", "hypertier.dev/replicas-warm-tokens"
"""As `hypertier_lambdas.replicas.coldest` has them, which stands alone."""

RBAC, ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
OURS = f"['{DELETION_COST}', '{WORTH}']"


def hook_objects(group: str, namespace: str, deployment: str) -> list[Object]:
    """A Role of `group` for one Deployment and its pods, and a policy that narrows what it does to these."""
    rules = [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments"],
            "resourceNames": [deployment],
            "verbs": ["get", "patch"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
    ]
    metadata = {"name": group, "namespace": namespace}
    policy = {"name": f"{group}.{namespace}"}
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": group},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
        },
        {
            "apiVersion": f"{ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": policy,
            "spec": _policy(group, namespace, deployment),
        },
        {
            "apiVersion": f"{ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": policy,
            "spec": {"policyName": policy["name"], "validationActions": ["Deny"]},
        },
    ]


def _policy(group: str, namespace: str, deployment: str) -> Object:
    """Of the pods in `namespace` that `group` changes: replicas of `deployment`, two annotations of each."""
    replica_set = f"^{deployment.replace('.', '[.]')}-[a-z0-9]+$"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["UPDATE"],  # which a patch is, too
                    "resources": ["pods"],
                }
            ],
        },
        # Nobody else's write is held to anything.
        "matchConditions": [
            {
                "name": "the-hook-writes",
                "expression": f"has(request.userInfo.groups) && '{group}' in request.userInfo.groups",
            }
        ],
        "variables": [
            {
                "name": name,
                "expression": f"has({pod}.metadata.annotations) ? {pod}.metadata.annotations : {{}}",
            }
            for name, pod in (("before", "oldObject"), ("after", "object"))
        ],
        "validations": [
            {
                # Its controller: an owner beside that one says nothing of whose replica a pod is.
                "expression": "has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences"
                ".exists(o, has(o.controller) && o.controller && o.apiVersion == 'apps/v1'"
                f" && o.kind == 'ReplicaSet' && o.name.matches('{replica_set}'))",
                "message": f"the hook writes to pods of {deployment} alone",
            },
            {
                "expression": " && ".join(
                    ["object.spec == oldObject.spec"]
                    + [f"({_unchanged(key)})" for key in ("ownerReferences", "labels", "finalizers")]
                ),
                "message": "the hook changes annotations alone",
            },
            {
                "expression": f"variables.after.all(k, k in {OURS}"
                " || (k in variables.before && variables.before[k] == variables.after[k]))"
                f" && variables.before.all(k, k in {OURS} || k in variables.after)",
                "message": f"the hook writes {DELETION_COST} and {WORTH} alone",
            },
        ],
    }


def _unchanged(key: str) -> str:
    """That a part of the metadata is as it was, also where it is not there."""
    before, after = f"oldObject.metadata.{key}", f"object.metadata.{key}"
    return f"has({after}) == has({before}) && (!has({after}) || {after} == {before})"
