"""CloudFormation's API over the emulator, as boto3 speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from fakes_moto import REGION

from hypertier_cdk.testing import CloudFormationServer, Emulator

QUEUE = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Ref": "Name"}}}
ODD = {"Type": "Custom::Odd", "Properties": {"ServiceToken": "nobody"}}
TEMPLATE: dict[str, Any] = {
    "Parameters": {"Name": {"Type": "String", "Default": "first"}},
    "Resources": {"Queue": QUEUE},
    "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}}},
}
YAML = """
Conditions:
  Here: !Equals [!Ref AWS::Region, us-west-2]
Resources:
  Queue:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Sub "${AWS::Region}-queue"
Outputs:
  Name:
    Condition: Here
    Value: !GetAtt Queue.QueueName
  Elsewhere:
    Condition: Nowhere
    Value: nothing
""".replace("  Here:", "  Nowhere: !Not [!Condition Here]\n  Here:")


@pytest.fixture
def emulator() -> Emulator:
    return Emulator(region=REGION)


@pytest.fixture
def objects() -> dict[tuple[str, str], bytes]:
    return {}


@pytest.fixture
def client(emulator: Emulator, objects: dict[tuple[str, str], bytes]) -> Iterator[Any]:
    with CloudFormationServer(emulator, lambda bucket, key: objects[bucket, key]) as server:
        yield boto3.client(
            "cloudformation",
            endpoint_url=server.url,
            region_name=REGION,
            aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
            aws_secret_access_key="a-key-of-no-account",
        )


def deploy(client: Any, template: Any = TEMPLATE, kind: str = "CREATE", **settings: Any) -> None:
    body = template if isinstance(template, str) else json.dumps(template)
    source = {} if "TemplateURL" in settings else {"TemplateBody": body}
    client.create_change_set(
        StackName="Mine", ChangeSetName="change", ChangeSetType=kind, **source, **settings
    )
    client.execute_change_set(StackName="Mine", ChangeSetName="change")


def the_stack(client: Any) -> dict[str, Any]:
    (stack,) = client.describe_stacks(StackName="Mine")["Stacks"]
    found: dict[str, Any] = stack
    return found


def test_a_change_set_is_described_then_executed(client: Any, emulator: Emulator) -> None:
    client.create_change_set(
        StackName="Mine", ChangeSetName="change", ChangeSetType="CREATE", TemplateBody=json.dumps(TEMPLATE)
    )
    described = client.describe_change_set(StackName="Mine", ChangeSetName="change")
    before = the_stack(client)["StackStatus"]

    client.execute_change_set(StackName="Mine", ChangeSetName="change")

    assert (described["Status"], described["ExecutionStatus"]) == ("CREATE_COMPLETE", "AVAILABLE")
    assert [change["ResourceChange"]["LogicalResourceId"] for change in described["Changes"]] == ["Queue"]
    assert before == "REVIEW_IN_PROGRESS"
    assert the_stack(client)["StackStatus"] == "CREATE_COMPLETE"
    assert the_stack(client)["Outputs"] == [
        {"OutputKey": "Arn", "OutputValue": "arn:aws:sqs:us-west-2:123456789012:first"}
    ]
    assert [event.logical_id for event in emulator.events] == ["Queue"]


def test_a_change_set_without_changes_says_so(client: Any) -> None:
    deploy(client)

    client.create_change_set(
        StackName="Mine", ChangeSetName="again", ChangeSetType="UPDATE", TemplateBody=json.dumps(TEMPLATE)
    )

    described = client.describe_change_set(StackName="Mine", ChangeSetName="again")
    assert described["Status"] == "FAILED"
    assert "didn't contain changes" in described["StatusReason"]


def test_parameters_keep_their_value_when_asked_to(client: Any, emulator: Emulator) -> None:
    deploy(client, Parameters=[{"ParameterKey": "Name", "ParameterValue": "second"}])

    changed = TEMPLATE | {"Outputs": {}}
    deploy(client, changed, "UPDATE", Parameters=[{"ParameterKey": "Name", "UsePreviousValue": True}])

    ((queue, _),) = emulator.resources("AWS::SQS::Queue")
    assert queue.properties["QueueName"] == "second"
    assert the_stack(client)["StackStatus"] == "UPDATE_COMPLETE"


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://127.0.0.1:5000/assets/a%20b.json", id="the bucket in the path"),
        pytest.param("https://assets.s3.us-west-2.amazonaws.com/a%20b.json", id="the bucket in the host"),
    ],
)
def test_a_template_is_read_from_s3(client: Any, objects: dict[tuple[str, str], bytes], url: str) -> None:
    objects["assets", "a b.json"] = json.dumps(TEMPLATE).encode()

    deploy(client, TemplateURL=url)

    assert json.loads(json.dumps(client.get_template(StackName="Mine")["TemplateBody"])) == TEMPLATE


def test_a_template_may_be_yaml_in_short_form(client: Any) -> None:
    deploy(client, YAML)

    assert the_stack(client)["Outputs"] == [{"OutputKey": "Name", "OutputValue": "us-west-2-queue"}]


def test_events_tell_every_step_the_last_one_first(client: Any) -> None:
    deploy(client)

    events = client.describe_stack_events(StackName="Mine")["StackEvents"]

    assert [(event["LogicalResourceId"], event["ResourceStatus"]) for event in events] == [
        ("Mine", "CREATE_COMPLETE"),
        ("Queue", "CREATE_COMPLETE"),
        ("Mine", "CREATE_IN_PROGRESS"),
    ]


def test_resources_are_listed(client: Any) -> None:
    deploy(client)

    (resource,) = client.list_stack_resources(StackName="Mine")["StackResourceSummaries"]

    assert (resource["LogicalResourceId"], resource["ResourceType"]) == ("Queue", "AWS::SQS::Queue")
    assert resource["PhysicalResourceId"].endswith("/first")


def test_a_stack_that_cannot_be_made_is_rolled_back_and_says_why(client: Any) -> None:
    deploy(client, {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}, "Odd": ODD}})

    events = client.describe_stack_events(StackName="Mine")["StackEvents"]

    stack = the_stack(client)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "CREATE of Odd: there is no function nobody" in stack["StackStatusReason"]
    assert [(event["LogicalResourceId"], event["ResourceStatus"]) for event in reversed(events)] == [
        ("Mine", "CREATE_IN_PROGRESS"),
        ("Queue", "CREATE_COMPLETE"),
        ("Odd", "CREATE_FAILED"),
        ("Mine", "ROLLBACK_IN_PROGRESS"),
        ("Queue", "DELETE_COMPLETE"),
        ("Mine", "ROLLBACK_COMPLETE"),
    ]
    told = {(event["LogicalResourceId"], event["ResourceStatus"]): event for event in events}
    assert "no function nobody" in told["Odd", "CREATE_FAILED"]["ResourceStatusReason"]
    assert "[Odd]" in told["Mine", "ROLLBACK_IN_PROGRESS"]["ResourceStatusReason"]


def test_a_type_that_is_not_known_rolls_the_stack_back_with_its_reason(client: Any) -> None:
    deploy(client, {"Resources": {"Arm": {"Type": "AWS::Robots::Arm"}}})

    stack = the_stack(client)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "AWS::Robots::Arm, which the emulator does not know" in stack["StackStatusReason"]


def test_an_update_that_fails_leaves_the_stack_as_it_was(client: Any) -> None:
    deploy(client)

    deploy(client, {**TEMPLATE, "Resources": {"Queue": QUEUE, "Odd": ODD}}, "UPDATE")

    assert the_stack(client)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    resources = client.list_stack_resources(StackName="Mine")["StackResourceSummaries"]
    assert [resource["LogicalResourceId"] for resource in resources] == ["Queue"]


def test_without_rollback_what_was_made_stays(client: Any, emulator: Emulator) -> None:
    client.create_change_set(
        StackName="Mine",
        ChangeSetName="change",
        ChangeSetType="CREATE",
        TemplateBody=json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}, "Odd": ODD}}),
    )

    client.execute_change_set(StackName="Mine", ChangeSetName="change", DisableRollback=True)

    assert the_stack(client)["StackStatus"] == "CREATE_FAILED"
    assert [resource.logical_id for resource, _ in emulator.all_resources()] == ["Queue"]


def test_a_stack_that_was_rolled_back_can_be_deleted_and_made_anew(client: Any) -> None:
    deploy(client, {"Resources": {"Odd": ODD}})

    client.delete_stack(StackName="Mine")
    deploy(client)

    assert the_stack(client)["StackStatus"] == "CREATE_COMPLETE"


def test_a_deleted_stack_is_known_by_its_id_alone(client: Any, emulator: Emulator) -> None:
    deploy(client)
    stack_id = the_stack(client)["StackId"]

    client.delete_stack(StackName="Mine")

    (gone,) = client.describe_stacks(StackName=stack_id)["Stacks"]
    assert gone["StackStatus"] == "DELETE_COMPLETE"
    assert emulator.resources("AWS::SQS::Queue") == []
    with pytest.raises(ClientError, match="Stack with id Mine does not exist"):
        client.describe_stacks(StackName="Mine")


def test_deleting_what_is_not_there_is_done(client: Any) -> None:
    client.delete_stack(StackName="Nobody")

    assert client.describe_stacks()["Stacks"] == []


def test_a_change_set_can_be_given_up(client: Any) -> None:
    client.create_change_set(
        StackName="Mine", ChangeSetName="change", ChangeSetType="CREATE", TemplateBody=json.dumps(TEMPLATE)
    )

    client.delete_change_set(StackName="Mine", ChangeSetName="change")

    with pytest.raises(ClientError) as refused:
        client.execute_change_set(StackName="Mine", ChangeSetName="change")
    assert refused.value.response["Error"]["Code"] == "ChangeSetNotFound"


def test_a_call_that_is_not_known_is_refused_by_its_name(client: Any) -> None:
    with pytest.raises(ClientError, match="ListTypes is not known to the emulator"):
        client.list_types()
