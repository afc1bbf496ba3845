"""Rules of existing, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import Case

from hypertier.spec.rules.rule import DEPLOYMENT

OPERATOR_MOUNTED = {"addons": ["amazon-sagemaker-hyperpod-inference"]}

CASES = [
    Case(
        "kubernetes-version",
        {"cluster": {"existing": "prod", "kubernetesVersion": "1.29"}},
        "cluster.kubernetesVersion",
        {"cluster": {"existing": "prod", "kubernetesVersion": "1.34"}},
        kind=DEPLOYMENT,
    ),
    Case(
        "existing-cluster-untold",
        {"cluster": {"existing": "prod"}},
        "cluster.attributes",
        {"cluster": {"kubernetesVersion": "1.35"}},
        kind=DEPLOYMENT,
    ),
    Case(
        "existing-cluster-addons",
        {"serving": "operator", "cluster": {"existing": "prod"}},
        "cluster.attributes.addons",
        {"cluster": {"existing": "prod"}},
        kind=DEPLOYMENT,
    ),
    Case(
        "existing-cluster-addons",
        {"serving": "operator", "cluster": {"attributes": {"eksClusterName": "prod"}}},
        "cluster.attributes.addons",
        {"serving": "operator", "cluster": {"attributes": {"eksClusterName": "prod", **OPERATOR_MOUNTED}}},
        kind=DEPLOYMENT,
        name="eks",
    ),
]
