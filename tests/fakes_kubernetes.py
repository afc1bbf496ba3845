"""A small Kubernetes API on loopback: Deployments and pods, read and merge-patched, over TLS of its own CA.

It keeps what clients depend on: uid, resourceVersion, generation (moved by spec alone), 409 on a stale
resourceVersion, null in a merge patch removing a key, 401, 403, 404 and 415 as `Status` objects.
"""

from __future__ import annotations

import copy
import json
import ssl
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    415: "UnsupportedMediaType",
}


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: what `target` is after the merge patch `patch`."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


@dataclass(frozen=True)
class Authority:
    """A CA as EKS makes one: self-signed, Basic Constraints its only extension."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
        builder = _certificate(name, name, key).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")

    def server_context(self, folder: Path, address: str = "127.0.0.1") -> ssl.SSLContext:
        """A server's TLS context for `address`, vouched for by this CA; its key is left in `folder`."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(address))])
        certificate = (
            _certificate(name, self.certificate.subject, key)
            .add_extension(names, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        chain = folder / "apiserver.pem"
        chain.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        return context


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> Any:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )


@dataclass
class KubernetesFake:
    """The API server: start it with `with`, put Deployments in, read `deployments` and `requests` afterwards.

    `before_patch` runs under no lock just before a patch is looked at: the place for somebody else's write.
    `refuse` maps a method to a status that every such call gets, `refuse_pods` the same for pods. `silent`
    accepts requests and never answers.
    """

    tls: ssl.SSLContext
    authenticate: Callable[[str], bool] = lambda token: True
    authorize: Callable[[str, str, str], bool] = lambda token, method, path: True
    before_patch: Callable[[], None] = lambda: None
    refuse: dict[str, int] = field(default_factory=dict)
    refuse_pods: dict[str, int] = field(default_factory=dict)
    silent: bool = False
    deployments: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    pods: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def __enter__(self) -> KubernetesFake:
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._version = 1000
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = self.tls.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def create_deployment(self, namespace: str, name: str, replicas: int) -> None:
        self._version += 1
        self.deployments[namespace, name] = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": str(uuid.uuid4()),
                "resourceVersion": str(self._version),
                "generation": 1,
                "creationTimestamp": "2026-11-01T00:00:00Z",
                "annotations": {"deployment.kubernetes.io/revision": "1"},
            },
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}},
            "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas},
        }

    def create_pod(
        self,
        namespace: str,
        name: str,
        ip: str,
        *,
        app: str,
        node: str = "n1",
        ready: bool = True,
        age: int = 1,
    ) -> None:
        """A pod that bears the label by which `create_deployment` selects, `age` days old."""
        self.pods[namespace, name] = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": app, "pod-template-hash": "7c9"},
                "creationTimestamp": f"2026-11-{30 - age:02}T00:00:00Z",
                "annotations": {"example.com/owner": "llm"},
            },
            "spec": {"nodeName": node},
            "status": {
                "phase": "Running",
                "podIP": ip,
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        }

    def reconcile(self, namespace: str, name: str) -> list[str]:
        """Delete pods as the Deployment's ReplicaSet does, and name those that stay.

        https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/controller_utils.go, its
        `ActivePodsWithRanks` (read 2026-12-03)
        """
        deployment = self.deployments[namespace, name]
        pods = self._selected(namespace, deployment["spec"]["selector"]["matchLabels"])
        nodes = [pod["spec"]["nodeName"] for pod in pods]

        def order(pod: dict[str, Any]) -> tuple[bool, int, int]:
            cost = int(pod["metadata"]["annotations"].get("controller.kubernetes.io/pod-deletion-cost", 0))
            ready = pod["status"]["conditions"][0]["status"] == "True"
            return ready, cost, -nodes.count(pod["spec"]["nodeName"])

        pods.sort(key=lambda pod: pod["metadata"]["creationTimestamp"], reverse=True)
        pods.sort(key=order)
        for pod in pods[: max(0, len(pods) - deployment["spec"]["replicas"])]:
            del self.pods[namespace, pod["metadata"]["name"]]
        return sorted(found for _, found in self.pods)

    def _selected(self, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        return [
            pod
            for (where, _), pod in self.pods.items()
            if where == namespace and labels.items() <= pod["metadata"]["labels"].items()
        ]

    def _answer_of_pods(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Any]:
        if method in self.refuse_pods:
            return status(self.refuse_pods[method], f"the test refuses {method} of pods")
        parts, query = urlsplit(path).path.split("/"), parse_qs(urlsplit(path).query)
        namespace = parts[4]
        if method == "GET" and len(parts) == 6:
            wanted = dict(part.split("=", 1) for part in query["labelSelector"][0].split(","))
            return 200, {"kind": "PodList", "items": self._selected(namespace, wanted)}
        key = (namespace, parts[-1])
        if method != "PATCH" or key not in self.pods:
            return status(404, f'pods "{parts[-1]}" not found')
        if headers.get("Content-Type") != "application/merge-patch+json":
            return status(415, "expected application/merge-patch+json")
        self.pods[key] = merge(self.pods[key], json.loads(body))
        return 200, self.pods[key]

    def patch(self, namespace: str, name: str, patch: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Merge as the API server does: all or nothing, 409 when `patch` names another resourceVersion."""
        with self._lock:
            old = self.deployments.get((namespace, name))
            if old is None:
                return status(404, f'deployments.apps "{name}" not found')
            wanted = patch.get("metadata", {}).get("resourceVersion")
            if wanted not in (None, old["metadata"]["resourceVersion"]):
                return status(409, f'Operation cannot be fulfilled on deployments.apps "{name}": modified')
            new = merge(old, patch)
            for key in ("uid", "generation", "creationTimestamp", "name", "namespace"):
                new["metadata"][key] = old["metadata"][key]
            new["status"] = old["status"]
            if new["spec"] != old["spec"]:
                new["metadata"]["generation"] += 1
            if new != old:
                self._version += 1
                new["metadata"]["resourceVersion"] = str(self._version)
            self.deployments[namespace, name] = new
            return 200, new

    def _answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        self.requests.append((method, path))
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        if not self.authenticate(token):
            return status(401, "Unauthorized")
        if not self.authorize(token, method, path):
            return status(403, f"forbidden: {method} {path}")
        if method in self.refuse:
            return status(self.refuse[method], f"the test refuses {method}")
        parts = urlsplit(path).path.split("/")
        if parts[:4] == ["", "api", "v1", "namespaces"] and parts[5:6] == ["pods"]:
            return self._answer_of_pods(method, path, headers, body)
        if (
            parts[:5] != ["", "apis", "apps", "v1", "namespaces"]
            or len(parts) != 8
            or parts[6] != "deployments"
        ):
            return status(404, "the server could not find the requested resource")
        namespace, name = parts[5], parts[7]
        if method == "GET":
            found = self.deployments.get((namespace, name))
            return (200, found) if found else status(404, f'deployments.apps "{name}" not found')
        if headers.get("Content-Type") != "application/merge-patch+json":
            return status(415, "expected application/merge-patch+json")
        self.before_patch()
        return self.patch(namespace, name, json.loads(body))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if fake.silent:
                    fake._closing.wait(60)
                    self.close_connection = True
                    return
                code, answer = fake._answer(self.command, self.path, dict(self.headers), body)
                text = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_PATCH = do_GET

            def handle(self) -> None:
                try:
                    super().handle()
                except (ssl.SSLError, ConnectionError):
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    """A `Status` object as the API server sends it with every refusal."""
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": REASONS[code],
        "message": message,
        "code": code,
    }
