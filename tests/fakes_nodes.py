"""A Kubernetes API that lists nodes, and the EKS cluster of moto that leads to it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import moto.backends
from fakes_kubernetes import Authority, KubernetesFake
from fakes_moto import ACCOUNT, REGION

GROUP_LABEL = "sagemaker.amazonaws.com/instance-group-name"
TOKEN_PREFIX = "k8s-aws-v1."


def node(name: str, group: str = "system", ready: str = "True") -> dict[str, Any]:
    """A Node object as HyperPod's nodes show themselves."""
    return {
        "metadata": {"name": name, "labels": {GROUP_LABEL: group}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "KubeletNotReady"}]},
    }


@dataclass
class NodesFake(KubernetesFake):
    """Lists `nodes`, `page_size` of them at a time, to whoever has a token as EKS makes it."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    page_size: int = 2

    def _answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any]:
        if not path.startswith("/api/v1/nodes"):
            return super()._answer(method, path, headers, body)
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        if not self.authenticate(token):
            return 401, {}
        if not self.authorize(token, method, path):
            return 403, {}
        if method in self.refuse:
            return self.refuse[method], {}
        self.requests.append((method, path))
        start = int(parse_qs(urlsplit(path).query).get("continue", ["0"])[0])
        end = start + self.page_size
        left = {"continue": str(end)} if end < len(self.nodes) else {}
        return 200, {"kind": "NodeList", "metadata": left, "items": self.nodes[start:end]}


@contextmanager
def nodes_api(folder: Path) -> Iterator[tuple[NodesFake, Authority]]:
    """Run the API; its key is left in `folder`."""
    authority = Authority.create()
    with NodesFake(
        authority.server_context(folder), authenticate=lambda token: token.startswith(TOKEN_PREFIX)
    ) as fake:
        yield fake, authority


def create_eks_cluster(name: str, fake: NodesFake, authority: Authority) -> Any:
    """Make an EKS cluster in moto whose API is `fake`; returns moto's own object."""
    boto3.client("eks").create_cluster(
        name=name,
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/eks",
        resourcesVpcConfig={"subnetIds": ["subnet-1", "subnet-2"]},
    )
    found = eks_cluster(name)
    found.endpoint = fake.endpoint
    found.certificate_authority = {"data": base64.b64encode(authority.pem.encode()).decode()}
    return found


def eks_cluster(name: str) -> Any:
    """moto's own object of an EKS cluster."""
    return moto.backends.get_backend("eks")[ACCOUNT][REGION].clusters[name]
