"""A line for each check, an exit status for scripts, and a policy no wider than the questions."""

from __future__ import annotations

import json

import pytest
from fakes_account import DEPLOYMENTS, autoscaled, checks, naming_everything

from hypertier.doctor import report
from hypertier.doctor.check import Finding, Status, fails, ok, untold
from hypertier.doctor.unasked import not_asked

OK = Finding("quota a", ok("5 allowed"))
FAILS = Finding("stack b", fails("busy", "wait"))
UNTOLD = Finding("key c", untold("no permission", "allow kms:DescribeKey"))


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([OK], 0),
        ([OK, UNTOLD], 2),
        ([OK, UNTOLD, FAILS], 1),
        ([FAILS], 1),
    ],
)
def test_the_exit_status_tells_failing_from_not_told(findings: list[Finding], code: int) -> None:
    assert report.exit_code(findings) == code


def test_text_has_a_line_for_each_check_and_ends_with_what_fails() -> None:
    text = report.as_text("123456789012", "us-west-2", [FAILS, UNTOLD, OK], ["the weather"])

    assert text.splitlines() == [
        "account 123456789012, us-west-2",
        "ok: quota a: 5 allowed",
        "could not be told: key c: no permission; allow kms:DescribeKey",
        "fails: stack b: busy; wait",
        "not asked: the weather",
        "1 ok, 1 fails, 1 could not be told",
    ]


def test_json_says_the_same() -> None:
    data = json.loads(json.dumps(report.as_data("1", "r", [FAILS, OK], ["x"])))

    assert data["checks"] == [
        {"check": "stack b", "status": "fails", "cause": "busy", "fix": "wait"},
        {"check": "quota a", "status": "ok", "cause": "5 allowed", "fix": None},
    ]
    assert data["notAsked"] == ["x"]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_policy_allows_every_question_and_nothing_else(name: str) -> None:
    made = checks(DEPLOYMENTS[name]())
    wanted = {(asked.action, asked.resource) for check in made for asked in check.may_ask}

    policy = report.policy_of(made)

    allowed = {
        (action, resource)
        for statement in policy["Statement"]
        for action in statement["Action"]
        for resource in statement["Resource"]
    }
    everywhere = {action for action, resource in wanted if resource == "*"}
    assert allowed == {
        (action, resource) for action, resource in wanted if resource == "*" or action not in everywhere
    }
    assert all(action.partition(":")[2].startswith(("Describe", "Get", "List")) for action, _ in allowed)
    assert not any("GetSecretValue" in action or "*" in action for action, _ in allowed)


def test_the_policy_names_what_has_a_name() -> None:
    policy = json.dumps(report.policy_of(checks(naming_everything())))

    assert "arn:aws:ssm:us-west-2:*:parameter/cdk-bootstrap/hnb659fds/version" in policy
    assert "arn:aws:secretsmanager:us-west-2:123456789012:secret:store-AbCdEf" in policy
    assert "arn:aws:cloudformation:us-west-2:*:stack/reference-network/*" in policy


def test_what_kubernetes_alone_knows_is_said_to_be_not_asked() -> None:
    lines = not_asked(DEPLOYMENTS["closed-network"]())

    assert "Kubernetes' Secret router-access: kubectl get secret --namespace inference router-access" in lines
    assert not_asked(DEPLOYMENTS["reference"]()) == ()


def test_nodes_that_karpenter_adds_are_said_to_be_not_asked_about() -> None:
    (line,) = not_asked(autoscaled("gpu"))

    assert "nodes that Karpenter adds to gpu: as many as its NodePool's limits allow" in line


def test_every_status_has_an_exit_code() -> None:
    assert set(report.EXIT_CODES) == set(Status)
