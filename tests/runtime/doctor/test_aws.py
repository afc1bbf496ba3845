"""Questions are put as AWS's own models have them, and its errors are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from botocore.validate import ParamValidator
from doctor_faults import existing, new
from fakes_account import DEPLOYMENTS, Account, verdicts
from fakes_moto import ACCOUNT, REGION, aws_environment, moto_server

from hypertier.doctor.aws import Aws, answer_of
from hypertier.doctor.check import Question, question
from hypertier.doctor.running import Refused
from hypertier.errors import CredentialsError

MODELS = botocore.session.get_session()


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty moto that the environment names to everybody."""
    with moto_server() as url:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        yield


def every_question() -> set[Question]:
    """Every question of every deployment and fault, with what it is answered."""
    asked: set[Question] = set()
    worlds: list[tuple[str, Any]] = [(name, {}) for name in DEPLOYMENTS]
    worlds += [(fault.deployment, fault.changes) for fault in {**new.FAULTS, **existing.FAULTS}.values()]
    for name, changes in worlds:
        deployment = DEPLOYMENTS[name]()
        account = Account(deployment, changes)
        verdicts(deployment, account)
        asked.update(account.asked)
    return asked


def model_of(found: Question) -> Any:
    return MODELS.get_service_model(found.service).operation_model(found.operation)


@pytest.mark.parametrize("found", sorted(every_question(), key=str), ids=lambda found: found.action)
def test_a_question_is_one_that_botocore_s_model_has(found: Question) -> None:
    model = model_of(found)

    faults = ParamValidator().validate(found.parameters, model.input_shape)

    assert not faults.has_errors(), faults.generate_report()
    assert model.name.startswith(("Describe", "Get", "List"))


def test_the_edge_hands_on_answers_as_the_models_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Stubber refuses an answer that has a member which the model has not."""
    for name, value in aws_environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Aws, "_who", lambda self: ACCOUNT)
    aws = Aws(REGION)
    accounts = [Account(DEPLOYMENTS[name]()) for name in DEPLOYMENTS]
    for account, name in zip(accounts, DEPLOYMENTS, strict=True):
        verdicts(DEPLOYMENTS[name](), account)
        for found in dict.fromkeys(account.asked):
            said = account.ask(found)
            with Stubber(aws._client(found.service, found.region or REGION)) as stubber:
                if said is None:
                    stubber.add_client_error(xform_name(found.operation), "ResourceNotFoundException")
                else:
                    assert isinstance(said, dict)
                    stubber.add_response(xform_name(found.operation), said, found.parameters)

                answer = aws.ask(found)

            assert answer == said


CODES = {
    "AccessDenied": True,
    "AccessDeniedException": True,
    "UnauthorizedOperation": True,
    "AuthorizationError": True,
    "NotAuthorized": True,
    "ThrottlingException": False,
    "UnrecognizedClientException": False,
    "OptInRequired": False,
    "InternalFailure": False,
}
MISSING = (
    "ResourceNotFound",
    "ResourceNotFoundException",
    "NotFoundException",
    "NoSuchResourceException",
    "ParameterNotFound",
    "InvalidVpcID.NotFound",
    "ReplicationGroupNotFoundFault",
)


def error(code: str, message: str = "told") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "DescribeIt")


@pytest.mark.parametrize(("code", "denied"), CODES.items(), ids=CODES)
def test_a_denial_is_told_apart_from_other_trouble(code: str, denied: bool) -> None:
    answer = answer_of(error(code))

    assert isinstance(answer, Refused)
    assert answer.denied is denied
    assert "told" in answer.cause


@pytest.mark.parametrize("code", MISSING)
def test_what_is_not_there_is_an_answer(code: str) -> None:
    assert answer_of(error(code)) is None


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ValidationError", "Stack with id reference-network does not exist"),
        ("ValidationException", "Could not find cluster with name 'reference'."),
    ],
)
def test_what_is_not_there_may_be_told_in_words(code: str, message: str) -> None:
    assert answer_of(error(code, message)) is None
    assert isinstance(answer_of(error(code, "1 validation error detected")), Refused)


def test_without_credentials_it_is_said_how_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")

    with pytest.raises(CredentialsError, match=r"Unable to locate credentials; expected .* aws sso login"):
        Aws(REGION)


def test_credentials_that_aws_refuses_are_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, service: str, region: str) -> Any:
        client = boto3.client("sts", region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")
        stubber = Stubber(client)
        stubber.add_client_error("get_caller_identity", "ExpiredToken", "The security token has expired")
        stubber.activate()
        return client

    monkeypatch.setattr(Aws, "_client", refuse)

    with pytest.raises(CredentialsError, match=r"does not take the credentials: .*has expired"):
        Aws(REGION)


def test_an_address_that_does_not_answer_is_no_failure(monkeypatch: pytest.MonkeyPatch, moto: None) -> None:
    aws = Aws(REGION)
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:9")
    monkeypatch.setattr("hypertier.doctor.aws.CONFIG", {"retries": {"total_max_attempts": 1}})

    answer = aws.ask(question("ec2", "DescribeVpcs"))

    assert isinstance(answer, Refused)
    assert not answer.denied
    assert "127.0.0.1:9" in answer.cause


def test_moto_knows_whose_credentials_they_are(moto: None) -> None:
    assert Aws(REGION).account == ACCOUNT


def test_all_pages_of_an_answer_come_as_one(moto: None) -> None:
    ssm = boto3.client("secretsmanager", region_name=REGION)
    names = {f"secret-{number}" for number in range(130)}
    for name in sorted(names):
        ssm.create_secret(Name=name, SecretString="value")

    said = Aws(REGION).ask(question("secretsmanager", "ListSecrets", MaxResults=50))

    assert said is not None
    assert not isinstance(said, Refused)
    assert {entry["Name"] for entry in said["SecretList"]} == names


def test_where_the_first_page_is_enough_no_other_is_asked_for(moto: None) -> None:
    s3 = boto3.client("s3", region_name=REGION)
    s3.create_bucket(Bucket="weights", CreateBucketConfiguration={"LocationConstraint": REGION})
    for number in range(3):
        s3.put_object(Bucket="weights", Key=f"llama/{number}", Body=b"")

    asked = {"Bucket": "weights", "Prefix": "llama", "MaxKeys": 1}
    said = Aws(REGION).ask(question("s3", "ListObjectsV2", first_page=True, **asked))
    none = Aws(REGION).ask(question("s3", "ListObjectsV2", first_page=True, **asked | {"Bucket": "none"}))

    assert isinstance(said, dict)
    assert said["KeyCount"] == 1
    assert none is None


def test_a_secret_of_another_region_is_asked_for_there(moto: None) -> None:
    arn = boto3.client("secretsmanager", region_name="eu-west-1").create_secret(Name="far", SecretString="x")[
        "ARN"
    ]
    aws = Aws(REGION)

    here = aws.ask(question("secretsmanager", "DescribeSecret", SecretId=arn))
    there = aws.ask(question("secretsmanager", "DescribeSecret", region="eu-west-1", SecretId=arn))

    assert here is None
    assert isinstance(there, dict)
    assert there["Name"] == "far"
    assert "SecretString" not in there
