"""What passed the validator is validated again when it has changed; what has a finding always is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import aws_cdk as cdk
import jsii
import pytest
from fakes_nag import found_in

from hypertier_cdk.validation import UnchangedPass, add_validator, forget_oldest, passed

KNOWN = "AWS::SNS::Topic"


@jsii.implements(cdk.IPolicyValidationPlugin)
class KnowsTopics:
    """A validator that knows one type of resource, and tells which templates it was shown."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    @property
    def name(self) -> str:
        return "fake"

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        paths = [Path(each.template_path) for each in context.stack_templates]
        self.seen.append(sorted(path.name.partition(".")[0] for path in paths))
        assert [str(path) for path in paths] == context.template_paths
        bad = [path for path in paths if KNOWN not in types_in(path)]
        return report(*([str(path)] for path in bad))


def types_in(template: Path) -> set[str]:
    return {each["Type"] for each in json.loads(template.read_text(encoding="utf-8"))["Resources"].values()}


def report(*findings: list[str | None]) -> cdk.PolicyValidationPluginReport:
    return cdk.PolicyValidationPluginReport(
        success=not findings,
        violations=[
            cdk.PolicyViolation(
                rule_name="rule",
                description="why",
                severity="warning",
                violating_resources=[
                    cdk.PolicyViolatingResource(locations=[], template_path=path) for path in paths
                ],
            )
            for paths in findings
        ],
    )


def synthesize(folder: Path, validator: KnowsTopics, **topics: str) -> None:
    """An app with a stack for each of `topics`: a topic displayed as it says, or a queue."""
    app = cdk.App(outdir=str(folder), builtin_cloud_formation_validation=False)
    cdk.Validations.of(app).add_plugins(UnchangedPass(folder / "validated", lambda: validator))
    for name, said in topics.items():
        stack = cdk.Stack(app, name, env=cdk.Environment(region="us-east-1"))
        kind, properties = (KNOWN, {"DisplayName": said}) if said else ("AWS::SQS::Queue", {})
        cdk.CfnResource(stack, "Resource", type=kind, properties=properties)
    app.synth()


def test_what_passed_is_not_validated_again(tmp_path: Path) -> None:
    validator = KnowsTopics()

    for _ in range(3):
        synthesize(tmp_path, validator, One="a", Two="b")

    assert validator.seen == [["One", "Two"]]


def test_what_changed_is_validated_alone_and_what_it_was_before_is_not(tmp_path: Path) -> None:
    validator = KnowsTopics()

    synthesize(tmp_path, validator, One="a", Two="b")
    synthesize(tmp_path, validator, One="a", Two="c")
    synthesize(tmp_path, validator, One="a", Two="b")

    assert validator.seen == [["One", "Two"], ["Two"]]


def test_what_has_a_finding_is_validated_each_time(tmp_path: Path) -> None:
    validator = KnowsTopics()

    for _ in range(2):
        synthesize(tmp_path, validator, Good="a", Bad="")
        assert {finding.rule for finding in found_in(tmp_path / "validation-report.json")} == {"rule"}

    assert validator.seen == [["Bad", "Good"], ["Bad"]]


def test_what_another_run_wrote_over_meanwhile_has_not_passed(tmp_path: Path) -> None:
    @jsii.implements(cdk.IPolicyValidationPlugin)
    class Overtaken(KnowsTopics):
        def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
            for each in context.stack_templates:
                Path(each.template_path).write_text(f'{{"Resources": {{"Other": {{"Type": "{KNOWN}"}}}}}}')
            return super().validate(context)

    validator = Overtaken()

    for _ in range(2):
        synthesize(tmp_path, validator, One="a")

    assert validator.seen == [["One"], ["One"]]


def test_another_region_is_another_template(tmp_path: Path) -> None:
    validator = KnowsTopics()
    for region in ("us-east-1", "us-west-2"):
        app = cdk.App(outdir=str(tmp_path), builtin_cloud_formation_validation=False)
        cdk.Validations.of(app).add_plugins(UnchangedPass(tmp_path / "validated", lambda: validator))
        stack = cdk.Stack(app, "One", env=cdk.Environment(region=region))
        cdk.CfnResource(stack, "Resource", type=KNOWN)
        app.synth()

    assert validator.seen == [["One"], ["One"]]


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], ["a", "b"]),
        ([["a"]], ["b"]),
        ([["a", "b"]], []),
        ([["a"], [None]], []),  # whose it is, the validator doesn't say
        ([[]], []),
    ],
)
def test_a_template_passes_if_nothing_is_said_of_it(
    findings: list[list[str | None]], expected: list[str]
) -> None:
    assert passed(["a", "b"], report(*findings)) == expected


def test_the_variable_that_switches_the_cdks_validator_off_switches_this_one_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDK_VALIDATION", "false")
    app = cdk.App(outdir=str(tmp_path), builtin_cloud_formation_validation=False)
    add_validator(app)
    cdk.CfnResource(cdk.Stack(app, "One"), "Resource", type="AWS::SQS::Queue", properties={"NoSuch": 1})

    app.synth()

    assert not (tmp_path / "validated").exists()


def test_what_was_seen_last_is_remembered_and_the_rest_forgotten(tmp_path: Path) -> None:
    for age, name in enumerate("abcd"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))

    forget_oldest(tmp_path, kept=2)

    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


def test_a_template_that_passes_again_counts_as_seen(tmp_path: Path) -> None:
    validator = KnowsTopics()
    synthesize(tmp_path, validator, One="a")
    (remembered,) = (tmp_path / "validated").iterdir()
    os.utime(remembered, (0, 0))

    synthesize(tmp_path, validator, One="a")

    assert remembered.stat().st_mtime > 0


def test_a_folder_that_cannot_be_written_remembers_nothing_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "validated").write_text("no folder")
    validator = KnowsTopics()

    for _ in range(2):
        synthesize(tmp_path, validator, One="a")

    assert validator.seen == [["One"], ["One"]]
