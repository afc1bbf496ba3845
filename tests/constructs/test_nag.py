"""cdk-nag's AwsSolutions rules on every construct: each finding is accepted with a reason, or a fault."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks
from fakes_templates import REGION

from hypertier_cdk import (
    CacheStore,
    HyperPodCluster,
    InferenceOperator,
    InstanceGroup,
    Network,
    Observability,
)

pytestmark = pytest.mark.cli


@dataclass(frozen=True)
class Accepted:
    """A finding that is right as it is: its rule, the detail that it names, where it stands, and why."""

    rule: str
    detail: str
    where: str
    reason: str


CDK_S_OWN = r"KubectlProvider|/Provider/|AWSCDKCfnUtilsProvider"
ACCEPTED = (
    Accepted("IAM4", "AmazonEKSClusterPolicy", "Eks/Role", "EKS asks for this policy by its name"),
    Accepted(
        "IAM4",
        "AWSLambda|AmazonEC2ContainerRegistry|ContainerRegistryPublic",
        CDK_S_OWN,
        "the CDK's own functions",
    ),
    Accepted(
        "IAM4",
        "AmazonSageMakerClusterInstanceRolePolicy",
        "ExecutionRole",
        "HyperPod asks for it by its name",
    ),
    Accepted(
        "IAM4", "AmazonSageMakerHyperPod", "Operator/", "the operator asks for its policies by their names"
    ),
    Accepted("IAM5", ":\\*$", CDK_S_OWN, "the CDK's own functions call every version of ours"),
    Accepted(
        "IAM5",
        "^Resource::\\*$",
        "ExecutionRole",
        "EC2's Describe calls and the registry's login know no resource",
    ),
    Accepted(
        "IAM5",
        "network-interface|instance/|subnet/|security-group/",
        "ExecutionRole",
        "made at run time, for pods",
    ),
    Accepted(
        "IAM5", "ecr:\\*:\\*:repository", "ExecutionRole", "AWS's own images lie in one account a Region"
    ),
    Accepted(
        "IAM5",
        "sagemaker:.*:cluster/\\*",
        "ClusterRole",
        "a cluster's ARN ends in an id of AWS's; a tag narrows it",
    ),
    Accepted("IAM5", ":s3:::", "S3DriverRole", "every object of the bucket that was asked for"),
    Accepted("IAM5", "^Resource::\\*$", "LoadBalancerRole", "Describe calls know no resource"),
    Accepted(
        "IAM5",
        "elasticloadbalancing|security-group/|aws-service-role",
        "LoadBalancerRole",
        "made at run time; tags narrow it",
    ),
    Accepted("IAM5", "^Resource::\\*$", "AutoscalerRole", "CloudWatch's read calls know no resource"),
    Accepted(
        "IAM5", "aps:.*workspace/\\*", "AutoscalerRole", "the manifest names the workspace, at run time"
    ),
    Accepted(
        "IAM5",
        "acm:.*certificate/\\*|hostedzone/\\*",
        "Operator/Role",
        "the manifest names them, at run time",
    ),
    Accepted(
        "IAM5", "log-group:/aws/sagemaker/Clusters/\\*", "Role", "HyperPod names the groups by ids of its own"
    ),
    Accepted(
        "SMG4",
        "",
        "L2/Secret",
        "read once, when the user is made: a new password needs the user's update too",
    ),
    Accepted("AEC6", "", "L2/Resource", "users and their passwords take the place of Redis' one AUTH token"),
    Accepted("S1", "", "Certificates", "holds certificates, which are public"),
    Accepted("SF2", "", "waiter-state-machine", "waits once a deployment; its log says more than a trace"),
    Accepted("L1", "", "KubectlProvider", "the CDK's own function"),
)


@dataclass(frozen=True)
class Finding:
    rule: str
    detail: str
    where: str

    def is_accepted_by(self, accepted: Accepted) -> bool:
        return (
            accepted.rule == self.rule
            and re.search(accepted.detail, self.detail) is not None
            and re.search(accepted.where, self.where) is not None
        )


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> set[Finding]:
    outdir = tmp_path_factory.mktemp("nag")
    app = cdk.App(outdir=str(outdir), builtin_cloud_formation_validation=False)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks())
    stack = cdk.Stack(app, "Everything", env=cdk.Environment(region=REGION))
    network = Network(stack, "Network")
    cluster = HyperPodCluster(
        stack,
        "Cluster",
        network=network,
        kubernetes_version="1.35",
        instance_groups=[
            InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=1, volume_gib=100),
            InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=1),
        ],
        autoscaling=True,
        name="everything",
    )
    store = CacheStore(stack, "L2", vpc=network.vpc, bandwidth_bytes_per_second=10**9, size_bytes=2**30)
    store.connections.allow_default_port_from(cluster.node_security_group)
    store.grant_read_secret(cluster.pod_role("Engine", "inference", "engine"))
    InferenceOperator(
        stack, "Operator", cluster=cluster, read_buckets=["weights"], gated_models=True, custom_domains=True
    )
    Observability(stack, "Observability", cluster=cluster)
    with pytest.raises(RuntimeError, match="ValidationFailed"):  # its findings are looked at here instead
        app.synth()
    return found_in(outdir / "validation-report.json")


def found_in(report: Path) -> set[Finding]:
    loaded: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    found = set()
    for plugin in loaded["pluginReports"]:
        for violation in plugin["violations"]:
            rule, _, detail = violation["ruleName"].removeprefix("AwsSolutions-").partition("[")
            for construct in violation["violatingConstructs"]:
                found.add(Finding(rule, detail.removesuffix("]"), construct["constructPath"]))
    return found


def test_every_finding_has_a_reason_to_be_right(findings: set[Finding]) -> None:
    unexplained = {
        finding for finding in findings if not any(finding.is_accepted_by(accepted) for accepted in ACCEPTED)
    }

    assert unexplained == set()


def test_every_reason_is_still_needed(findings: set[Finding]) -> None:
    unused = {
        accepted for accepted in ACCEPTED if not any(finding.is_accepted_by(accepted) for finding in findings)
    }

    assert unused == set()
