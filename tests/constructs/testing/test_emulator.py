"""What the emulator promises, on apps of a few resources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import custom_resources as cr
from fakes_assembly import Build, assembly, function

from hypertier.errors import ConfigError, DeploymentError
from hypertier_cdk.testing import Emulator, Made, Resource


def actions(emulator: Emulator, *types: str) -> list[tuple[str, str]]:
    return [(event.action, event.type) for event in emulator.events if event.type in types]


def test_a_type_that_is_not_known_is_refused_and_nothing_is_made() -> None:
    emulator = Emulator()
    folder = assembly(
        lambda stack: (sqs.Queue(stack, "Queue"), cdk.CfnResource(stack, "Odd", type="AWS::Robots::Arm"))
    )

    with pytest.raises(DeploymentError, match=r"Stack0: Odd is of type AWS::Robots::Arm"):
        emulator.deploy(folder)

    assert emulator.events == []


def test_a_type_can_be_added() -> None:
    class Arms:
        """Robots, as they are."""

        def __init__(self) -> None:
            self.existing: list[str] = []

        def create(self, resource: Resource) -> Made:
            self.existing.append(resource.logical_id)
            return Made("arm-1", {"Grip": f"strong in {resource.region}"})

        def update(self, resource: Resource, made: Made) -> Made:
            return made

        def delete(self, resource: Resource, made: Made) -> None:
            self.existing.remove(resource.logical_id)

    arms = Arms()
    emulator = Emulator(providers={"AWS::Robots::Arm": arms})

    def build(stack: cdk.Stack) -> None:
        arm = cdk.CfnResource(stack, "Arm", type="AWS::Robots::Arm")
        sqs.Queue(stack, "Queue", queue_name=f"{arm.ref}-{arm.get_att('Grip').to_string()}")

    emulator.deploy(assembly(build))

    ((queue, _),) = emulator.resources("AWS::SQS::Queue")
    assert queue.properties["QueueName"] == "arm-1-strong in us-west-2"
    assert arms.existing == ["Arm"]
    emulator.destroy()
    assert arms.existing == []


def test_an_attribute_that_is_not_known_is_refused() -> None:
    def build(stack: cdk.Stack) -> None:
        queue = cdk.CfnResource(stack, "Odd", type="AWS::SQS::Queue")
        sqs.Queue(stack, "Queue", queue_name=queue.get_att("Shine").to_string())

    with pytest.raises(DeploymentError, match=r"Odd \(AWS::SQS::Queue\) has no attribute Shine"):
        Emulator().deploy(assembly(build))


def test_things_are_deleted_in_the_reverse_of_the_order_they_were_made_in() -> None:
    emulator = Emulator()

    def first(stack: cdk.Stack) -> None:
        topic = sns.Topic(stack, "Topic")
        queue = sqs.Queue(stack, "Queue")
        queue.node.add_dependency(topic)

    emulator.deploy(assembly(first, lambda stack: sqs.Queue(stack, "Other")))
    made = list(emulator.events)
    emulator.destroy()

    deleted = emulator.events[len(made) :]
    assert [(event.stack, event.logical_id) for event in deleted] == [
        (event.stack, event.logical_id) for event in reversed(made)
    ]
    assert {event.action for event in deleted} == {"DELETE"}


def test_a_stack_reads_what_an_earlier_one_exports() -> None:
    app = cdk.App()
    earlier, later = cdk.Stack(app, "Earlier"), cdk.Stack(app, "Later")
    role = iam.Role(earlier, "Role", assumed_by=iam.AccountRootPrincipal())
    sqs.Queue(later, "Queue", queue_name=f"for-{role.role_name}")
    emulator = Emulator()

    emulator.deploy(app.synth().directory)

    ((_, made),) = emulator.resources("AWS::IAM::Role")
    ((queue, _),) = emulator.resources("AWS::SQS::Queue")
    assert queue.properties["QueueName"] == f"for-{made.ref}"


def test_deploying_the_same_again_does_nothing() -> None:
    emulator = Emulator()
    folder = assembly(lambda stack: sqs.Queue(stack, "Queue"))
    emulator.deploy(folder)
    before = list(emulator.events)

    emulator.deploy(folder)

    assert emulator.events == before


def test_an_update_makes_changes_and_deletes_what_it_takes() -> None:
    emulator = Emulator()
    emulator.deploy(assembly(lambda stack: (sqs.Queue(stack, "A", fifo=None), sns.Topic(stack, "Gone"))))

    emulator.deploy(
        assembly(
            lambda stack: (
                sqs.Queue(stack, "A", visibility_timeout=cdk.Duration.seconds(9)),
                iam.Role(stack, "New", assumed_by=iam.AccountRootPrincipal()),
            )
        )
    )

    types = ("AWS::SQS::Queue", "AWS::SNS::Topic", "AWS::IAM::Role")
    assert set(actions(emulator, *types)[2:]) == {
        ("UPDATE", "AWS::SQS::Queue"),
        ("CREATE", "AWS::IAM::Role"),
        ("DELETE", "AWS::SNS::Topic"),
    }
    assert emulator.events[-1].action == "DELETE"


def test_an_update_that_would_replace_a_vpc_is_refused() -> None:
    def build(cidr: str) -> Build:
        return lambda stack: ec2.CfnVPC(stack, "Vpc", cidr_block=cidr)

    emulator = Emulator()
    emulator.deploy(assembly(build("10.0.0.0/16")))

    with pytest.raises(ConfigError, match="CidrBlock"):
        emulator.deploy(assembly(build("10.1.0.0/16")))


def test_what_a_template_retains_is_left_behind_and_named() -> None:
    emulator = Emulator()
    emulator.deploy(assembly(lambda stack: s3.Bucket(stack, "Kept", removal_policy=cdk.RemovalPolicy.RETAIN)))

    emulator.destroy()

    assert [name for _, name in emulator.retained] == [emulator.events[0].logical_id]
    assert "DELETE" not in {event.action for event in emulator.events}


def test_a_function_s_code_runs_with_its_environment(code: Path) -> None:
    emulator = Emulator(environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    emulator.deploy(assembly(lambda stack: function(stack, code, environment={"MINE": "yes"})))

    answer = emulator.invoke("handler", {"a": 1})

    assert (answer["event"], answer["env"]) == ({"a": 1}, "yes")
    assert 0 < answer["left"] <= 3000


@pytest.mark.parametrize(
    ("event", "said"),
    [
        pytest.param({"fail": True}, "raised ValueError: as asked", id="it raises"),
        pytest.param({"exit": True}, "ended with 3", id="it ends"),
        pytest.param({}, "raised KeyError: 'MINE'", id="it misses a variable"),
    ],
)
def test_a_function_that_fails_says_how(code: Path, event: dict[str, Any], said: str) -> None:
    emulator = Emulator()
    emulator.deploy(assembly(lambda stack: function(stack, code)))

    with pytest.raises(DeploymentError, match=said):
        emulator.invoke("handler", event)


def test_a_function_that_does_not_exist_is_named() -> None:
    with pytest.raises(DeploymentError, match="there is no function nobody"):
        Emulator().invoke("nobody", {})


def test_a_function_in_another_language_is_refused_when_it_is_called(code: Path) -> None:
    emulator = Emulator()
    emulator.deploy(
        assembly(
            lambda stack: lambda_.Function(
                stack,
                "Node",
                function_name="node",
                runtime=lambda_.Runtime.NODEJS_22_X,
                handler="index.handler",
                code=lambda_.Code.from_asset(str(code)),
            )
        )
    )

    with pytest.raises(DeploymentError, match="runs on nodejs"):
        emulator.invoke("node", {})


def waiting(stack: cdk.Stack, code: Path, tmp_path: Path, **properties: Any) -> None:
    environment = {"LOG": str(tmp_path / "log"), "LOOKS": str(tmp_path / "looks")}
    provider = cr.Provider(
        stack,
        "Provider",
        on_event_handler=function(stack, code, "on_event", environment=environment),
        is_complete_handler=function(stack, code, "is_complete", environment=environment),
    )
    made = cdk.CustomResource(
        stack,
        "Thing",
        resource_type="Custom::Thing",
        service_token=provider.service_token,
        properties={"Looks": 3, "Truth": True} | properties,
    )
    sqs.Queue(stack, "Queue", queue_name=f"{made.ref}-{made.get_att_string('Looks')}")


def test_a_custom_resource_lives_through_its_own_functions(code: Path, tmp_path: Path) -> None:
    emulator = Emulator()

    emulator.deploy(assembly(lambda stack: waiting(stack, code, tmp_path)))
    emulator.deploy(assembly(lambda stack: waiting(stack, code, tmp_path, More=1)))
    ((queue, _),) = emulator.resources("AWS::SQS::Queue")
    emulator.destroy()

    seen = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert [event["RequestType"] for event in seen] == ["Create", "Update", "Delete"]
    assert seen[0]["ResourceProperties"]["Looks"] == "3"
    assert seen[0]["ResourceProperties"]["Truth"] == "true"
    assert seen[2]["PhysicalResourceId"] == "thing"
    assert queue.properties["QueueName"].startswith("thing-")


def test_a_custom_resource_that_is_never_complete_is_given_up(code: Path, tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="CREATE of Thing: not complete after 2 looks"):
        Emulator(max_looks=2).deploy(assembly(lambda stack: waiting(stack, code, tmp_path)))


@pytest.mark.parametrize("request_type", ["Create", "Delete"])
def test_a_custom_resource_that_refuses_ends_the_deployment(
    code: Path, tmp_path: Path, request_type: str
) -> None:
    emulator = Emulator()
    folder = assembly(lambda stack: waiting(stack, code, tmp_path, Refuse=request_type, Looks=1))

    if request_type == "Delete":
        emulator.deploy(folder)

    with pytest.raises(DeploymentError, match=f"no {request_type} today"):
        (emulator.destroy if request_type == "Delete" else lambda: emulator.deploy(folder))()


def test_a_stack_that_fails_is_rolled_back_and_says_so(code: Path, tmp_path: Path) -> None:
    emulator = Emulator()

    with pytest.raises(DeploymentError, match="no Create today"):
        emulator.deploy(assembly(lambda stack: waiting(stack, code, tmp_path, Refuse="Create")))

    assert emulator.status("Stack0") == "ROLLBACK_COMPLETE"
    assert emulator.all_resources() == []
    made = [event.logical_id for event in emulator.events if event.action == "CREATE" and not event.reason]
    deleted = [event.logical_id for event in emulator.events if event.action == "DELETE"]
    assert deleted == made[::-1]
    (failed,) = [event for event in emulator.events if event.reason]
    assert (failed.action, failed.logical_id) == ("CREATE", "Thing")


def test_stacks_before_the_one_that_fails_stay_and_those_after_it_are_not_begun() -> None:
    emulator = Emulator()

    with pytest.raises(DeploymentError, match="no attribute Shine"):
        emulator.deploy(
            assembly(
                lambda stack: sqs.Queue(stack, "First"),
                lambda stack: cdk.CfnOutput(stack, "Odd", value=shine(stack), export_name="odd"),
                lambda stack: sqs.Queue(stack, "Last"),
            )
        )

    statuses = [emulator.status(f"Stack{number}") for number in range(3)]
    assert statuses == ["CREATE_COMPLETE", "ROLLBACK_COMPLETE", ""]


def shine(stack: cdk.Stack) -> str:
    """An attribute that no queue has."""
    queue = cdk.CfnResource(stack, "Odd queue", type="AWS::SQS::Queue")
    return queue.get_att("Shine").to_string()


def test_a_deployment_that_failed_can_be_tried_again(code: Path, tmp_path: Path) -> None:
    emulator = Emulator()
    with pytest.raises(DeploymentError):
        emulator.deploy(assembly(lambda stack: waiting(stack, code, tmp_path, Refuse="Create")))

    emulator.deploy(assembly(lambda stack: waiting(stack, code, tmp_path)))

    assert emulator.status("Stack0") == "CREATE_COMPLETE"
    assert len(emulator.resources("AWS::SQS::Queue")) == 1


def test_an_update_that_fails_is_taken_back_the_half_done_resource_too(code: Path, tmp_path: Path) -> None:
    emulator = Emulator()
    emulator.deploy(assembly(lambda stack: (sns.Topic(stack, "Topic"), waiting(stack, code, tmp_path))))
    before = emulator.resources("AWS::SNS::Topic")

    with pytest.raises(DeploymentError, match="no Update today"):
        emulator.deploy(
            assembly(
                lambda stack: (
                    sns.Topic(stack, "Topic", display_name="other"),
                    sns.Topic(stack, "New"),
                    waiting(stack, code, tmp_path, Refuse="Update"),
                )
            )
        )

    assert emulator.status("Stack0") == "UPDATE_ROLLBACK_COMPLETE"
    assert emulator.resources("AWS::SNS::Topic") == before
    seen = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert [event["RequestType"] for event in seen] == ["Create", "Update"]
    assert "Refuse" not in seen[-1]["ResourceProperties"]


def test_a_roll_back_that_fails_tells_of_both_errors(code: Path, tmp_path: Path) -> None:
    def build(stack: cdk.Stack) -> None:
        waiting(stack, code, tmp_path, Refuse="Delete", Looks=1)
        queue = stack.node.find_child("Queue")
        odd = cdk.CfnResource(stack, "Odd", type="Custom::Odd", properties={"ServiceToken": "nobody"})
        odd.node.add_dependency(queue)

    emulator = Emulator()

    with pytest.raises(
        DeploymentError, match=r"no function nobody; rolling back failed, too: .*no Delete today"
    ):
        emulator.deploy(assembly(build))

    assert emulator.status("Stack0") == "ROLLBACK_FAILED"
    assert "Thing" in {resource.logical_id for resource, _ in emulator.all_resources()}


def test_without_rollback_a_stack_stays_as_far_as_it_came(code: Path, tmp_path: Path) -> None:
    emulator = Emulator()

    with pytest.raises(DeploymentError):
        emulator.deploy(
            assembly(lambda stack: waiting(stack, code, tmp_path, Refuse="Create")), rollback=False
        )

    assert emulator.status("Stack0") == "CREATE_FAILED"
    assert "onevent" in {resource.logical_id[:7] for resource, _ in emulator.all_resources()}
    assert "DELETE" not in {event.action for event in emulator.events}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        pytest.param("Retain", True, id="retain"),
        pytest.param("RetainExceptOnCreate", False, id="but what the failed creation made"),
        pytest.param("Delete", False, id="delete"),
    ],
)
def test_rolling_a_creation_back_retains_what_is_always_retained(policy: str, kept: bool) -> None:
    template = {
        "Resources": {
            "Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": policy},
            "Odd": {"Type": "Custom::Odd", "DependsOn": "Bucket", "Properties": {"ServiceToken": "nobody"}},
        }
    }
    emulator = Emulator()

    with pytest.raises(DeploymentError):
        emulator.put_stack("Mine", template)

    assert (("Mine", "Bucket") in emulator.retained) is kept


@pytest.mark.parametrize("policy", ["Retain", "RetainExceptOnCreate"])
def test_what_is_retained_outlives_its_removal_from_the_template(policy: str) -> None:
    emulator = Emulator()
    emulator.put_stack("Mine", {"Resources": {"Kept": {"Type": "AWS::S3::Bucket", "DeletionPolicy": policy}}})

    emulator.put_stack("Mine", {"Resources": {"Other": {"Type": "AWS::SQS::Queue"}}})

    assert emulator.retained == [("Mine", "Kept")]


def test_what_could_not_be_deleted_is_still_there(code: Path, tmp_path: Path) -> None:
    emulator = Emulator()
    emulator.deploy(assembly(lambda stack: waiting(stack, code, tmp_path, Refuse="Delete", Looks=1)))

    with pytest.raises(DeploymentError, match="no Delete today"):
        emulator.destroy()

    assert emulator.status("Stack0") == "DELETE_FAILED"
    assert "Thing" in {resource.logical_id for resource, _ in emulator.all_resources()}


def test_a_generated_password_is_known_to_the_test_and_to_whom_it_was_given() -> None:
    def build(stack: cdk.Stack) -> None:
        secret = secretsmanager.Secret(
            stack,
            "Secret",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template='{"username": "me"}',
                generate_string_key="password",
                password_length=20,
            ),
        )
        cdk.CfnResource(
            stack,
            "User",
            type="AWS::ElastiCache::User",
            properties={"Passwords": [secret.secret_value_from_json("password").unsafe_unwrap()]},
        )

    emulator = Emulator()
    emulator.deploy(assembly(build))

    ((_, secret),) = emulator.resources("AWS::SecretsManager::Secret")
    ((user, _),) = emulator.resources("AWS::ElastiCache::User")
    fields = emulator.secret(secret.ref)
    assert fields["username"] == "me"
    assert len(fields["password"]) == 20
    assert user.properties["Passwords"] == [fields["password"]]


def test_a_condition_that_does_not_hold_leaves_its_resource_out() -> None:
    def build(stack: cdk.Stack) -> None:
        never = cdk.CfnCondition(stack, "Never", expression=cdk.Fn.condition_equals(stack.region, "mars-1"))
        queue = sqs.CfnQueue(stack, "Queue")
        queue.cfn_options.condition = never

    emulator = Emulator()
    emulator.deploy(assembly(build))

    assert emulator.events == []


def test_a_folder_that_is_no_assembly_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="is no cloud assembly"):
        Emulator().deploy(tmp_path)
