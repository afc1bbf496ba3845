"""`scaling` of a deployment file: bounds of each kind of engines, held to what endpoints there are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.roles import least_replicas, roles_of
from hypertier.spec.scaling import Bounds, Scaling

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str) -> Deployment:
    return load_deployment(EXAMPLES / name / "deployment.yaml")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param(
            {"prefill": Bounds(min=0)}, r"scaling\.prefill\.min is 0; expected 1 or more", id="none"
        ),
        pytest.param(
            {"decode": Bounds(min=3, max=2)},
            r"scaling\.decode\.max is 2; expected at least scaling\.decode\.min, which is 3",
            id="a ceiling below the floor",
        ),
        pytest.param(
            {"decode": Bounds(min=2)}, r"scaling\.decode\.max is 1; expected at least", id="a floor alone"
        ),
    ],
)
def test_bounds_of_a_role_that_contradict_themselves_are_named(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Scaling(**written)


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_bounds_of_a_role_that_no_endpoint_has_are_refused(role: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"scaling\.{role} is .*; expected none, as no endpoint has a pdSpec"
    ):
        replace(example("reference"), scaling=Scaling(**{role: Bounds(max=2)}))


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_bounds_of_a_role_that_aws_s_operator_would_not_hold_are_refused(role: str) -> None:
    with pytest.raises(ConfigError, match=rf"scaling\.{role} is .*; expected none with serving: operator"):
        replace(example("disaggregated"), serving="operator", scaling=Scaling(**{role: Bounds(max=5)}))


def test_bounds_of_engines_that_do_both_are_refused_where_every_endpoint_has_two_kinds() -> None:
    with pytest.raises(
        ConfigError, match=r"scaling\.max is 2; expected 1, .* scaling\.prefill and scaling\.decode"
    ):
        replace(example("disaggregated"), scaling=Scaling(max=2))


def test_endpoints_of_both_sorts_have_bounds_of_their_own() -> None:
    split, whole = example("disaggregated"), example("reference")
    other = whole.endpoints[0]
    other = replace(other, metadata=replace(other.metadata, name="whole"))
    scaling = Scaling(min=2, max=7, prefill=Bounds(min=1, max=2))

    both = replace(split, endpoints=(*split.endpoints, other), scaling=scaling)

    stepped = [
        [(role.component, scaling.is_stepped(role.component)) for role in roles_of(both, endpoint)]
        for endpoint in both.endpoints
    ]
    assert stepped == [[("prefill", True), ("decode", False)], [("engine", True)]]
    least = [[least_replicas(both, role) for role in roles_of(both, each)] for each in both.endpoints]
    assert least == [[1, 5], [2]]
