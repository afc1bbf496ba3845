"""Rules of cluster, each broken once and kept once."""

from __future__ import annotations

from fakes_manifests import REMOVED, changed, cluster, deployment
from rule_cases.case import TIERED, Case

from hypertier.spec.rules.rule import CLUSTER, DEPLOYMENT, SERVICE_ACCOUNT

TAINTED = {"Taints": [{"Key": "team", "Value": "x", "Effect": "NoSchedule"}]}

CASES = [
    Case(
        "tiered-storage-alone",
        dict.fromkeys(
            ("NodeRecovery", "NodeProvisioningMode", "ClusterRole", "AutoScaling", "InstanceGroups"), REMOVED
        ),
        "TieredStorageConfig",
        kind=CLUSTER,
    ),
    Case(
        "tiered-storage-percent",
        {"TieredStorageConfig.InstanceMemoryAllocationPercentage": 5},
        "TieredStorageConfig.InstanceMemoryAllocationPercentage",
        kind=CLUSTER,
    ),
    Case("karpenter-needs", {"NodeProvisioningMode": REMOVED}, "NodeProvisioningMode", kind=CLUSTER),
    Case(
        "karpenter-needs",
        {"ClusterRole": REMOVED},
        "ClusterRole",
        {"ClusterRole": REMOVED, "AutoScaling": REMOVED},
        kind=CLUSTER,
        name="role",
    ),
    Case(
        "taints-and-health-checks",
        {
            "InstanceGroups.0.KubernetesConfig": TAINTED,
            "InstanceGroups.0.OnStartDeepHealthChecks": ["InstanceStress"],
        },
        "InstanceGroups[0].KubernetesConfig.Taints",
        {"InstanceGroups.0.KubernetesConfig": TAINTED},
        kind=CLUSTER,
    ),
    Case(
        "taints-without-tolerations",
        {},
        "spec.kubernetes.tolerations",
        siblings=(changed(cluster(), {"InstanceGroups.0.KubernetesConfig": TAINTED}),),
    ),
    Case(
        "taints-without-tolerations",
        {},
        "spec.kubernetes.tolerations",
        {"spec.kubernetes": {"tolerations": [{"key": "team", "operator": "Exists"}]}},
        deployment=changed(
            deployment(), {"serving": "operator", "instanceGroups.1.taints": [{"key": "team"}]}
        ),
        name="of a deployment",
    ),
    Case(
        "cluster-without-tiered-storage",
        {"spec.kvCacheSpec": TIERED},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": TIERED},
        siblings=(changed(cluster(), {"TieredStorageConfig": REMOVED}),),
    ),
    Case(
        "operator-role-name",
        {"metadata.annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/inference"}},
        "metadata.annotations.eks.amazonaws.com/role-arn",
        kind=SERVICE_ACCOUNT,
    ),
    Case(
        "operator-region",
        {"serving": "operator", "region": "ca-central-1"},
        "region",
        {"serving": "selfhosted", "region": "ca-central-1"},
        kind=DEPLOYMENT,
    ),
    Case(
        "pods-per-node",
        {"serving": "operator", "instanceGroups.0.instanceType": "ml.m5.xlarge"},
        "instanceGroups[0].instanceType",
        {"serving": "operator"},
        kind=DEPLOYMENT,
    ),
]
