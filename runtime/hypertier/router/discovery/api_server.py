"""Reading Kubernetes' API from inside a pod: one GET a connection, whole or line by line.

Two GETs of one kind are all that the router asks, and httptools, which it has anyway, reads their framing; a
client library would bring more memory than the router's own code. Certificates and the token are read anew
for every connection: kubelet replaces the token before it expires
(https://kubernetes.io/docs/concepts/security/service-accounts/, read 2026-12-01).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import httptools

from hypertier.errors import ApiServerError, ConfigError
from hypertier.router.discovery.addresses import Address
from hypertier.router.http.engine_http import AnswerReader

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECT_SECONDS = 10.0
MAX_BYTES = 64 * 2**20
"""Of an answer, or of one line of it. A slice of 1,000 endpoints, the most there can be, is below 1 MiB."""
_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ApiServer:
    """The API server that runs this pod; `folder` holds the service account's `token` and `ca.crt`."""

    address: Address
    folder: Path = ACCOUNT_FOLDER

    async def read(self, target: str, *, silence_seconds: float) -> bytes:
        """The whole answer to `GET target`. Raises ApiServerError."""
        body = bytearray()
        async with aclosing(self._parts(target, silence_seconds)) as parts:
            async for part in parts:
                body += part
                if len(body) > MAX_BYTES:
                    raise ApiServerError("malformed", f"an answer of more than {MAX_BYTES} bytes")
        return bytes(body)

    async def lines(self, target: str, *, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """The lines of an answer to `GET target`, as they come, until it ends. Raises ApiServerError."""
        begun = bytearray()
        async with aclosing(self._parts(target, silence_seconds)) as parts:
            async for part in parts:
                first, *more = part.split(b"\n")
                begun += first
                if len(begun) > MAX_BYTES:
                    raise ApiServerError("malformed", f"a line of more than {MAX_BYTES} bytes")
                for following in more:
                    yield bytes(begun)
                    begun = bytearray(following)

    async def _parts(self, target: str, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        """The body of a 200 in the parts that came; nothing is waited for longer than `silence_seconds`."""
        answer = AnswerReader()
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                request, tls = await asyncio.to_thread(self._prepare, target)
                reader, writer = await asyncio.open_connection(self.address.host, self.address.port, ssl=tls)
            _keep_alive(writer.get_extra_info("socket"))
            writer.write(request)
            while not answer.is_complete:
                async with asyncio.timeout(silence_seconds):
                    data = await reader.read(_READ_BYTES)
                if not data:
                    raise ApiServerError("closed", "the connection ended inside an answer")
                answer.feed(data)
                if answer.status not in (0, 200):
                    raise _refusal(answer.status)
                if answer.body:
                    part, answer.body = bytes(answer.body), bytearray()
                    yield part
        except TimeoutError as error:
            raise ApiServerError("timeout", f"{self.address} was silent for too long") from error
        except httptools.HttpParserError as error:
            raise ApiServerError("malformed", f"{self.address} does not speak HTTP/1.1") from error
        except (OSError, UnicodeError) as error:  # the latter of a token
            raise ApiServerError("connect", f"{self.address}: {error}") from error
        finally:
            if writer is not None:
                writer.transport.abort()

    def _prepare(self, target: str) -> tuple[bytes, ssl.SSLContext]:
        token = (self.folder / "token").read_text(encoding="ascii").strip()
        tls = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        # EKS's CA has no key usage extension, which Python 3.13's defaults call an error.
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        head = (
            f"GET {target} HTTP/1.1\r\nHost: {self.address}\r\nAuthorization: Bearer {token}\r\n"
            "Accept: application/json\r\nUser-Agent: hypertier-router\r\nConnection: close\r\n\r\n"
        )
        return head.encode("ascii"), tls


def _keep_alive(connection: socket.socket) -> None:
    """Have the kernel ask a quiet other side whether it is there: half a minute, where its host vanished."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # other systems have others
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


CAUSES = {401: "unauthorized", 403: "forbidden", 410: "expired", 504: "expired"}
"""504 is what a watch gets whose version the server has not seen, and will not see once it was restored."""


def _refusal(status: int) -> ApiServerError:
    return ApiServerError(CAUSES.get(status, f"status_{status}"), f"the API server answered {status}")


def in_cluster(
    setting: str, got: object, environ: Mapping[str, str], folder: Path = ACCOUNT_FOLDER
) -> ApiServer:
    """The API server of the cluster that this pod runs in.

    Raises:
        ConfigError: not in a pod, or in one that gets no token; names `setting` and what it was.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not (port.isascii() and port.isdigit()):
        raise ConfigError(
            setting,
            str(got),
            "dns://HOST:PORT outside of a pod: KUBERNETES_SERVICE_HOST and ..._PORT are not set",
        )
    for name in ("token", "ca.crt"):
        if not (folder / name).is_file():
            raise ConfigError(
                setting,
                str(got),
                f"a pod with a service account's token, which is mounted where its spec says "
                f"automountServiceAccountToken: true; there is no {folder / name}",
            )
    return ApiServer(Address(host, int(port)), folder)
