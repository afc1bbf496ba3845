"""`scaling` of a deployment file: bounds of each kind of engines, held to what endpoints there are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.lint import lint_files
from hypertier.spec.roles import least_replicas, roles_of
from hypertier.spec.routing import Routing, Timeouts
from hypertier.spec.scaling import Bounds, Scaling, ToZero
from hypertier.spec.schedules import ScalingSchedule
from hypertier.spec.verify import Verify
from hypertier.spec.watched import num_replica_metrics

EXAMPLES = Path(__file__).parents[3] / "examples"


DAY = ScalingSchedule(name="day", cron="cron(0 7 ? * * *)", min_replicas=1)
NIGHT = ScalingSchedule(name="night", cron="cron(0 20 ? * * *)", min_replicas=0)


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


def test_schedules_are_refused_where_every_endpoint_has_two_kinds() -> None:
    with pytest.raises(
        ConfigError, match=r"scaling\.schedules is .*night.*; expected none: every endpoint has a"
    ):
        replace(example("disaggregated"), scaling=Scaling(schedules=(DAY, NIGHT)))


@pytest.mark.parametrize(
    ("name", "scaling", "path"),
    [
        pytest.param("reference", {"prefill": {"max": 2}}, "scaling.prefill", id="a role that nobody has"),
        pytest.param("disaggregated", {"max": 2}, "scaling.max", id="engines that nobody has"),
        pytest.param("disaggregated", {"decode": {"min": 0}}, "scaling.decode.min", id="none left"),
    ],
)
def test_lint_names_them_at_their_place(
    name: str, scaling: dict[str, Any], path: str, tmp_path: Path
) -> None:
    manifest = EXAMPLES / name / "llama-70b.yaml"
    written = yaml.safe_load((EXAMPLES / name / "deployment.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "deployment.yaml"
    (tmp_path / manifest.name).write_text(manifest.read_text(encoding="utf-8"), encoding="utf-8")
    file.write_text(yaml.safe_dump({**written, "scaling": scaling}), encoding="utf-8")

    found = [finding for finding in lint_files([str(file)]).findings if finding.severity == "error"]

    assert [(finding.rule, finding.path) for finding in found] == [("setting", path)]


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


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param({"min": -1}, r"scaling\.min is -1; expected 1 or more", id="less than none"),
        pytest.param({"min": 0, "max": 0}, r"scaling\.max is 0; expected 1 or more", id="never any"),
        pytest.param({"to_zero": ToZero()}, r"scaling\.toZero is .*; expected scaling\.min: 0", id="no zero"),
        pytest.param(
            {"to_zero": ToZero(), "schedules": (DAY,)},
            r"scaling\.toZero is .*; expected scaling\.min: 0 beside it, or a schedule with minReplicas: 0",
            id="no schedule of zero",
        ),
    ],
)
def test_going_to_zero_needs_bounds_that_say_so(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Scaling(**written)


@pytest.mark.parametrize(
    ("key", "value"), [("idle", "90s"), ("idle", "4m"), ("hold", "0s"), ("max_held", 0)], ids=str
)
def test_times_and_numbers_of_going_to_zero_that_cannot_work_are_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"scaling\.toZero\."):
        ToZero(**{key: value})


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        pytest.param(
            "reference", {"verify": Verify()}, "verify is .*; expected no such section", id="verify"
        ),
        pytest.param(
            "reference",
            {"routing": Routing(timeouts=Timeouts(response="5m"))},
            r"scaling\.toZero\.hold is '10m'; expected at most routing\.timeouts\.response, 5m",
            id="engines that may be silent for less",
        ),
        pytest.param("reference", {"serving": "operator"}, r"scaling\.min is 0; expected 1", id="operator"),
        pytest.param("disaggregated", {}, r"scaling\.min is 0; expected 1: every endpoint has a", id="roles"),
    ],
)
def test_going_to_zero_is_refused_where_nothing_would_wake_or_all_would(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(example(name), scaling=Scaling(min=0, max=2), **changes)


@pytest.mark.parametrize(
    ("scaling", "setting"),
    [
        pytest.param(Scaling(min=0, max=2, schedules=(DAY,)), "scaling.min", id="but by day"),
        pytest.param(
            Scaling(max=2, schedules=(DAY, NIGHT)), "scaling.schedules.night.minReplicas", id="by night"
        ),
        pytest.param(Scaling(min=1, max=2, schedules=(DAY,)), None, id="never"),
    ],
)
def test_requests_are_held_where_any_of_the_bounds_is_zero(scaling: Scaling, setting: str | None) -> None:
    assert scaling.zero_setting == setting
    assert scaling.sleeps == (ToZero() if setting else None)
    assert scaling.least() == (0 if setting else 1)


def test_what_would_wake_engines_each_night_is_refused_by_the_schedule_s_name() -> None:
    scaling = Scaling(max=2, schedules=(DAY, NIGHT))

    with pytest.raises(ConfigError, match=r"no such section with scaling\.schedules\.night\.minReplicas 0"):
        replace(example("reference"), verify=Verify(), scaling=scaling)


def test_nobody_is_missed_of_engines_that_may_be_none() -> None:
    sleeping = replace(example("reference"), scaling=Scaling(min=0, max=7))

    (role,) = roles_of(sleeping, sleeping.endpoints[0])

    assert least_replicas(sleeping, role) == 0


@pytest.mark.parametrize(
    ("name", "scaling", "expected"),
    [
        pytest.param("reference", Scaling(min=1, max=1), 0, id="nothing is scaled"),
        pytest.param("reference", Scaling(min=0, max=1), 0, id="one alone is not chosen from"),
        pytest.param("reference", Scaling(min=1, max=4), 4, id="up to four"),
        pytest.param(
            "reference",
            Scaling(
                min=1,
                max=2,
                schedules=(ScalingSchedule(name="day", cron="cron(0 7 ? * * *)", max_replicas=6),),
            ),
            6,
            id="by a schedule more",
        ),
        pytest.param("disaggregated", Scaling(decode=Bounds(min=3, max=5)), 5, id="of one role"),
    ],
)
def test_single_replicas_are_measured_where_one_is_to_be_chosen(
    name: str, scaling: Scaling, expected: int
) -> None:
    wanted = replace(example(name), scaling=scaling)

    assert [num_replica_metrics(wanted, endpoint) for endpoint in wanted.endpoints] == [expected]
