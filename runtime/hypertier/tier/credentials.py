"""Who the tier is to L2: a user and a password, by the environment or Secrets Manager, or a token of IAM."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from urllib.parse import urlencode

from hypertier.errors import ConfigError, MissingPackageError, TierUnavailableError
from hypertier.tier.asking import Asker

USERNAME_VARIABLE = "HYPERTIER_L2_USERNAME"
PASSWORD_VARIABLE = "HYPERTIER_L2_PASSWORD"
SECRET_VARIABLE = "HYPERTIER_L2_SECRET_ARN"
IAM_VARIABLE = "HYPERTIER_L2_IAM_CACHE"
TOKEN_SECONDS = 900
AWS_SECONDS = 2.0
AWS_ATTEMPTS = 2
SERVERLESS = re.compile(r"\.serverless\.[a-z0-9-]+\.cache\.amazonaws\.com(\.cn)?$")
"""What the address of a serverless cache ends with."""
_CACHE_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


@dataclass(frozen=True)
class Credentials:
    """What `AUTH` is given; without a username it is the `default` user. The password is not in the repr."""

    password: str = field(repr=False)
    username: str | None = None


class CredentialSource(Protocol):
    """Gives credentials for a new connection."""

    def get(self, timeout_seconds: float) -> Credentials | None:
        """Return the credentials, or None where L2 asks for none.

        Raises:
            TierUnavailableError: they can't be had, or not in time.
        """
        ...

    def forget(self) -> None:
        """L2 refused them: the next `get` must not answer from memory."""
        ...


class FixedCredentials:
    """The same credentials, or none, forever."""

    def __init__(self, credentials: Credentials | None = None) -> None:
        self._credentials = credentials

    def get(self, timeout_seconds: float) -> Credentials | None:
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
        self._asker = Asker(f"the secret of {SECRET_VARIABLE}", self._ask)
        self._credentials: Credentials | None = None

    def get(self, timeout_seconds: float) -> Credentials | None:
        """Return the credentials; asks Secrets Manager when none are remembered.

        Raises:
            TierUnavailableError: Secrets Manager fails, is slow, or keeps something else there.
        """
        return self._credentials or self._asker.answer(timeout_seconds)

    def forget(self) -> None:
        """Fetch the secret anew at the next `get`."""
        self._credentials = None

    def _ask(self) -> Credentials:
        self._credentials = found = parse_secret(self._fetch(self._secret_arn))
        return found


class IamCredentials:
    """A token in place of a password: a signed request to ElastiCache, good for 15 minutes.

    Each connection gets a fresh one: ElastiCache ends connections after 12 hours. Signing asks nobody, but
    the pod's role must be had first, which asks AWS now and then.
    """

    def __init__(
        self, user: str, cache: str, sign: Callable[[str], str], *, is_serverless: bool = False
    ) -> None:
        self._user = user
        query = {"Action": "connect", "User": user}
        if is_serverless:
            query["ResourceType"] = "ServerlessCache"
        self._url = f"https://{cache}/?{urlencode(query)}"
        self._asker = Asker(f"the role of {IAM_VARIABLE}", lambda: sign(self._url))

    def get(self, timeout_seconds: float) -> Credentials | None:
        """Sign a token."""
        return Credentials(self._asker.answer(timeout_seconds).removeprefix("https://"), self._user)

    def forget(self) -> None:
        """Do nothing: every token is new."""


class Signer:
    """Signs requests to connect, with the role of the pod, which it keeps. Used by one thread at a time.

    https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/auth-iam.html (read 2026-12-01)
    """

    def __init__(self, region: str) -> None:
        self._region = region
        self._session: Any = None

    def __call__(self, url: str) -> str:
        """Sign `url`. Errors of the AWS client pass through."""
        try:
            import botocore.session
            from botocore.model import ServiceId
            from botocore.signers import RequestSigner
        except ImportError as error:
            raise MissingPackageError(IAM_VARIABLE, "boto3", "engine") from error
        if self._session is None:
            self._session = botocore.session.get_session()
            self._session.set_default_client_config(client_config())  # of STS, where the role comes from it
        session = self._session
        credentials = session.get_credentials()
        if credentials is None:
            raise TierUnavailableError(f"{IAM_VARIABLE} is set, but this pod has no role of AWS to sign with")
        emitter = session.get_component("event_emitter")
        signer = RequestSigner(
            ServiceId("elasticache"), self._region, "elasticache", "v4", credentials, emitter
        )
        request = {"method": "GET", "url": url, "body": {}, "headers": {}, "context": {}}
        return str(
            signer.generate_presigned_url(
                request, operation_name="connect", expires_in=TOKEN_SECONDS, region_name=self._region
            )
        )


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


def fetch_secret(secret_arn: str, variable: str = SECRET_VARIABLE) -> str:
    """Read the secret's current value with the role of the pod. Errors of the AWS client pass through.

    Raises:
        TierUnavailableError: the secret that `variable` names holds bytes.
    """
    client = aws_client("secretsmanager", secret_arn.split(":")[3], variable)
    found = client.get_secret_value(SecretId=secret_arn)
    if "SecretString" not in found:
        raise TierUnavailableError(f"the secret of {variable} holds bytes; expected text, its SecretString")
    return str(found["SecretString"])


def aws_client(service: Literal["secretsmanager", "kms"], region: str, needed_for: str) -> Any:
    """A client that gives up soon: connections wait for it, and with them what is to be moved."""
    try:
        import boto3
    except ImportError as error:
        raise MissingPackageError(needed_for, "boto3", "engine") from error
    return boto3.client(service, region_name=region, config=client_config())


def client_config() -> Any:
    """Time limits of calls to AWS."""
    from botocore.config import Config

    return Config(
        connect_timeout=AWS_SECONDS, read_timeout=AWS_SECONDS, retries={"total_max_attempts": AWS_ATTEMPTS}
    )


def credential_source(environ: Mapping[str, str], host: str = "") -> CredentialSource:
    """Choose the source: username and password first, then a token of IAM, then the secret, else none.

    A token for a serverless cache, which `host` tells from a replication group, is signed as one.

    Raises:
        ConfigError: a username without a password, a cache without a username or a region, or an ARN that is
            not one of Secrets Manager.
    """
    password, username = environ.get(PASSWORD_VARIABLE), environ.get(USERNAME_VARIABLE)
    if password:
        return FixedCredentials(Credentials(password, username or None))
    cache = environ.get(IAM_VARIABLE)
    if cache:
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
        if not username:
            raise ConfigError(USERNAME_VARIABLE, "", f"the user of ElastiCache beside {IAM_VARIABLE}")
        if not region:
            raise ConfigError("AWS_REGION", "", f"the region of the cache beside {IAM_VARIABLE}")
        if not _CACHE_NAME.fullmatch(cache):
            raise ConfigError(
                IAM_VARIABLE, cache, "the name of a replication group or serverless cache, in small letters"
            )
        is_serverless = SERVERLESS.search(host) is not None
        return IamCredentials(username, cache, Signer(region), is_serverless=is_serverless)
    if username:
        raise ConfigError(PASSWORD_VARIABLE, password or "", f"a password beside {USERNAME_VARIABLE}")
    secret_arn = environ.get(SECRET_VARIABLE)
    if not secret_arn:
        return FixedCredentials()
    check_secret_arn(SECRET_VARIABLE, secret_arn)
    return SecretCredentials(secret_arn, fetch_secret)


def check_secret_arn(variable: str, text: str) -> None:
    """Refuse what names no secret of Secrets Manager.

    Raises:
        ConfigError: names `variable`.
    """
    parts = text.split(":")
    if len(parts) < 7 or parts[0] != "arn" or parts[2] != "secretsmanager":
        raise ConfigError(variable, text, "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
