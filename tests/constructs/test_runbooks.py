"""Whoever is woken finds what to do: each alarm names a section, and each section says three things."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from aws_cdk import aws_ec2 as ec2
from fakes_scaling import gpu_cluster, scaling_on
from fakes_templates import new_stack, properties, template_of

from hypertier.router.telemetry.counts import FIRST_BYTE_SECONDS
from hypertier_cdk import CacheStore, EndpointAlarms
from hypertier_cdk.runbooks import PAGE

ROOT = Path(__file__).parents[2]
SECTIONS = dict(re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^##|\Z)", (ROOT / PAGE).read_text("utf-8")))
RULES = yaml.safe_load((ROOT / "examples" / "prometheus" / "slo.yaml").read_text("utf-8"))
RECORDS, ALERTS = (group["rules"] for group in RULES["groups"])
PLACE = re.compile(rf"\. Runbook: {re.escape(PAGE)}#(\w+)$")


@pytest.fixture(scope="module")
def descriptions() -> list[str]:
    """The texts of every kind of alarm that there is."""
    stack = new_stack("Alarmed")
    scaling = scaling_on(stack, gpu_cluster(stack), min_replicas=0)
    for name, replicas in (("Whole", 2), ("Apart", {"prefill": 1, "decode": 1})):
        EndpointAlarms(
            stack,
            name,
            endpoint="llama",
            replicas=replicas,
            cached=True,
            scalings=[scaling],
            verify_minutes=5,
            captured=True,
        )
    CacheStore(
        stack,
        "L2",
        vpc=ec2.Vpc(stack, "Vpc"),
        bandwidth_bytes_per_second=10**9,
        size_bytes=2**36,
    ).add_alarms()
    return [alarm["AlarmDescription"] for alarm in properties(template_of(stack), "AWS::CloudWatch::Alarm")]


def test_every_alarm_ends_with_a_section_that_is_there(descriptions: list[str]) -> None:
    headings = {heading.lower() for heading in SECTIONS}
    lost = [text for text in descriptions if not (place := PLACE.search(text)) or place[1] not in headings]

    assert lost == []


def test_every_section_is_some_alarm_s(descriptions: list[str]) -> None:
    named = {place[1] for text in descriptions if (place := PLACE.search(text))}
    named |= {alert["alert"].lower() for alert in ALERTS}

    assert {heading.lower() for heading in SECTIONS} == named


def test_no_alarm_is_made_without_a_runbook() -> None:
    """One that the fixture above does not make is found where it stands."""
    folders = (ROOT / "constructs" / "hypertier_cdk", ROOT / "infra")
    makes = re.compile(r"\bcw\.(?:Composite)?Alarm\(|\"AWS::CloudWatch::(?:Composite)?Alarm\",")
    texts = {file: file.read_text("utf-8") for folder in folders for file in folder.glob("*.py")}
    bare = [
        file.name for file, text in texts.items() if len(makes.findall(text)) > text.count("with_runbook(")
    ]

    assert bare == []


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_section_says_what_it_means_what_to_look_at_and_what_to_do(heading: str) -> None:
    said = re.findall(r"(?m)^- \*\*(Means|Look at|Do)\*\*", SECTIONS[heading])

    assert said == ["Means", "Look at", "Do"]


@pytest.mark.parametrize("heading", SECTIONS)
def test_an_alarm_that_a_section_names_has_a_section(heading: str) -> None:
    others = re.findall(r"\bsee ([A-Z]\w+)", SECTIONS[heading])

    assert set(others) <= set(SECTIONS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_rule_of_prometheus_names_its_own_section(alert: dict[str, Any]) -> None:
    assert alert["annotations"]["runbook"] == f"{PAGE}#{alert['alert'].lower()}"
    assert alert["alert"] in SECTIONS


def test_the_rules_read_what_routers_write_and_what_other_rules_record() -> None:
    text = "\n".join(rule["expr"] for rule in (*RECORDS, *ALERTS))
    page = (ROOT / "docs" / "router.md").read_text("utf-8")
    series = set(re.findall(r"hypertier_router_\w+", text))
    bounds = set(re.findall(r'le="([0-9.]+)"', text))

    assert [name for name in series if f"`{name.removesuffix('_bucket')}`" not in page] == []
    assert {float(bound) for bound in bounds} <= set(FIRST_BYTE_SECONDS)
    assert set(re.findall(r"hypertier:\w+:\w+", text)) == {rule["record"] for rule in RECORDS}


@pytest.mark.parametrize("objective", ["Errors", "Ttft"])
def test_budgets_burn_by_the_windows_and_rates_of_the_workbook(objective: str) -> None:
    found = {
        (alert["labels"]["severity"], *pair)
        for alert in ALERTS
        if alert["alert"].startswith(f"{objective}Burn")
        for pair in re.findall(
            r"rate(\w+) > ([0-9.]+) \* [0-9.]+ and hypertier:\w+:ratio_rate(\w+)", alert["expr"]
        )
    }

    assert found == {("page", "1h", "14.4", "5m"), ("page", "6h", "6", "30m"), ("ticket", "3d", "1", "6h")}
