"""Puts questions to AWS by boto3, with the user's own credentials; nothing is ever changed."""

from __future__ import annotations

import re
from threading import Lock
from typing import Any

from hypertier.doctor.check import Question
from hypertier.doctor.running import Answer, Refused
from hypertier.errors import CredentialsError, MissingPackageError

try:
    import boto3
    from botocore import xform_name
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError
except ModuleNotFoundError as error:
    raise MissingPackageError("hypertier doctor", "boto3", "doctor") from error

DENIED = re.compile(r"AccessDenied|Unauthorized(Operation|Access)|NotAuthorized|AuthorizationError")
MISSING = re.compile(r"NotFound|NoSuch")
# CloudFormation has no code of its own for a stack that is not there, SageMaker none for most things.
MISSING_IN_WORDS = re.compile(r"does not exist|could not (be found|find)", re.IGNORECASE)
MAX_SHOWN = 200  # characters of what AWS says
# Retries outlast the throttling of Service Quotas, whose list for SageMaker has dozens of pages.
CONFIG: dict[str, Any] = {
    "connect_timeout": 5,
    "read_timeout": 20,
    "retries": {"total_max_attempts": 6, "mode": "standard"},
    "max_pool_connections": 32,
}
FIX = "expected credentials of the account to deploy into: aws sso login, AWS_PROFILE, or the environment"


class Aws:
    """AWS in one Region, as the credentials in boto3's usual places see it.

    Attributes:
        account: the account that they are of.

    Raises:
        CredentialsError: there are none, or they are no longer valid.
    """

    def __init__(self, region: str) -> None:
        self._region = region
        self._session: Any = boto3.Session(region_name=region)
        self._lock = Lock()
        self._clients: dict[tuple[str, str], Any] = {}
        self.account = self._who()

    def ask(self, question: Question) -> Answer:
        """What AWS says, all pages of it; None where there is no such thing."""
        method = xform_name(question.operation)
        try:
            client = self._client(question.service, question.region or self._region)
            if client.can_paginate(method) and not question.first_page:
                pages = client.get_paginator(method).paginate(**question.parameters)
                said: dict[str, Any] = pages.build_full_result()
                return said
            said = getattr(client, method)(**question.parameters)
        except ClientError as error:
            return answer_of(error)
        except BotoCoreError as error:
            return Refused(str(error)[:MAX_SHOWN])
        return said

    def _who(self) -> str:
        try:
            account: str = self._client("sts", self._region).get_caller_identity()["Account"]
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise CredentialsError(f"AWS can't be asked: {error}; {FIX}") from None
        except (BotoCoreError, ClientError) as error:
            raise CredentialsError(
                f"AWS does not take the credentials: {str(error)[:MAX_SHOWN]}; {FIX}"
            ) from None
        return account

    def _client(self, service: str, region: str) -> Any:
        with self._lock:  # making a client is not safe in threads, using one is
            if (service, region) not in self._clients:
                config = Config(**CONFIG)
                self._clients[service, region] = self._session.client(
                    service, region_name=region, config=config
                )
            return self._clients[service, region]


def answer_of(error: ClientError) -> Answer:
    """What an error of AWS's means: no such thing, no permission, or something else."""
    told = error.response.get("Error", {})
    code, message = str(told.get("Code", "")), str(told.get("Message", ""))
    if DENIED.search(code):
        return Refused(message[:MAX_SHOWN], denied=True)
    if MISSING.search(code) or (code.startswith("Validation") and MISSING_IN_WORDS.search(message)):
        return None
    return Refused(f"{code}: {message}"[:MAX_SHOWN])
