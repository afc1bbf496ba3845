"""What cdk-nag found, and which of it is right as it is: one table, each entry with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Accepted:
    """A finding that is right as it is: its rule, the detail that it names, where it stands, and why."""

    rule: str
    detail: str
    where: str
    reason: str


CDK_S_OWN = r"KubectlProvider|/Kubectl/|/Provider/|AWSCDKCfnUtilsProvider"
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
    Accepted("L1", "", CDK_S_OWN, "the CDK's own function"),
    Accepted(
        "IAM5",
        "^Resource::\\*$",
        "ExporterRole",
        "PutMetricData knows no resource; a condition narrows it to one namespace",
    ),
    Accepted("SQS3", "", "/Failures/", "it is the queue that dead letters come to"),
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


def found_in(report: Path) -> set[Finding]:
    loaded: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    found = set()
    for plugin in loaded["pluginReports"]:
        for violation in plugin["violations"]:
            rule, _, detail = violation["ruleName"].removeprefix("AwsSolutions-").partition("[")
            for construct in violation["violatingConstructs"]:
                found.add(Finding(rule, detail.removesuffix("]"), construct["constructPath"]))
    return found


def unexplained(findings: Iterable[Finding], table: Iterable[Accepted] = ACCEPTED) -> set[Finding]:
    """The findings that no entry of the table accepts."""
    entries = tuple(table)
    return {finding for finding in findings if not any(map(finding.is_accepted_by, entries))}
