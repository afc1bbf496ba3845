"""The nodes of an EKS cluster, read with the function's own role; boto3 and the standard library alone.

EKS takes as bearer token a presigned `sts:GetCallerIdentity` request that names the cluster in the signed
header `x-k8s-aws-id`, base64url without padding, behind `k8s-aws-v1.`, as `aws eks get-token` makes it.
https://github.com/aws/aws-cli/blob/develop/awscli/customizations/eks/get_token.py (read 2026-12-01)
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.signers import RequestSigner

from .errors import ClusterError

TOKEN_PREFIX = "k8s-aws-v1."
TOKEN_SECONDS = 60
CALL_TIMEOUT_SECONDS = 5.0
PAGE_SIZE = 200
MAX_NODES = 10_000
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
_CONFIG = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
_HINTS = {
    401: "does the function's role have an access entry in the cluster?",
    403: "does the role's Kubernetes group have a ClusterRole with list on nodes?",
}


def list_nodes(cluster_name: str, remaining_seconds: Callable[[], float]) -> list[dict[str, Any]]:
    """Return every Node object of the EKS cluster `cluster_name` in the function's Region.

    No call is made once `remaining_seconds` are used up, and none to the cluster waits longer than they last.

    Raises:
        ClusterError: the cluster could not be asked; says why and what to look at.
    """
    session = boto3.Session()
    _seconds_for(f"describing the cluster {cluster_name}", remaining_seconds)
    endpoint, tls = _address(session, cluster_name)
    token = _token(session, cluster_name)
    nodes: list[dict[str, Any]] = []
    page = ""
    while True:
        query = {"limit": str(PAGE_SIZE)} | ({"continue": page} if page else {})
        url = f"{endpoint}/api/v1/nodes?{urllib.parse.urlencode(query)}"
        answer = _get(
            url, tls, token, _seconds_for(f"listing the nodes of {cluster_name}", remaining_seconds)
        )
        nodes += answer.get("items") or []
        page = answer.get("metadata", {}).get("continue") or ""
        if not page or len(nodes) > MAX_NODES:
            return nodes


def _address(session: boto3.Session, cluster_name: str) -> tuple[str, ssl.SSLContext]:
    try:
        cluster = session.client("eks", config=_CONFIG).describe_cluster(name=cluster_name)["cluster"]
    except (ClientError, BotoCoreError) as error:
        raise ClusterError(f"cannot describe the cluster {cluster_name}: {error}") from error
    endpoint = cluster.get("endpoint")
    certificate = cluster.get("certificateAuthority", {}).get("data")
    if not endpoint or not certificate:
        raise ClusterError(f"the cluster {cluster_name} is {cluster.get('status')}: it has no endpoint yet")
    try:
        # Not create_default_context: without a CA that would trust everybody whom the system trusts.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(cadata=base64.b64decode(certificate, validate=True).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError) as error:
        raise ClusterError(
            f"the cluster {cluster_name}'s certificateAuthority holds no certificate: {error}"
        ) from error
    # EKS's CA may have no Authority Key Identifier, which Python 3.13 refuses and RFC 5280 allows.
    # https://github.com/kubernetes-client/python/issues/2394 (read 2026-12-01)
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return endpoint.rstrip("/"), tls


def _token(session: boto3.Session, cluster_name: str) -> str:
    sts = session.client("sts", config=_CONFIG)
    credentials = session.get_credentials()
    if credentials is None:
        raise ClusterError("no AWS credentials: give the function a role")
    signer = RequestSigner(
        sts.meta.service_model.service_id, sts.meta.region_name, "sts", "v4", credentials, session.events
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


def _seconds_for(what: str, remaining_seconds: Callable[[], float]) -> float:
    remaining = remaining_seconds()
    if remaining <= 0:
        raise ClusterError(f"{what}: the time that Lambda gives is used up; does the cluster answer slowly?")
    return min(CALL_TIMEOUT_SECONDS, remaining)


def _get(url: str, tls: ssl.SSLContext, token: str, timeout_seconds: float) -> dict[str, Any]:
    what = f"GET {url.partition('?')[0]}"
    if not url.startswith("https://"):
        raise ClusterError(f"{what}: expected an endpoint of https")
    request = urllib.request.Request(
        url, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds, context=tls) as response:
            text = response.read(MAX_RESPONSE_BYTES + 1)
    except urllib.error.HTTPError as error:
        hint = _HINTS.get(error.code)
        error.close()
        raise ClusterError(f"{what}: HTTP {error.code}" + (f"; {hint}" if hint else "")) from error
    except OSError as error:
        raise ClusterError(
            f"{what}: {error}; can the function reach the cluster's endpoint "
            "(subnets, security group, endpoint access)?"
        ) from error
    if len(text) > MAX_RESPONSE_BYTES:
        raise ClusterError(f"{what}: the answer is larger than {MAX_RESPONSE_BYTES} bytes")
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise ClusterError(f"{what}: the answer is no JSON") from error
    if not isinstance(answer, dict):
        raise ClusterError(f"{what}: the answer is no object")
    return answer
