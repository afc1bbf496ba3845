"""CloudFormation's functions, as the emulator evaluates them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import DeploymentError
from hypertier_cdk.testing.intrinsics import Resolver, creation_order

TEMPLATE = {
    "Mappings": {"Zones": {"us-west-2": {"First": "usw2-az1"}}},
    "Conditions": {
        "West": {"Fn::Equals": [{"Ref": "AWS::Region"}, "us-west-2"]},
        "East": {"Fn::Not": [{"Condition": "West"}]},
        "Both": {"Fn::And": [{"Condition": "West"}, {"Condition": "East"}]},
        "Either": {"Fn::Or": [{"Condition": "West"}, {"Condition": "East"}]},
        "Odd": {"Fn::Xor": []},
    },
}
RESOURCES = {"AWS::Region": "us-west-2", "Vpc": "vpc-1"}


def resolver() -> Resolver:
    return Resolver(
        TEMPLATE,
        ref=lambda name: RESOURCES[name],
        attribute=lambda name, path: f"<{name}.{path}>",
        imported=lambda export: f"<import {export}>",
        secret=lambda arn, key: f"<{key} of {arn}>",
        zones=lambda region: [f"{region}a", f"{region}b"],
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({"Ref": "Vpc"}, "vpc-1", id="Ref"),
        pytest.param({"Fn::GetAtt": ["Vpc", "CidrBlock"]}, "<Vpc.CidrBlock>", id="GetAtt"),
        pytest.param(
            {"Fn::GetAtt": "Store.EndPoint.Address"}, "<Store.EndPoint.Address>", id="GetAtt as text"
        ),
        pytest.param({"Fn::Join": ["-", ["a", {"Ref": "Vpc"}, 3]]}, "a-vpc-1-3", id="Join"),
        pytest.param({"Fn::Split": ["-", "a-b"]}, ["a", "b"], id="Split"),
        pytest.param({"Fn::Select": ["1", {"Fn::GetAZs": ""}]}, "us-west-2b", id="Select of GetAZs"),
        pytest.param(
            {"Fn::FindInMap": ["Zones", {"Ref": "AWS::Region"}, "First"]}, "usw2-az1", id="FindInMap"
        ),
        pytest.param({"Fn::ImportValue": "other:Vpc"}, "<import other:Vpc>", id="ImportValue"),
        pytest.param({"Fn::Base64": "abc"}, "YWJj", id="Base64"),
        pytest.param({"Fn::ToJsonString": {"a": {"Ref": "Vpc"}}}, '{"a":"vpc-1"}', id="ToJsonString"),
        pytest.param({"Fn::Sub": "${Vpc}/${Vpc.Id}/${!Vpc}"}, "vpc-1/<Vpc.Id>/${Vpc}", id="Sub"),
        pytest.param(
            {"Fn::Sub": ["${Own}-${Vpc}", {"Own": {"Ref": "Vpc"}}]}, "vpc-1-vpc-1", id="Sub with its own"
        ),
        pytest.param({"Fn::If": ["West", "w", "e"]}, "w", id="If, true"),
        pytest.param({"Fn::If": ["East", "e", {"Ref": "Vpc"}]}, "vpc-1", id="If, false"),
        pytest.param({"Fn::If": ["Both", 1, 2]}, 2, id="And"),
        pytest.param({"Fn::If": ["Either", 1, 2]}, 1, id="Or"),
        pytest.param({"a": {"Ref": "AWS::NoValue"}, "b": 1}, {"b": 1}, id="a property that is left out"),
        pytest.param([1, {"Ref": "AWS::NoValue"}, 2], [1, 2], id="an entry that is left out"),
        pytest.param(
            "{{resolve:secretsmanager:arn:aws:x:SecretString:password::}}",
            "<password of arn:aws:x>",
            id="a secret",
        ),
        pytest.param(
            {"Fn::Join": ["", ["{{resolve:secretsmanager:", {"Ref": "Vpc"}, ":SecretString:user::}}"]]},
            "<user of vpc-1>",
            id="a secret whose ARN a function puts together",
        ),
        pytest.param({"Ref": "Vpc", "Other": 1}, {"Ref": "Vpc", "Other": 1}, id="no function: two keys"),
    ],
)
def test_a_function_is_what_cloudformation_makes_of_it(written: Any, expected: Any) -> None:
    assert resolver().resolve(written) == expected


@pytest.mark.parametrize(
    ("written", "named"),
    [
        pytest.param({"Fn::Length": [1]}, "Fn::Length", id="a function that is not known"),
        pytest.param({"Fn::Select": [5, ["a"]]}, "Fn::Select", id="an entry that is not there"),
        pytest.param({"Fn::FindInMap": ["Zones", "x", "y"]}, "Fn::FindInMap", id="a key that is not there"),
        pytest.param({"Fn::If": ["Odd", 1, 2]}, "Fn::Xor", id="a condition that is not known"),
        pytest.param({"Fn::If": ["Nope", 1, 2]}, "Nope", id="a condition that is not there"),
    ],
)
def test_what_cannot_be_evaluated_is_named(written: Any, named: str) -> None:
    with pytest.raises(DeploymentError, match=named):
        resolver().resolve(written)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet="abc {}$"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="abc", min_size=1), inner, max_size=3)
    ),
)


@given(value=plain)
def test_what_holds_no_function_stays_as_it_is(value: Any) -> None:
    assert resolver().resolve(value) == value


@given(edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_everything_comes_after_what_it_depends_on(edges: list[tuple[int, int]]) -> None:
    downward = {(max(edge), min(edge)) for edge in edges if edge[0] != edge[1]}
    template = {
        "Resources": {
            f"R{number}": {
                "Type": "X",
                "DependsOn": [f"R{low}" for high, low in downward if high == number and low % 2],
                "Properties": {
                    "Refs": [{"Ref": f"R{low}"} for high, low in downward if high == number and not low % 2]
                },
            }
            for number in reversed(range(10))
        }
    }

    order = creation_order(template)

    assert sorted(order) == sorted(template["Resources"])
    assert all(order.index(f"R{low}") < order.index(f"R{high}") for high, low in downward)


def test_a_circle_is_named() -> None:
    template = {
        "Resources": {
            "A": {"Type": "X", "DependsOn": "B"},
            "B": {"Type": "X", "Properties": {"P": {"Fn::Sub": "${A.Arn}"}}},
        }
    }

    with pytest.raises(DeploymentError, match="in a circle: A, B"):
        creation_order(template)
