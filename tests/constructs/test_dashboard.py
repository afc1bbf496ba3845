"""The dashboard shows every series that the exporter writes, and nothing that nobody writes."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cw
from fakes_scaling import gpu_cluster, scalings_of_roles
from fakes_templates import new_stack, template_of, the

from hypertier.errors import ConfigError
from hypertier.exporter.metrics import CAPTURE_SERIES, QUEUE_SERIES, ROUTER_SERIES, SERIES, VERIFY_SERIES
from hypertier_cdk import (
    CacheStore,
    CacheUtilizationScaling,
    EndpointAlarms,
    EndpointDashboard,
    Network,
)
from hypertier_cdk.review.templates import strings_in, text_of
from hypertier_cdk.scaling import BLIND_STEPS


def body(**options: Any) -> dict[str, Any]:
    """The dashboard as CloudWatch gets it; values of the deployment stand as `${Id}`."""
    stack = new_stack()
    if options.pop("with_store", False):
        options["store"] = CacheStore(
            stack,
            "L2",
            vpc=Network(stack, "Network").vpc,
            bandwidth_bytes_per_second=10**9,
            size_bytes=2**30,
        )
    if options.pop("with_alarms", False):
        options["alarms"] = EndpointAlarms(stack, "Alarms", endpoint="llama", replicas=1, cached=True).alarms
    EndpointDashboard(stack, "Board", endpoint="llama", **options)
    found: dict[str, Any] = json.loads(
        text_of(the(template_of(stack), "AWS::CloudWatch::Dashboard")["DashboardBody"])
    )
    return found


def series(found: dict[str, Any]) -> set[str]:
    """The names of the exporter's series in all graphs."""
    return {
        metric[1]
        for widget in found["widgets"]
        for metric in widget["properties"].get("metrics", ())
        if metric[0] == "Hypertier"
    }


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return body()


def test_every_series_of_the_exporter_is_shown(plain: dict[str, Any]) -> None:
    assert series(plain) == {entry.name for entry in SERIES}


def test_every_series_of_a_verification_is_shown_where_there_are_any() -> None:
    found = body(verified=True)

    assert series(found) == {entry.name for entry in (*SERIES, *VERIFY_SERIES)}
    assert all(widget["x"] + widget["width"] <= 24 for widget in found["widgets"])


def test_an_endpoint_that_goes_to_zero_shows_what_is_held_and_what_is_idle() -> None:
    stack = new_stack("Board")
    scaling = CacheUtilizationScaling(
        stack,
        "Scaling",
        cluster=gpu_cluster(stack),
        endpoint="llama",
        namespace="inference",
        deployment="llama",
        min_replicas=0,
        max_replicas=2,
    )
    EndpointDashboard(stack, "Board", endpoint="llama", scalings=[scaling])
    found = json.loads(text_of(the(template_of(stack), "AWS::CloudWatch::Dashboard")["DashboardBody"]))

    assert series(found) == {entry.name for entry in (*SERIES, *ROUTER_SERIES)} | {BLIND_STEPS}


def test_an_endpoint_whose_requests_are_captured_shows_how_many_were_lost() -> None:
    assert series(body(captured=True)) == {entry.name for entry in (*SERIES, *CAPTURE_SERIES)}


def test_an_endpoint_whose_routers_have_a_queue_shows_how_long_it_is() -> None:
    assert series(body(queued=True)) == {entry.name for entry in (*SERIES, *QUEUE_SERIES)}


def test_every_series_is_of_this_endpoint(plain: dict[str, Any]) -> None:
    for widget in plain["widgets"]:
        for metric in widget["properties"].get("metrics", ()):
            assert metric[2:4] == ["Endpoint", "llama"]


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_every_series_of_each_role_is_shown(role: str) -> None:
    metrics = [
        metric
        for widget in body(roles=["prefill", "decode"])["widgets"]
        for metric in widget["properties"].get("metrics", ())
    ]

    of_role = [metric for metric in metrics if metric[2:6] == ["Endpoint", "llama", "Role", role]]

    assert {metric[1] for metric in of_role} == {entry.name for entry in SERIES}
    assert len(of_role) * 2 == len(metrics)


