"""Who may talk to whom, as rules in the template."""

from __future__ import annotations

from typing import Any

from fakes_templates import properties, resources


def nodes_group(template: dict[str, Any]) -> str:
    (found,) = [
        logical_id
        for logical_id, group in resources(template, "AWS::EC2::SecurityGroup").items()
        if group["Properties"]["GroupDescription"] == "HyperPod nodes"
    ]
    return found


def of_nodes(template: dict[str, Any]) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [nodes_group(template), "GroupId"]}


def test_efa_traffic_among_nodes_is_allowed_both_ways_by_rules_that_name_the_group(reference: Any) -> None:
    nodes = of_nodes(reference.template)

    ingress = [
        rule
        for rule in properties(reference.template, "AWS::EC2::SecurityGroupIngress")
        if rule["GroupId"] == nodes and rule.get("SourceSecurityGroupId") == nodes
    ]
    egress = [
        rule
        for rule in properties(reference.template, "AWS::EC2::SecurityGroupEgress")
        if rule["GroupId"] == nodes and rule.get("DestinationSecurityGroupId") == nodes
    ]

    assert [rule["IpProtocol"] for rule in ingress] == ["-1"]
    assert [rule["IpProtocol"] for rule in egress] == ["-1"]


def test_nodes_reach_aws(reference: Any) -> None:
    group = reference.template["Resources"][nodes_group(reference.template)]["Properties"]

    (out,) = group["SecurityGroupEgress"]
    assert (out["CidrIp"], out["IpProtocol"]) == ("0.0.0.0/0", "-1")


def test_nodes_and_control_plane_are_open_to_each_other(reference: Any) -> None:
    nodes = of_nodes(reference.template)
    rules = properties(reference.template, "AWS::EC2::SecurityGroupIngress")

    to_nodes = [
        rule
        for rule in rules
        if rule["GroupId"] == nodes and "ClusterSecurityGroupId" in str(rule.get("SourceSecurityGroupId"))
    ]
    to_control_plane = [
        rule
        for rule in rules
        if "ClusterSecurityGroupId" in str(rule["GroupId"]) and rule.get("SourceSecurityGroupId") == nodes
    ]

    assert [rule["IpProtocol"] for rule in to_nodes] == ["-1"]
    assert [rule["IpProtocol"] for rule in to_control_plane] == ["-1"]


def test_no_group_lets_the_internet_in(reference: Any) -> None:
    rules = properties(reference.template, "AWS::EC2::SecurityGroupIngress") + [
        rule
        for group in properties(reference.template, "AWS::EC2::SecurityGroup")
        for rule in group.get("SecurityGroupIngress", [])
    ]

    assert not [rule for rule in rules if rule.get("CidrIp") == "0.0.0.0/0" or "CidrIpv6" in rule]
