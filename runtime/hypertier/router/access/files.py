"""The files that say who may ask: read at start, and again whenever they change.

Kubernetes changes a mounted Secret by swapping a link, some time after the Secret was changed
(https://kubernetes.io/docs/concepts/configuration/secret/#mounted-secrets-are-updated-automatically, read
2026-12-01). A file that can't be read anew changes nothing, is logged, and counts as `failed`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypertier.errors import ConfigError, HypertierError, JwksError
from hypertier.router.access import keys
from hypertier.router.access.gate import AccessGate
from hypertier.router.access.keys import KeyRing
from hypertier.router.access.salt import SALT_KEY_BYTES
from hypertier.router.process.stamps import Complaint, stamp, was_unread
from hypertier.spec.access import Access, Jwt, load_access

if TYPE_CHECKING:
    from hypertier.router.access.jwks import SigningKeys

log = logging.getLogger("hypertier.router")

WATCH_SECONDS = 2.0
JWKS_SECONDS = 300.0
"""Between two fetches of the keys of JWTs."""
MIN_JWKS_SECONDS = 10.0
"""Between two fetches where a token names a key that is not known, or the last fetch failed."""
SALT_KEY_FORM = (
    f"a file of {SALT_KEY_BYTES} random bytes in base64, as `hypertier router key salt` prints them"
)


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """Paths of the files; None where there is no such flag."""

    access: str | None = None
    api_keys: str | None = None
    salt_key: str | None = None

    def read(self) -> tuple[Access, KeyRing, bytes | None]:
        """All of them. Raises ConfigError or ManifestError, naming flag or file; never what is secret."""
        access = load_access(self.access, "--access") if self.access is not None else Access()
        ring = KeyRing()
        if self.api_keys is not None:
            text = _read("--api-keys", self.api_keys, keys.MAX_FILE_BYTES)
            ring = keys.parse(text.decode("utf-8", "replace"), "--api-keys", self.api_keys)
        salt_key = read_salt_key(self.salt_key) if self.salt_key is not None else None
        self._check(access, salt_key)
        return access, ring, None if access.shared_cache else salt_key

    def _check(self, access: Access, salt_key: bytes | None) -> None:
        authenticates = self.api_keys is not None or access.jwt is not None
        if authenticates and salt_key is None and not access.shared_cache:
            raise ConfigError(
                "--salt-key",
                None,
                f"{SALT_KEY_FORM}, to keep tenants' cache apart; or access.sharedCache: true, to share it",
            )
        if not authenticates and salt_key is not None:
            raise ConfigError(
                "--salt-key",
                self.salt_key,
                "no such flag without --api-keys or access.jwt: there are no tenants",
            )
        if not authenticates and access.tenants:
            raise ConfigError(
                "access.tenants",
                [tenant.name for tenant in access.tenants],
                "--api-keys or access.jwt beside it, which tell tenants apart",
            )

    def stamps(self) -> tuple[object, ...]:
        """What changes when a file does."""
        return tuple(stamp(path) for path in (self.access, self.api_keys, self.salt_key) if path is not None)


class AccessWatch:
    """Keeps a gate in step with the files, and with the keys of JWTs."""

    def __init__(self, files: AccessFiles, gate: AccessGate, jwt: Jwt | None) -> None:
        self._files = files
        self._gate = gate
        self._jwt = jwt
        self._seen: tuple[object, ...] = ()
        self._queue_size: int | None = None
        self._jwks_text = b""
        self._jwks_due = 0.0
        self._jwks_soonest = 0.0
        self._jwks_stamp: object = None
        self._complaint = Complaint(log.error, log.info)
        self._jwks_complaint = Complaint(log.error, log.info)
        gate.wants_jwks = self._want_jwks

    async def start(self) -> None:
        """Read all of it once. A JWK Set that can't be fetched comes later; meanwhile its tokens get 503.

        Raises ConfigError or ManifestError for a file that can't be used, a JWK Set among them.
        """
        self._seen = self._files.stamps()
        access, ring, salt_key = self._files.read()
        self._gate.use(access, ring, salt_key)
        self._queue_size = _queue_size(access)
        if self._jwt is not None and not self._jwt.jwks_is_url:
            try:
                await self._fetch(self._jwt)
            except JwksError as error:
                raise ConfigError("access.jwt.jwks", self._jwt.jwks, f"a JWK Set ({error})") from error
        elif self._jwt is not None:
            await self._step_jwks(self._jwt, 0.0)

    async def run(self) -> None:
        """Look for changes until cancelled; an issuer that takes its time holds up no withdrawn key."""
        await asyncio.gather(self._watch_files(), self._watch_jwks())

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self.step()

    async def _watch_jwks(self) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        while self._jwt is not None:
            await asyncio.sleep(WATCH_SECONDS)
            await self._step_jwks(self._jwt, clock() - began)

    def step(self) -> None:
        """Read what changed."""
        stamps = self._files.stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            access, ring, salt_key = self._files.read()
        except HypertierError as error:
            self._gate.counts.reloads["access", "failed"] += 1
            self._seen = () if was_unread(error) else stamps
            self._complaint.failed("keeping the keys and limits in use", error, stamps)
            return
        self._gate.use(access, ring, salt_key)
        self._gate.counts.reloads["access", "good"] += 1
        self._complaint.mended("keys and limits can be used again")
        log.info("keys and limits read anew: %d keys", len(ring))
        if access.jwt != self._jwt:
            log.warning("access.jwt changed: that takes a restart")
        if _queue_size(access) != self._queue_size:
            log.warning("access.queue came, went or changed its size: that takes a restart")

    async def _step_jwks(self, jwt: Jwt, now: float) -> None:
        """Fetch where it is time to; `now` is in seconds since the start."""
        changed = not jwt.jwks_is_url and stamp(jwt.jwks) != self._jwks_stamp
        if now < self._jwks_due and not changed:
            return
        self._jwks_due = now + JWKS_SECONDS
        self._jwks_soonest = now + MIN_JWKS_SECONDS
        try:
            await self._fetch(jwt)
            self._gate.counts.reloads["jwks", "good"] += 1
            self._jwks_complaint.mended("the keys of JWTs can be read again")
        except JwksError as error:
            self._jwks_due = self._jwks_soonest
            self._gate.counts.reloads["jwks", "failed"] += 1
            self._jwks_complaint.failed("keeping the keys of JWTs in use", error)

    async def _fetch(self, jwt: Jwt) -> None:
        from hypertier.router.access import jwks

        def fetch() -> tuple[bytes, SigningKeys]:
            text = jwks.read(jwt.jwks)
            return text, jwks.parse(text, jwt.algorithms)

        self._jwks_stamp = None if jwt.jwks_is_url else stamp(jwt.jwks)
        text, found = await asyncio.to_thread(fetch)
        if text != self._jwks_text and self._gate.verifier is not None:
            self._jwks_text = text
            self._gate.verifier.use(found)

    def _want_jwks(self) -> None:
        """A token names a key that is not known: look sooner, but not more often than allowed."""
        self._jwks_due = min(self._jwks_due, self._jwks_soonest)


def _queue_size(access: Access) -> int | None:
    return access.queue.size if access.queue else None


def _read(setting: str, path: str, max_bytes: int) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ConfigError(setting, path, f"a file that can be read ({error.strerror})") from error
    if len(data) > max_bytes:
        raise ConfigError(setting, path, f"a file of at most {max_bytes} bytes")
    return data


def read_salt_key(path: str) -> bytes:
    """The key of `--salt-key`, from its file."""
    try:
        key = base64.b64decode(_read("--salt-key", path, 4096).strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != SALT_KEY_BYTES:
        raise ConfigError("--salt-key", path, SALT_KEY_FORM)
    return key