def test_a_role_shows_the_thresholds_that_it_scales_by_and_both_roles_their_steps() -> None:
    stack = new_stack("Board")
    scalings = scalings_of_roles(stack, gpu_cluster(stack))
    EndpointDashboard(stack, "Board", endpoint="llama", roles=["prefill", "decode"], scalings=scalings)
    text = text_of(the(template_of(stack), "AWS::CloudWatch::Dashboard")["DashboardBody"])
    graphs = [widget["properties"] for widget in json.loads(text)["widgets"] if widget["type"] == "metric"]

    marked = [
        (graph["title"], [mark["value"] for mark in graph["annotations"]["horizontal"]])
        for graph in graphs
        if "annotations" in graph
    ]
    (steps,) = [graph["metrics"] for graph in graphs if graph["title"] == "Steps of the replicas"]

    assert marked == [("Requests waiting", [5, 0.2]), ("Cache in use", [0.9, 0.4])]
    (waiting, _) = [graph["metrics"] for graph in graphs if graph["title"] == "Requests waiting"]
    assert waiting[-1][0]["expression"] == "queued / replicas"
    assert [metric[-1]["label"] for metric in steps] == ["prefill: asked for", "decode: asked for"]


@pytest.mark.parametrize("roles", [["prefill"], ["decode", "prefill"], ["engine"]])
def test_roles_that_no_exporter_writes_are_refused(roles: list[str]) -> None:
    with pytest.raises(ConfigError, match="roles is "):
        body(roles=roles)


def test_a_ratio_is_drawn_from_0_to_1(plain: dict[str, Any]) -> None:
    axes = {
        widget["properties"]["title"]: widget["properties"]["yAxis"]["left"]
        for widget in plain["widgets"]
        if widget["type"] == "metric"
    }

    assert axes["Cache in use"]["max"] == 1
    assert "max" not in axes["Requests waiting"]


def test_no_row_is_wider_than_the_dashboard(plain: dict[str, Any]) -> None:
    assert all(widget["x"] + widget["width"] <= 24 for widget in plain["widgets"])


def test_the_store_s_nodes_are_found_by_its_name() -> None:
    searches = [text for text in strings_in(body(with_store=True)) if text.startswith(("SUM", "MAX"))]

    assert len(searches) == 4
    assert all("SEARCH('{AWS/ElastiCache,CacheClusterId,CacheNodeId}" in text for text in searches)
    assert all("${L2" in text for text in searches)


def test_widgets_of_one_s_own_stand_below_ours() -> None:
    own = {"type": "text", "width": 12, "height": 2, "properties": {"markdown": "On call: 555"}}

    found = body(widgets=[own])["widgets"]

    assert found[-1]["properties"] == own["properties"]
    assert found[-1]["y"] == max(widget["y"] + widget["height"] for widget in found[:-1])


def test_widgets_of_the_cdk_s_own_are_taken_with_all_their_tokens() -> None:
    metric = cw.Metric(namespace="Mine", metric_name="Waiting", dimensions_map={"Queue": cdk.Aws.STACK_NAME})
    graph = cw.GraphWidget(left=[metric], left_y_axis=cw.YAxisProps(max=cdk.Token.as_number(9)), title="Mine")

    found = body(widgets=graph.to_json())["widgets"]

    assert found[-1]["properties"]["title"] == "Mine"
    assert found[-1]["properties"]["metrics"][0][:3] == ["Mine", "Waiting", "Queue"]
    assert found[-1]["properties"]["yAxis"]["left"]["max"] == 9


@pytest.mark.parametrize(
    ("widget", "setting"),
    [
        ({"properties": {}}, "widgets.0.type"),
        ({"type": "metric"}, "widgets.0.properties"),
        ({"type": "text", "width": 25, "properties": {"markdown": "wide"}}, "widgets.0.width"),
    ],
)
def test_a_widget_that_no_dashboard_has_is_named(widget: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        body(widgets=[widget])

    assert refused.value.setting == setting


def test_the_alarms_stand_on_top() -> None:
    first = [widget["type"] for widget in body(with_alarms=True)["widgets"]][:2]

    assert first == ["text", "alarm"]
