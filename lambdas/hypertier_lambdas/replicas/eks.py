"""From a cluster's name to a client for its API, with the function's own role and boto3 alone.

EKS takes as bearer token a presigned `sts:GetCallerIdentity` request that names the cluster in the signed
header `x-k8s-aws-id`, base64url without padding, behind `k8s-aws-v1.`, as `aws eks get-token` makes it.
https://github.com/aws/aws-cli/blob/develop/awscli/customizations/eks/get_token.py (read 2026-12-01)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.signers import RequestSigner

from .errors import ClusterError
from .kubernetes import KubernetesApi, tls_context

TOKEN_PREFIX = "k8s-aws-v1."
TOKEN_SECONDS = 60
_CONFIG = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})


def connect(cluster_name: str, remaining_seconds: Callable[[], float]) -> KubernetesApi:
    """Return a client for the API of the EKS cluster `cluster_name` in the function's region.

    Raises:
        ClusterError: the cluster could not be found, or is not up; says why and what to look at.
    """
    try:
        session = boto3.Session()
        cluster = session.client("eks", config=_CONFIG).describe_cluster(name=cluster_name)["cluster"]
        token = cluster_token(session, cluster_name)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        hint = {
            "ResourceNotFoundException": "; is CLUSTER_NAME right, and the cluster in this region?",
            "AccessDeniedException": "; does the function's role allow eks:DescribeCluster on it?",
        }.get(code, "")
        raise ClusterError(f"cannot describe the cluster {cluster_name}: {error}{hint}") from error
    except BotoCoreError as error:
        raise ClusterError(f"cannot describe the cluster {cluster_name}: {error}") from error
    endpoint = cluster.get("endpoint")
    certificate = cluster.get("certificateAuthority", {}).get("data")
    if not endpoint or not certificate:
        raise ClusterError(f"the cluster {cluster_name} is {cluster.get('status')}: it has no endpoint yet")
    try:
        ca_pem = base64.b64decode(certificate, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ClusterError(
            f"the cluster {cluster_name}'s certificateAuthority is no base64: {error}"
        ) from error
    return KubernetesApi(endpoint, tls_context(ca_pem), token, remaining_seconds)


def cluster_token(session: boto3.Session, cluster_name: str) -> str:
    """Return a bearer token for `cluster_name`, good for a minute; made here, without a call to AWS.

    Raises:
        ClusterError: there are no credentials to sign with.
    """
    sts = session.client("sts", config=_CONFIG)
    credentials = session.get_credentials()
    if credentials is None:
        raise ClusterError("no AWS credentials: give the function a role, or set AWS_PROFILE on your machine")
    signer = RequestSigner(
        sts.meta.service_model.service_id,
        sts.meta.region_name,
        "sts",
        "v4",
        credentials,
        session.events,
    )
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{sts.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster_name},
            "context": {},
        },
        region_name=sts.meta.region_name,
        expires_in=TOKEN_SECONDS,
        operation_name="",
    )
    return TOKEN_PREFIX + base64.urlsafe_b64encode(url.encode("utf-8")).decode("ascii").rstrip("=")
