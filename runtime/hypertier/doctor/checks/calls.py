"""The questions that several checks put, so that they are asked once."""

from __future__ import annotations

from hypertier.doctor.check import Question, question
from hypertier.spec.deployment import Deployment


def partition(region: str) -> str:
    """The part of AWS that a Region belongs to, as ARNs begin."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def arn(deployment: Deployment, service: str, resource: str, account: str = "*") -> str:
    """An ARN of the deployment's Region, as a policy takes it."""
    return f"arn:{partition(deployment.region)}:{service}:{deployment.region}:{account}:{resource}"


def stack(deployment: Deployment, name: str) -> Question:
    """The CloudFormation stack of that name."""
    resource = arn(deployment, "cloudformation", f"stack/{name}/*")
    return question("cloudformation", "DescribeStacks", resource=resource, StackName=name)


def hyperpod_cluster(deployment: Deployment, name: str) -> Question:
    """The HyperPod cluster of that name; which one an ARN means can't be said before it is known."""
    resource = arn(deployment, "sagemaker", "cluster/*")
    return question("sagemaker", "DescribeCluster", resource=resource, ClusterName=name)


def hyperpod_clusters() -> Question:
    """The names of all HyperPod clusters."""
    return question("sagemaker", "ListClusters")


def eks_cluster(deployment: Deployment, name: str) -> Question:
    """The EKS cluster of that name."""
    resource = arn(deployment, "eks", f"cluster/{name}")
    return question("eks", "DescribeCluster", resource=resource, name=name)


def subnets(deployment: Deployment) -> Question:
    """The subnets that the file tells of. By a filter: an unknown id would fail the others too."""
    told = deployment.cluster.attributes
    ids = list(told.private_subnet_ids) if told else []
    return question("ec2", "DescribeSubnets", Filters=[{"Name": "subnet-id", "Values": ids}])


def zones() -> Question:
    """The account's availability zones."""
    kinds = [
        {"Name": "zone-type", "Values": ["availability-zone"]},
        {"Name": "state", "Values": ["available"]},
    ]
    return question("ec2", "DescribeAvailabilityZones", Filters=kinds)
