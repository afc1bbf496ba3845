"""What alarms do in the emulator: they call functions, and tell topics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_sns as sns
from constructs import IConstruct
from fakes_assembly import assembly, function, let_call

from hypertier.errors import ConfigError, DeploymentError
from hypertier_cdk.testing import Emulator
from hypertier_cdk.testing.permissions import ALARMS, TOPICS


def alarmed(stack: cdk.Stack, action: Callable[[IConstruct], str], state: str = "alarm") -> None:
    cw.CfnAlarm(
        stack,
        "Alarm",
        alarm_name="full",
        comparison_operator="GreaterThanThreshold",
        evaluation_periods=1,
        **{f"{state}_actions": [action(stack)]},  # type: ignore[arg-type]
    )


def test_an_alarm_calls_its_functions(code: Path) -> None:
    emulator = Emulator()
    emulator.deploy(
        assembly(
            lambda stack: alarmed(
                stack,
                lambda _: let_call(function(stack, code, environment={"MINE": "rung"}), ALARMS).function_arn,
            )
        )
    )

    (answer,) = emulator.ring("full", {"state": "ALARM"})

    assert (answer["event"], answer["env"]) == ({"state": "ALARM"}, "rung")


@pytest.mark.parametrize(
    "allowed",
    [
        pytest.param(None, id="nobody"),
        pytest.param(TOPICS, id="another service"),
    ],
)
def test_an_alarm_that_may_not_call_its_function_is_refused(code: Path, allowed: str | None) -> None:
    def action(stack: cdk.Stack) -> str:
        made = function(stack, code, environment={"MINE": "rung"})
        return (let_call(made, allowed) if allowed else made).function_arn

    emulator = Emulator()
    emulator.deploy(assembly(lambda stack: alarmed(stack, lambda _: action(stack))))

    with pytest.raises(DeploymentError, match=r"alarms\.cloudwatch\.amazonaws\.com may not call .*:handler"):
        emulator.ring("full", {})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("full", "functions and tell topics, not arn:aws:automate:", id="a reboot"),
        pytest.param("empty", "there is no alarm empty", id="no alarm"),
    ],
)
def test_an_alarm_that_cannot_be_let_off_says_why(name: str, said: str) -> None:
    emulator = Emulator()
    emulator.deploy(assembly(lambda stack: alarmed(stack, lambda _: "arn:aws:automate:us-east-1:ec2:reboot")))

    with pytest.raises(DeploymentError, match=said):
        emulator.ring(name, {})


def told(stack: cdk.Stack, code: Path, *, inline: bool) -> str:
    """A topic that a function listens to, by a resource of its own or by the topic's property."""
    listener = let_call(function(stack, code, environment={"MINE": "told"}), TOPICS).function_arn
    listening = {"endpoint": listener, "protocol": "lambda"}
    topic = sns.CfnTopic(stack, "Topic", subscription=[listening] if inline else None)
    if not inline:
        sns.CfnSubscription(stack, "Listens", topic_arn=topic.ref, **listening)
        sns.CfnSubscription(stack, "Read", topic_arn=topic.ref, endpoint="a@b.example", protocol="email")
    return topic.ref


@pytest.mark.parametrize("inline", [pytest.param(False, id="apart"), pytest.param(True, id="in the topic")])
def test_an_alarm_tells_its_topic_and_that_the_functions_that_listen(code: Path, inline: bool) -> None:
    emulator = Emulator()
    emulator.deploy(assembly(lambda stack: alarmed(stack, lambda _: told(stack, code, inline=inline))))

    (answer,) = emulator.ring("full", {"NewStateValue": "ALARM"})

    ((topic, messages),) = emulator.messages.items()
    (record,) = answer["event"]["Records"]
    assert messages == ['{"NewStateValue": "ALARM"}'] == [record["Sns"]["Message"]]
    assert (record["Sns"]["TopicArn"], record["Sns"]["Subject"]) == (topic, 'ALARM: "full"')


def test_an_alarm_does_in_each_state_what_it_is_to_do_in_that_one() -> None:
    emulator = Emulator()
    emulator.deploy(
        assembly(lambda stack: alarmed(stack, lambda _: sns.Topic(stack, "Topic").topic_arn, "ok"))
    )

    emulator.ring("full", {})
    assert emulator.messages == {}
    emulator.ring("full", {}, "OK")
    assert list(emulator.messages.values()) == [["{}"]]
    with pytest.raises(ConfigError, match="state is 'FINE'; expected ALARM or OK or "):
        emulator.ring("full", {}, "FINE")
