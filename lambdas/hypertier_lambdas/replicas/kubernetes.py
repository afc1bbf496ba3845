"""The calls to the Kubernetes API that the hook makes: read a Deployment, and change it if unchanged.

And before replicas go: list its pods, and annotate those that are to go.

A merge patch that carries `metadata.resourceVersion` is refused with 409 when the object has changed since.
https://kubernetes.io/docs/reference/using-api/api-concepts/#patch-and-apply
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from .errors import ClusterError, ConflictError, DeadlineError

CALL_TIMEOUT_SECONDS = 5.0
MAX_RESPONSE_BYTES = 8 * 1024 * 1024
FIELD_MANAGER = "hypertier-replicas"
_HINTS = {
    401: "does the function's role have an access entry in the cluster?",
    403: "does the role's Kubernetes group have a Role with get and patch on this Deployment, and list and "
    "patch on pods?",
    404: "are NAMESPACE and DEPLOYMENT right?",
}


def tls_context(ca_pem: str) -> ssl.SSLContext:
    """Return a context that trusts this cluster's own CA and nothing else.

    EKS's CA may have no Authority Key Identifier; Python 3.13 and newer refuse such a one by default,
    although RFC 5280 allows it. Chain, dates and host name stay checked.
    https://github.com/kubernetes-client/python/issues/2394 (read 2026-12-01)

    Raises:
        ClusterError: `ca_pem` holds no certificate.
    """
    try:
        # Not create_default_context: without a CA that would trust everybody whom the system trusts.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=ca_pem)
    except (ssl.SSLError, ValueError) as error:
        raise ClusterError(f"the cluster's certificateAuthority holds no certificate: {error}") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class KubernetesApi:
    """One cluster's API at `endpoint` (https), with a bearer token and a deadline.

    `remaining_seconds` says how much time is left; no call waits longer than that, nor more than 5 seconds
    for the next byte.
    """

    def __init__(
        self, endpoint: str, tls: ssl.SSLContext, token: str, remaining_seconds: Callable[[], float]
    ) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme != "https" or not parts.hostname:
            raise ClusterError(f"the cluster's endpoint is {endpoint!r}; expected https://HOST")
        self._endpoint = endpoint
        self._host, self._port = parts.hostname, parts.port or 443
        self._path = parts.path.rstrip("/")
        self._tls = tls
        self._token = token
        self._remaining_seconds = remaining_seconds

    def read_deployment(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the Deployment as the API server gives it.

        Raises:
            ClusterError: it could not be read; says why and what to look at.
        """
        return self._call("GET", _deployment_path(namespace, name))

    def patch_deployment(self, namespace: str, name: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `patch` into the Deployment and return what came of it.

        Raises:
            ConflictError: the Deployment is not at the `metadata.resourceVersion` of `patch`.
            ClusterError: it could not be written; says why and what to look at.
        """
        path = f"{_deployment_path(namespace, name)}?fieldManager={FIELD_MANAGER}"
        return self._call("PATCH", path, patch)

    def list_pods(self, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the pods that bear all of `labels`, of which there is one at least.

        Raises:
            ClusterError: they could not be read; says why and what to look at.
        """
        if not labels:
            raise ClusterError("spec.selector.matchLabels is empty; expected the labels of the engines' pods")
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        query = urlencode({"labelSelector": selector})
        items: list[dict[str, Any]] = self._call("GET", f"{_pods_path(namespace)}?{query}").get("items", [])
        return items

    def annotate_pod(self, namespace: str, name: str, annotations: Mapping[str, str | None]) -> None:
        """Write these annotations of a pod; None takes one away.

        Raises:
            ClusterError: they could not be written; says why and what to look at.
        """
        path = f"{_pods_path(namespace)}/{quote(name, safe='')}?fieldManager={FIELD_MANAGER}"
        self._call("PATCH", path, {"metadata": {"annotations": dict(annotations)}})

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        what = f"{method} {self._endpoint}{path.partition('?')[0]}"
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/json",
            "Connection": "close",
        }
        payload = None
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
            payload = json.dumps(body)
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=self._wait_seconds(what), context=self._tls
        )
        try:
            connection.request(method, self._path + path, payload, headers)
            response = connection.getresponse()
            text = self._read(what, connection, response)
        except TimeoutError as error:
            raise ClusterError(
                f"{what}: no answer in time; can the function reach the cluster's endpoint "
                "(subnets, security group, endpoint access)?"
            ) from error
        except ssl.SSLCertVerificationError as error:
            raise ClusterError(
                f"{what}: the server is not who the cluster's CA vouches for: {error}"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"{what}: {type(error).__name__}: {error}") from error
        finally:
            connection.close()
        return _answer(what, response.status, text)

    def _read(
        self, what: str, connection: http.client.HTTPSConnection, response: http.client.HTTPResponse
    ) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            wait_seconds = self._wait_seconds(what)
            if connection.sock is not None:
                connection.sock.settimeout(wait_seconds)
            chunk = response.read1(65536)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_RESPONSE_BYTES:
                raise ClusterError(f"{what}: the answer is larger than {MAX_RESPONSE_BYTES} bytes")

    def _wait_seconds(self, what: str) -> float:
        remaining = self._remaining_seconds()
        if remaining <= 0:
            raise DeadlineError(f"{what}: the function's time is used up; its timeout is to be 60 seconds")
        return min(CALL_TIMEOUT_SECONDS, remaining)


def _deployment_path(namespace: str, name: str) -> str:
    return f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/deployments/{quote(name, safe='')}"


def _pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def _answer(what: str, status: int, text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if status == 200 and isinstance(answer, dict):
        return answer
    message = answer.get("message", "") if isinstance(answer, dict) else text[:200].decode("utf-8", "replace")
    if status == 409:
        raise ConflictError(f"{what}: {message}")
    hint = _HINTS.get(status)
    raise ClusterError(f"{what}: HTTP {status}: {message}" + (f"; {hint}" if hint else ""))
