"""From the router's settings to the gate that its requests pass, and what keeps that up to date."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from hypertier.errors import MissingPackageError
from hypertier.router.access.files import AccessFiles, AccessWatch
from hypertier.router.access.gate import AccessGate
from hypertier.router.replicas.models import Models
from hypertier.router.replicas.replicas import ReplicaSet
from hypertier.router.settings import RouterSettings
from hypertier.spec.access import Jwt

if TYPE_CHECKING:
    from hypertier.router.access.jwt import JwtVerifier


class Door(NamedTuple):
    """The gate, and its watch."""

    gate: AccessGate
    watch: AccessWatch


def build(settings: RouterSettings, replicas: ReplicaSet, models: Models) -> Door | None:
    """The gate that `settings` ask for; None where they ask for none.

    Raises ConfigError or ManifestError for a file that can't be used.
    """
    files = AccessFiles(settings.access, settings.api_keys, settings.salt_key)
    if files == AccessFiles():
        return None
    access, ring, salt_key = files.read()
    authenticates = settings.api_keys is not None or access.jwt is not None
    settings.check_access(authenticates=authenticates, has_jwt=access.jwt is not None)
    gate = AccessGate(
        access,
        authenticates=authenticates,
        replicas=replicas,
        models=models,
        clock=time.monotonic,
        now=time.time,
        verifier=_verifier(access.jwt, settings.session_claim) if access.jwt is not None else None,
        bars_transfers=settings.splits_prefill,
    )
    gate.use(access, ring, salt_key)
    return Door(gate, AccessWatch(files, gate, access.jwt))


def _verifier(jwt: Jwt, session_claim: str | None) -> JwtVerifier:
    try:
        from hypertier.router.access.jwt import JwtVerifier
    except ModuleNotFoundError as error:
        raise MissingPackageError("access.jwt", str(error.name), "router") from error
    return JwtVerifier(jwt, session_claim)
