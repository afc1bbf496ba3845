"""Credentials come from the environment or a secret, and never show."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

import pytest

from hypertier.errors import ConfigError, TierUnavailableError
from hypertier.tier.credentials import (
    Credentials,
    IamCredentials,
    SecretCredentials,
    aws_client,
    client_config,
    credential_source,
    parse_secret,
)
from hypertier.tier.mover_process import SILENCE_SECONDS

SECONDS = 20.0
IAM = {"HYPERTIER_L2_IAM_CACHE": "l2", "HYPERTIER_L2_USERNAME": "tier", "AWS_REGION": "us-west-2"}
ARN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:l2-AbCdEf"


def test_the_environment_goes_before_the_secret() -> None:
    environ = {
        "HYPERTIER_L2_USERNAME": "tier",
        "HYPERTIER_L2_PASSWORD": "hunter2",
        "HYPERTIER_L2_SECRET_ARN": ARN,
    }

    assert credential_source(environ).get(SECONDS) == Credentials("hunter2", "tier")


def test_without_any_setting_there_are_none() -> None:
    assert credential_source({}).get(SECONDS) is None


def test_a_secret_is_not_fetched_before_it_is_needed() -> None:
    source = credential_source({"HYPERTIER_L2_SECRET_ARN": ARN})

    assert isinstance(source, SecretCredentials)


@pytest.mark.parametrize(
    ("environ", "setting"),
    [
        ({"HYPERTIER_L2_USERNAME": "tier"}, "HYPERTIER_L2_PASSWORD"),
        ({"HYPERTIER_L2_IAM_CACHE": "l2", "AWS_REGION": "us-west-2"}, "HYPERTIER_L2_USERNAME"),
        ({"HYPERTIER_L2_IAM_CACHE": "l2", "HYPERTIER_L2_USERNAME": "tier"}, "AWS_REGION"),
        ({**IAM, "HYPERTIER_L2_IAM_CACHE": "L2.example.com"}, "HYPERTIER_L2_IAM_CACHE"),
        ({"HYPERTIER_L2_SECRET_ARN": "l2-secret"}, "HYPERTIER_L2_SECRET_ARN"),
        ({"HYPERTIER_L2_SECRET_ARN": "arn:aws:s3:::bucket"}, "HYPERTIER_L2_SECRET_ARN"),
    ],
    ids=["no password", "no user", "no region", "no name", "no arn", "another service"],
)
def test_what_cannot_work_is_one_clear_error(environ: dict[str, str], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        credential_source(environ)


@pytest.mark.parametrize(
    ("host", "resource_type"),
    [
        ("master.l2.abc123.usw2.cache.amazonaws.com", None),
        ("clustercfg.serverless.abc123.usw2.cache.amazonaws.com", None),
        ("", None),
        ("l2-abc123.serverless.usw2.cache.amazonaws.com", ["ServerlessCache"]),
        ("l2-abc123.public.serverless.usw2.cache.amazonaws.com", ["ServerlessCache"]),
        ("l2-abc123.serverless.cnn1.cache.amazonaws.com.cn", ["ServerlessCache"]),
    ],
)
def test_a_token_of_iam_is_a_signed_request_to_connect(
    monkeypatch: pytest.MonkeyPatch, host: str, resource_type: list[str] | None
) -> None:
    """To a serverless cache as one: what is signed can't be added behind the signature."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-real-key")

    credentials = credential_source(IAM, host).get(SECONDS)

    assert credentials is not None
    name, _, query = credentials.password.partition("/?")
    token = parse_qs(query)
    assert (credentials.username, name) == ("tier", "l2")
    assert (token["Action"], token["User"], token["X-Amz-Expires"]) == (["connect"], ["tier"], ["900"])
    assert token.get("ResourceType") == resource_type
    assert token["X-Amz-Credential"][0].endswith("/us-west-2/elasticache/aws4_request")
    assert "not-a-real-key" not in credentials.password


def test_every_connection_gets_a_token_of_its_own() -> None:
    signed: list[str] = []

    def sign(url: str) -> str:
        signed.append(url)
        return f"{url}&number={len(signed)}"

    source = IamCredentials("tier", "l2", sign)

    tokens = [credentials.password for _ in range(2) if (credentials := source.get(SECONDS))]

    assert tokens == [f"l2/?Action=connect&User=tier&number={i}" for i in (1, 2)]


def test_a_secret_is_fetched_once_and_again_after_a_refusal() -> None:
    fetched: list[str] = []

    def fetch(arn: str) -> str:
        fetched.append(arn)
        return f'{{"username": "tier", "password": "p{len(fetched)}"}}'

    source = SecretCredentials(ARN, fetch)
    first = [source.get(SECONDS), source.get(SECONDS)]
    source.forget()

    assert first == [Credentials("p1", "tier")] * 2
    assert source.get(SECONDS) == Credentials("p2", "tier")
    assert fetched == [ARN, ARN]


@pytest.mark.parametrize("text", ["hunter2", "[]", '{"username": "hunter2"}', '{"password": 7}', "{hunter2"])
def test_a_secret_of_another_form_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(TierUnavailableError) as refused:
        parse_secret(text)

    assert "hunter2" not in str(refused.value)


def test_a_secrets_manager_that_does_not_answer_holds_nothing_up_for_long() -> None:
    config = aws_client("secretsmanager", "us-west-2", "HYPERTIER_L2_SECRET_ARN").meta.config

    longest = (config.connect_timeout + config.read_timeout) * config.retries["total_max_attempts"]
    assert longest < SILENCE_SECONDS


def test_a_password_is_not_in_the_repr() -> None:
    assert "hunter2" not in repr(Credentials("hunter2", "tier"))


def test_the_role_of_the_pod_is_had_once_for_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    with MetadataService() as service:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", service.url)
        source = credential_source(IAM)

        for _ in range(5):
            source.get(SECONDS)

        assert service.num_asked == 1


def test_a_role_that_cannot_be_had_in_time_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with MetadataService(hangs=True) as service:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", service.url)
        source = credential_source(IAM)
        begin = time.monotonic()

        for _ in range(4):
            with pytest.raises(TierUnavailableError, match="HYPERTIER_L2_IAM_CACHE did not answer"):
                source.get(0.1)

        assert time.monotonic() - begin < SECONDS / 4


def test_sts_is_given_up_soon_where_the_role_comes_from_it() -> None:
    config = client_config()

    assert config.connect_timeout + config.read_timeout <= 5
    assert config.retries["total_max_attempts"] <= 2


class MetadataService:
    """Where a pod's role comes from on EKS."""

    def __init__(self, hangs: bool = False) -> None:
        self.num_asked = 0
        over, service = threading.Event(), self
        self._over = over

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.num_asked += 1
                over.wait(SECONDS if hangs else 0)
                expires = datetime.now(UTC) + timedelta(hours=6)
                role = {"AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "not-a-real-key", "Token": "t"}
                body = json.dumps(role | {"Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1/credentials"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(SECONDS)
