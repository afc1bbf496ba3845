"""The master key that chunks are encrypted under: from the environment, Secrets Manager, or KMS."""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Callable, Mapping

from hypertier.errors import ConfigError, TierUnavailableError
from hypertier.tier.credentials import aws_client, check_secret_arn, fetch_secret

KEY_VARIABLE = "HYPERTIER_L2_KEY"
KEY_SECRET_VARIABLE = "HYPERTIER_L2_KEY_SECRET_ARN"
KEY_CIPHERTEXT_VARIABLE = "HYPERTIER_L2_KEY_CIPHERTEXT"
VARIABLES = (KEY_VARIABLE, KEY_SECRET_VARIABLE, KEY_CIPHERTEXT_VARIABLE)
KEY_BYTES = 32
RETRY_SECONDS = 1.0  # from a failure on: threads that waited for it would each wait as long again
EXPECTED = "32 random bytes in base64, as of `openssl rand -base64 32`"

KeySource = Callable[[], bytes]


class FetchedKey:
    """A key that AWS keeps, fetched when first needed, once. Used by many threads."""

    def __init__(
        self, variable: str, fetch: Callable[[], str | bytes], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._variable = variable
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._key: bytes | None = None
        self._problem = ""
        self._retry_at = float("-inf")

    def __call__(self) -> bytes:
        """Return the key. Errors of the AWS client pass through.

        Raises:
            TierUnavailableError: AWS keeps something else there, or failed within the last `RETRY_SECONDS`;
                the message does not repeat what it keeps.
        """
        with self._lock:
            if self._key is None:
                if self._clock() < self._retry_at:
                    raise TierUnavailableError(f"{self._variable}, a moment ago: {self._problem}")
                try:
                    self._key = self._fetched()
                except Exception as error:
                    self._problem, self._retry_at = str(error), self._clock() + RETRY_SECONDS
                    raise
            return self._key

    def _fetched(self) -> bytes:
        found = self._fetch()
        key = decode(found) if isinstance(found, str) else found
        if key is None or len(key) != KEY_BYTES:
            raise TierUnavailableError(f"what {self._variable} stands for is not {EXPECTED}")
        return key


def key_source(environ: Mapping[str, str]) -> KeySource | None:
    """Where the key comes from, None where nothing is to be encrypted. AWS is not asked yet.

    Raises:
        ConfigError: a variable that cannot work, or several of them; the message repeats no key.
    """
    given = [name for name in VARIABLES if environ.get(name)]
    if not given:
        return None
    if len(given) > 1:
        raise ConfigError(given[1], "***", f"nothing beside {given[0]}: there is one key")
    name, text = given[0], environ[given[0]]
    if name == KEY_SECRET_VARIABLE:
        check_secret_arn(name, text)
        return FetchedKey(name, lambda: fetch_secret(text, name))
    decoded = decode(text)
    if name == KEY_VARIABLE:
        if decoded is None or len(decoded) != KEY_BYTES:
            raise ConfigError(name, "***", EXPECTED)
        return lambda key=decoded: key  # type: ignore[misc]
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if not decoded:
        raise ConfigError(name, "***", "the CiphertextBlob of a data key of KMS, in base64")
    if not region:
        raise ConfigError("AWS_REGION", "", f"the region of the key of KMS beside {name}")
    return FetchedKey(name, lambda: decrypt_by_kms(decoded, region))


def decode(text: str) -> bytes | None:
    """The bytes that a text stands for, None where it is no base64."""
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None


def decrypt_by_kms(ciphertext: bytes, region: str) -> bytes:
    """Have KMS open a data key, with the role of the pod. Errors of the AWS client pass through.

    https://docs.aws.amazon.com/kms/latest/APIReference/API_Decrypt.html (read 2026-12-02)
    """
    client = aws_client("kms", region, KEY_CIPHERTEXT_VARIABLE)
    return bytes(client.decrypt(CiphertextBlob=ciphertext)["Plaintext"])
