"""Providers that keep what they make in moto too, where boto3 and the CDK CLI find it."""

from __future__ import annotations

from urllib.parse import urlsplit

import boto3
from fakes_kubernetes import Authority
from fakes_moto import REGION
from fakes_nodes import NodesFake, create_eks_cluster

from hypertier_cdk.testing import SHAPES, Ask, Emulator, Made, Provider, Resource, ShapeProvider


class EksInMoto(ShapeProvider):
    """EKS clusters whose API answers."""

    def __init__(self, fake: NodesFake, authority: Authority) -> None:
        super().__init__(SHAPES["AWS::EKS::Cluster"])
        self._fake = fake
        self._authority = authority

    def create(self, resource: Resource) -> Made:
        made = super().create(resource)
        create_eks_cluster(made.ref, self._fake, self._authority)
        return made

    def delete(self, resource: Resource, made: Made) -> None:
        boto3.client("eks").delete_cluster(name=made.ref)


class BucketsInMoto(ShapeProvider):
    """S3 buckets that take objects."""

    def __init__(self) -> None:
        super().__init__(SHAPES["AWS::S3::Bucket"])

    def create(self, resource: Resource) -> Made:
        made = super().create(resource)
        boto3.client("s3").create_bucket(
            Bucket=made.ref, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        return made


class ParametersInMoto(ShapeProvider):
    """Parameters that can be read."""

    def __init__(self) -> None:
        super().__init__(SHAPES["AWS::SSM::Parameter"])

    def create(self, resource: Resource) -> Made:
        made = super().create(resource)
        boto3.client("ssm").put_parameter(Name=made.ref, Value=resource.properties["Value"], Type="String")
        return made


def moto_providers(fake: NodesFake, authority: Authority) -> dict[str, Provider]:
    """All of them, by type."""
    return {
        "AWS::EKS::Cluster": EksInMoto(fake, authority),
        "AWS::S3::Bucket": BucketsInMoto(),
        "AWS::SSM::Parameter": ParametersInMoto(),
    }


def read_object(bucket: str, key: str) -> bytes:
    """The content of an object in moto's S3."""
    content: bytes = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return content


def let_in_by(emulator: Emulator, fake: NodesFake) -> None:
    """Let the fake of Kubernetes answer those alone whom access entries and RBAC objects of stacks let in."""

    def authorize(token: str, method: str, path: str) -> bool:
        ask = _ask(method, urlsplit(path).path.split("/")[1:])
        return any(emulator.may_ask(token, ask, cluster) for cluster in emulator.manifests)

    fake.authorize = authorize


def _ask(method: str, path: list[str]) -> Ask:
    """What a request asks: /api/v1/nodes, /api/v1/namespaces/…/pods, /apis/apps/v1/namespaces/…"""
    if path[2:3] == ["namespaces"] and path[4:5] == ["pods"]:
        name = path[5] if len(path) > 5 else ""
        return Ask({"GET": "get" if name else "list"}.get(method, "patch"), "", "pods", path[3], name)
    if path[0] == "api":
        return Ask("list", "", path[2])
    return Ask({"GET": "get"}.get(method, "patch"), path[1], path[5], path[4], path[6])
