"""The backend that an address asks for."""

from __future__ import annotations

from hypertier.tier.backends.backend import Backend, Ledger
from hypertier.tier.backends.hyperpod import HyperPodBackend
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.backends.resp_ledger import RespLedger
from hypertier.tier.credentials import CredentialSource
from hypertier.tier.settings import TierSettings


def choose_backend(settings: TierSettings, credentials: CredentialSource) -> Backend:
    """Build a backend; it connects when first used."""
    address = settings.address
    if address.is_daemon:
        return HyperPodBackend(address, settings.segment_path)
    return RespBackend(address, credentials, settings.ca_file)


def choose_ledger(backend: Backend) -> Ledger | None:
    """Where it is written which chunks tenants keep; None where a store does what it likes."""
    return RespLedger(backend) if isinstance(backend, RespBackend) else None


def stripe_bytes(settings: TierSettings, chunk_bytes: int, header_bytes: int) -> int:
    """The largest value that the backend should be given: the daemon takes a chunk as a whole."""
    return chunk_bytes + header_bytes if settings.address.is_daemon else settings.stripe_bytes
