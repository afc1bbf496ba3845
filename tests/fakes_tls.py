"""Certificates that are good for an hour, made on the spot, in files."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A CA of its own; `ca` is its file."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._number = 0
        certificate = self._sign(
            self._subject, self._key, x509.BasicConstraints(ca=True, path_length=None), None
        )
        self.ca = str(folder / f"{name}.pem")
        Path(self.ca).write_bytes(certificate)

    def issue(self, name: str, *, host: str = "127.0.0.1", at: Path | None = None) -> tuple[str, str]:
        """Files of a certificate for `host`, and of its key; in place of those `at` that folder."""
        self._number += 1
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, x509.BasicConstraints(ca=False, path_length=None), host)
        folder = at or self._folder / f"{name}-{self._number}"
        folder.mkdir(exist_ok=True)
        for file, data in (("tls.crt", certificate), ("tls.key", _pem(key))):
            (folder / "new").write_bytes(data)
            (folder / "new").replace(folder / file)
        return str(folder / "tls.crt"), str(folder / "tls.key")

    def server(self, *, host: str = "127.0.0.1", asks_client: bool = False) -> ssl.SSLContext:
        """For an engine that shows a certificate for `host`, and may ask for one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("engine", host=host))
        if asks_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context

    def client(self) -> ssl.SSLContext:
        """For a client that trusts this CA alone."""
        return ssl.create_default_context(cafile=self.ca)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        constraints: x509.BasicConstraints,
        host: str | None,
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(constraints, critical=True)
        )
        if host is not None:
            is_address = host.replace(".", "").isdigit()
            name = x509.IPAddress(ipaddress.ip_address(host)) if is_address else x509.DNSName(host)
            builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
