"""TLS on both sides: the certificate that clients see, and what engines must show and are shown.

Certificates are read again when their files change, without a restart; connections that exist keep theirs.
"""

from __future__ import annotations

import http.client
import logging
import os
import ssl
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final

from hypertier.errors import ConfigError
from hypertier.router.process.stamps import Complaint, Stamp, stamp, was_unread

if TYPE_CHECKING:
    from hypertier.router.settings import RouterSettings

log = logging.getLogger("hypertier.router")

MAX_FILE_BYTES: Final = 1 << 20
"""Of a chain or a key: a Secret of Kubernetes has no more."""


class Reloaded(ABC):
    """PEM files in a context, read again when they change. `reloads` counts `good` and `failed`."""

    new: ClassVar[str]
    former: ClassVar[str]

    def __init__(self, context: ssl.SSLContext, *files: str) -> None:
        self.context = context
        self.reloads: Counter[str] = Counter()
        self._files = files
        self._seen = self._stamps()
        self._complaint = Complaint(log.warning, log.info)

    def refresh(self) -> None:
        """Read the files again if they changed; what can't be used changes nothing and is counted."""
        seen = self._stamps()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._load_again()
        except (OSError, ValueError) as error:
            self.reloads["failed"] += 1
            self._seen = () if was_unread(error) else seen
            self._complaint.failed(self.former % self._files[0], error, seen)
        else:
            self.reloads["good"] += 1
            self._complaint.mended(f"{self._files[0]} can be used again")
            log.info(self.new, self._files[0])

    @abstractmethod
    def _load_again(self) -> None: ...

    def _stamps(self) -> tuple[Stamp | None, ...]:
        return tuple(map(stamp, self._files))


class Certificate(Reloaded):
    """A chain and its key, as PEM files, in a context of either side.

    Raises ConfigError naming `setting` for files that can't be read or do not belong together.
    """

    new = "a new certificate was read from %s"
    former = "the certificate in %s stays the one read before"

    def __init__(self, context: ssl.SSLContext, cert: str, key: str, setting: str) -> None:
        super().__init__(context, cert, key)
        try:
            context.load_cert_chain(cert, key, _no_password)
        except (OSError, ValueError) as error:
            raise ConfigError(
                setting, cert, f"a PEM file of a chain that goes with the key in {key} ({error})"
            ) from error

    def _load_again(self) -> None:
        cert, key = self._files
        with _as_it_is(cert) as chain, _as_it_is(key) as its_key:
            # In a context of its own first: half a pair must not replace a whole one.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(chain, its_key, _no_password)
            self.context.load_cert_chain(chain, its_key, _no_password)


class Authorities(Reloaded):
    """The CAs of a PEM file in a context; those of a changed file are believed beside the former ones.

    Raises ConfigError naming `setting` for a file that can't be read.
    """

    new = "new CAs were read from %s"
    former = "the CAs in %s stay those read before"

    def __init__(self, context: ssl.SSLContext, ca: str, setting: str) -> None:
        super().__init__(context, ca)
        try:
            context.load_verify_locations(ca)
        except (OSError, ValueError) as error:
            raise ConfigError(setting, ca, f"a PEM file of certificates ({error})") from error

    def _load_again(self) -> None:
        self.context.load_verify_locations(self._files[0])


@contextmanager
def _as_it_is(path: str) -> Iterator[str]:
    """The path of a copy in memory, which stays as it is while OpenSSL reads it, once more for each context.

    Of a pair that is swapped between two readings OpenSSL keeps the half that came first, and no handshake
    succeeds.
    """
    if not hasattr(os, "memfd_create"):  # not Linux
        yield path
        return
    with open(path, "rb") as file, open(os.memfd_create("hypertier-pem"), "wb") as copy:
        copy.write(file.read(MAX_FILE_BYTES))
        copy.flush()
        yield f"/proc/self/fd/{copy.fileno()}"


def _no_password() -> str:
    """In place of OpenSSL's question on the terminal, which would wait for ever."""
    raise ValueError("the key is encrypted")


def server_certificate(cert: str, key: str) -> Certificate:
    """What clients see: TLS 1.2 or later, HTTP/1.1. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return Certificate(context, cert, key, "--tls-cert")


class EngineTls:
    """How the router speaks TLS to engines: their certificates are always verified.

    `server_name` stands in them; without one it is the engine's address. `certificate` is the router's own.
    """

    def __init__(
        self, ca: str, *, cert: str | None = None, key: str | None = None, server_name: str | None = None
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies, and trusts nobody yet
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.authorities = Authorities(self.context, ca, "--replica-ca")
        self.server_name = server_name
        self.certificate = Certificate(self.context, cert, key, "--replica-cert") if cert and key else None

    @property
    def files(self) -> Sequence[Reloaded]:
        """What is read again when it changes."""
        return [self.authorities, *([self.certificate] if self.certificate is not None else ())]

    def name_of(self, host: str) -> str:
        """What must stand in that engine's certificate."""
        return self.server_name or host


class _Https(http.client.HTTPSConnection):
    """As in the library, but that the certificate's name may be another than the address."""

    def __init__(self, host: str, port: int, tls: EngineTls) -> None:
        super().__init__(host, port, context=tls.context)
        self._tls = tls

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.context.wrap_socket(self.sock, server_hostname=self._tls.name_of(self.host))


def connection(host: str, port: int, tls: EngineTls | None) -> http.client.HTTPConnection:
    """A blocking connection to an engine, for what is not on the way of requests."""
    if tls is None:
        return http.client.HTTPConnection(host, port)
    return _Https(host, port, tls)


def tls_of(
    settings: RouterSettings,
) -> tuple[ssl.SSLContext | None, EngineTls | None, list[Reloaded]]:
    """What clients see, how engines are spoken to, and the certificates in both. Raises ConfigError."""
    client_tls: ssl.SSLContext | None = None
    engine_tls: EngineTls | None = None
    certificates: list[Reloaded] = []
    if settings.tls_cert is not None and settings.tls_key is not None:
        certificates.append(server_certificate(settings.tls_cert, settings.tls_key))
        client_tls = certificates[0].context
    if settings.replica_ca is not None:
        engine_tls = EngineTls(
            settings.replica_ca,
            cert=settings.replica_cert,
            key=settings.replica_key,
            server_name=settings.replica_server_name,
        )
        certificates += engine_tls.files
    return client_tls, engine_tls, certificates
