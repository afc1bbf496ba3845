"""Who the tier is to L2: a user and a password, from the environment or from AWS Secrets Manager."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hypertier.errors import ConfigError, MissingPackageError, TierUnavailableError

USERNAME_VARIABLE = "HYPERTIER_L2_USERNAME"
PASSWORD_VARIABLE = "HYPERTIER_L2_PASSWORD"
SECRET_VARIABLE = "HYPERTIER_L2_SECRET_ARN"


@dataclass(frozen=True)
class Credentials:
    """What `AUTH` is given; without a username it is the `default` user. The password is not in the repr."""

    password: str = field(repr=False)
    username: str | None = None


class CredentialSource(Protocol):
    """Gives credentials for a new connection."""

    def get(self) -> Credentials | None:
        """Return the credentials, or None where L2 asks for none."""
        ...

    def forget(self) -> None:
        """L2 refused them: the next `get` must not answer from memory."""
        ...


class FixedCredentials:
    """The same credentials, or none, forever."""

    def __init__(self, credentials: Credentials | None = None) -> None:
        self._credentials = credentials

    def get(self) -> Credentials | None:
        """Return the credentials."""
        return self._credentials

    def forget(self) -> None:
        """Do nothing: there is no other source to ask."""


class SecretCredentials:
    """Credentials from a secret `{"username": ..., "password": ...}`, fetched when first needed.

    Fetched again after L2 refused them, so a rotated secret is found.
    """

    def __init__(self, secret_arn: str, fetch: Callable[[str], str]) -> None:
        self._secret_arn = secret_arn
        self._fetch = fetch
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None

    def get(self) -> Credentials | None:
        """Return the credentials; asks Secrets Manager when none are remembered.

        Raises:
            TierUnavailableError: the secret holds something else. Errors of the AWS client pass through.
        """
        with self._lock:
            if self._credentials is None:
                self._credentials = parse_secret(self._fetch(self._secret_arn))
            return self._credentials

    def forget(self) -> None:
        """Fetch the secret anew at the next `get`."""
        with self._lock:
            self._credentials = None


def parse_secret(text: str) -> Credentials:
    """Read the secret's JSON. The error never repeats it."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("password"), str):
        raise TierUnavailableError(
            f'the secret of {SECRET_VARIABLE} is not {{"username": ..., "password": ...}}'
        )
    username = content.get("username")
    return Credentials(content["password"], username if isinstance(username, str) else None)


def fetch_secret(secret_arn: str) -> str:
    """Read the secret's current value with the role of the pod."""
    try:
        import boto3
    except ImportError as error:
        raise MissingPackageError(SECRET_VARIABLE, "boto3", "engine") from error
    region = secret_arn.split(":")[3]
    client = boto3.client("secretsmanager", region_name=region)
    return str(client.get_secret_value(SecretId=secret_arn)["SecretString"])


def credential_source(environ: Mapping[str, str]) -> CredentialSource:
    """Choose the source: username and password first, then the secret, else none.

    Raises:
        ConfigError: a username without a password, or an ARN that is not one of Secrets Manager.
    """
    password, username = environ.get(PASSWORD_VARIABLE), environ.get(USERNAME_VARIABLE)
    if password:
        return FixedCredentials(Credentials(password, username or None))
    if username:
        raise ConfigError(PASSWORD_VARIABLE, password or "", f"a password beside {USERNAME_VARIABLE}")
    secret_arn = environ.get(SECRET_VARIABLE)
    if not secret_arn:
        return FixedCredentials()
    if secret_arn.split(":")[:1] != ["arn"] or secret_arn.split(":")[2:3] != ["secretsmanager"]:
        raise ConfigError(SECRET_VARIABLE, secret_arn, "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
    return SecretCredentials(secret_arn, fetch_secret)
