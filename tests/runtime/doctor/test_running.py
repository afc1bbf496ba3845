"""Checks run side by side, and equal questions are asked once."""

from __future__ import annotations

from threading import Barrier, Lock

import pytest

from hypertier.doctor.check import Check, Question, Status, Talk, ok, question
from hypertier.doctor.running import Answer, Refused, run_checks

NAMES = ("one", "two", "three")


def asking(*questions: Question) -> Check:
    def talk() -> Talk:
        said = []
        for asked in questions:
            said.append((yield asked))
        return ok(str(said))

    return Check(questions[0].written, talk, questions)


def test_checks_wait_for_their_answers_at_the_same_time() -> None:
    meeting = Barrier(len(NAMES), timeout=30)

    def ask(asked: Question) -> Answer:
        meeting.wait()  # breaks unless all are asked at once
        return {}

    findings = run_checks([asking(question("ec2", "DescribeVpcs", Name=name)) for name in NAMES], ask)

    assert {finding.verdict.status for finding in findings} == {Status.OK}


def test_findings_come_in_the_order_of_their_checks() -> None:
    checks = [asking(question("ec2", "DescribeVpcs", Name=name)) for name in NAMES]

    findings = run_checks(checks, lambda asked: {"said": asked.parameters["Name"]})

    assert [finding.check for finding in findings] == [check.name for check in checks]
    assert [finding.verdict.cause for finding in findings] == [f"[{{'said': '{name}'}}]" for name in NAMES]


def test_what_several_checks_ask_is_asked_once() -> None:
    asked: list[Question] = []
    lock = Lock()

    def ask(found: Question) -> Answer:
        with lock:
            asked.append(found)
        return {}

    same = [question("ec2", "DescribeVpcs", A=1, B=[2]), question("ec2", "DescribeVpcs", B=[2], A=1)]
    run_checks([asking(found, question("eks", "ListClusters")) for found in same], ask)

    assert sorted(found.action for found in asked) == ["ec2:DescribeVpcs", "eks:ListClusters"]


def test_what_goes_wrong_in_asking_reaches_whoever_waits() -> None:
    def ask(found: Question) -> Answer:
        raise ZeroDivisionError("a fault of ours")

    with pytest.raises(ZeroDivisionError, match="a fault of ours"):
        run_checks([asking(question("ec2", "DescribeVpcs")) for _ in NAMES], ask)


def test_a_refusal_ends_one_check_and_no_other() -> None:
    denied, told = question("ec2", "DescribeVpcs"), question("eks", "ListClusters")

    first, second = run_checks(
        [asking(told, denied), asking(told)],
        lambda found: Refused("no", denied=True) if found == denied else {},
    )

    assert (first.verdict.status, first.verdict.fix) == (Status.UNTOLD, "allow ec2:DescribeVpcs")
    assert second.verdict.status is Status.OK


def test_an_answer_that_lacks_a_member_ends_one_check_alone() -> None:
    asked = question("ec2", "DescribeVpcs")

    def talk() -> Talk:
        said = yield asked
        return ok((said or {})["State"])

    lacking, told = run_checks([Check("state", talk, (asked,)), asking(asked)], lambda found: {})

    assert (lacking.verdict.status, lacking.verdict.cause) == (Status.UNTOLD, "AWS's answer has no State")
    assert told.verdict.status is Status.OK


def test_nothing_to_check_is_nothing_found() -> None:
    assert run_checks([], lambda found: None) == ()
