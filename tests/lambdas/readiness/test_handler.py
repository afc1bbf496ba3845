"""The custom resource's life: create, update, delete, a cluster out of reach, and the time running out."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fakes_kubernetes import Authority
from fakes_moto import aws_environment, moto_server
from fakes_nodes import NodesFake, create_eks_cluster, eks_cluster, node, nodes_api

import hypertier_lambdas
from hypertier_lambdas.readiness import cluster as cluster_module
from hypertier_lambdas.readiness.cluster import list_nodes
from hypertier_lambdas.readiness.errors import ClusterError, NotReadyError, PropertyError
from hypertier_lambdas.readiness.handler import is_complete, look, on_event, read_wish

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
PROPERTIES = {
    "ServiceToken": "arn:aws:lambda:us-west-2:123456789012:function:provider",
    "ClusterName": "eks",
    "HyperPodName": "reference",
    "Groups": {"system": "1"},
    "TimeoutSeconds": "3300",
}


def event(request: str, **changed: Any) -> dict[str, Any]:
    """What the provider framework hands over."""
    told = {"RequestType": request, "ResourceProperties": PROPERTIES | changed}
    if request != "Create":
        told["PhysicalResourceId"] = "ready-nodes-of-reference"
    return told


def plenty() -> float:
    return 60.0


class Context:
    """Lambda's context object, with the seconds that the test allows."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


def waiting(
    request: str = "Create", *, until: datetime = NOW + timedelta(minutes=1), **changed: Any
) -> dict[str, Any]:
    return event(request, **changed) | {
        "Deadline": until.isoformat(),
        "PhysicalResourceId": "ready-nodes-of-reference",
    }


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_the_wait_starts_with_a_deadline(request_type: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime.now(UTC)

    answer = on_event(event(request_type), None)

    deadline = datetime.fromisoformat(answer["Deadline"])
    assert before <= deadline - timedelta(seconds=3300) <= datetime.now(UTC)
    assert answer["PhysicalResourceId"] == "ready-nodes-of-reference"
    assert json.loads(capsys.readouterr().out)["request"] == request_type


def test_a_replayed_create_names_the_same_resource() -> None:
    first, second = on_event(event("Create"), None), on_event(event("Create"), None)

    assert first["PhysicalResourceId"] == second["PhysicalResourceId"]


def test_deleting_asks_no_cluster_and_checks_no_property() -> None:
    told = event("Delete", Groups=None)

    assert on_event(told, None) == {"PhysicalResourceId": "ready-nodes-of-reference"}
    assert is_complete(told, Context(60)) == {"IsComplete": True}


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_the_resource_is_complete_when_the_nodes_are_ready(request_type: str) -> None:
    answer = look(waiting(request_type), lambda _: [node("a")], NOW)

    assert answer == {"IsComplete": True}


def test_until_then_it_is_looked_at_again(capsys: pytest.CaptureFixture[str]) -> None:
    answer = look(waiting(), lambda _: [node("a", ready="False")], NOW)

    assert answer == {"IsComplete": False}
    line = json.loads(capsys.readouterr().out)
    assert line["waiting_for"] == "system: 0 of 1 nodes ready (a not ready: KubeletNotReady)"


def test_nodes_that_come_with_the_deadline_still_count() -> None:
    assert look(waiting(until=NOW), lambda _: [node("a")], NOW) == {"IsComplete": True}


def test_when_time_is_up_the_failure_says_what_is_missing_and_where_to_look() -> None:
    with pytest.raises(NotReadyError) as gave_up:
        look(waiting(until=NOW), lambda _: [], NOW)

    assert "gave up after 55 minutes" in str(gave_up.value)
    assert "system: 0 of 1 nodes ready (none has joined the cluster yet)" in str(gave_up.value)
    assert "list-cluster-events --cluster-name reference" in str(gave_up.value)


def unreachable(_: str) -> list[dict[str, Any]]:
    raise ClusterError("GET https://eks: no route")


def test_a_cluster_out_of_reach_may_answer_next_time() -> None:
    assert look(waiting(), unreachable, NOW) == {"IsComplete": False}


def test_a_cluster_out_of_reach_to_the_end_is_the_failure_s_reason() -> None:
    with pytest.raises(NotReadyError, match="no route"):
        look(waiting(until=NOW), unreachable, NOW)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        pytest.param({"ClusterName": ""}, "ClusterName", id="no cluster"),
        pytest.param({"HyperPodName": None}, "HyperPodName", id="no HyperPod cluster"),
        pytest.param({"Groups": {}}, "Groups", id="no group"),
        pytest.param({"Groups": ["system"]}, "Groups", id="a list of groups"),
        pytest.param({"Groups": {"system": "-1"}}, "Groups.system", id="fewer than no nodes"),
        pytest.param({"Groups": {"system": "many"}}, "Groups.system", id="a word"),
        pytest.param({"Groups": {"system": "1" * 10}}, "Groups.system", id="a number of ten digits"),
        pytest.param({"TimeoutSeconds": "0"}, "TimeoutSeconds", id="no time"),
        pytest.param({"TimeoutSeconds": "3601"}, "TimeoutSeconds", id="more than CloudFormation waits"),
        pytest.param({"TimeoutSeconds": None}, "TimeoutSeconds", id="no time-out"),
    ],
)
def test_a_property_that_cannot_work_is_refused_by_name(changed: dict[str, Any], name: str) -> None:
    with pytest.raises(PropertyError) as refused:
        on_event(event("Create", **changed), None)

    assert refused.value.name == name


def test_numbers_arrive_as_text_and_are_read_as_numbers() -> None:
    wish = read_wish(PROPERTIES)

    assert (wish.groups, wish.timeout_seconds) == ({"system": 1}, 3300)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with moto_server() as url:
        for name, value in aws_environment(url).items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def api(aws: None, tmp_path: Path) -> Iterator[NodesFake]:
    """The cluster `eks` of moto, with an API on loopback behind it."""
    with nodes_api(tmp_path) as (fake, authority):
        create_eks_cluster("eks", fake, authority)
        yield fake


def test_all_pages_of_nodes_are_read_with_the_function_s_own_token(api: NodesFake) -> None:
    api.nodes = [node(name) for name in "abcde"]

    nodes = list_nodes("eks", plenty)

    assert [found["metadata"]["name"] for found in nodes] == list("abcde")
    assert len(api.requests) == 3


def test_the_function_looks_at_a_real_api(api: NodesFake) -> None:
    api.nodes = [node("a")]

    assert is_complete(waiting(), Context(60)) == {"IsComplete": True}


def test_lambda_s_time_is_never_used_up_by_one_look(api: NodesFake) -> None:
    api.nodes = [node("a")]

    assert is_complete(waiting(until=datetime.now(UTC) + timedelta(hours=1)), Context(5)) == {
        "IsComplete": False
    }
    assert api.requests == []


def test_a_cluster_of_many_pages_is_left_when_time_is_up(api: NodesFake) -> None:
    api.nodes = [node(str(number)) for number in range(100)]
    left = iter([30.0, 20.0, 10.0, 0.0])

    with pytest.raises(ClusterError, match="time that Lambda gives is used up"):
        list_nodes("eks", lambda: next(left))

    assert len(api.requests) == 2


@pytest.mark.parametrize(
    ("refusal", "hint"),
    [
        pytest.param(401, "access entry", id="not let in"),
        pytest.param(403, "ClusterRole", id="not allowed"),
        pytest.param(500, "HTTP 500", id="broken"),
    ],
)
def test_a_refusal_says_what_to_look_at(api: NodesFake, refusal: int, hint: str) -> None:
    api.refuse["GET"] = refusal

    with pytest.raises(ClusterError, match=hint):
        list_nodes("eks", plenty)


def test_a_server_of_another_authority_is_not_asked(api: NodesFake) -> None:
    found = eks_cluster("eks")
    found.certificate_authority = {"data": base64.b64encode(Authority.create().pem.encode()).decode()}

    with pytest.raises(ClusterError, match="certificate"):
        list_nodes("eks", plenty)

    assert api.requests == []


def test_a_silent_cluster_is_given_up(api: NodesFake, monkeypatch: pytest.MonkeyPatch) -> None:
    api.silent = True
    monkeypatch.setattr(cluster_module, "CALL_TIMEOUT_SECONDS", 0.2)

    with pytest.raises(ClusterError, match="can the function reach"):
        list_nodes("eks", plenty)


@pytest.mark.parametrize("name", ["endpoint", "certificate_authority"])
def test_a_cluster_that_is_not_up_yet_says_so(api: NodesFake, name: str) -> None:
    found = eks_cluster("eks")
    setattr(found, name, "" if name == "endpoint" else {})

    with pytest.raises(ClusterError, match="no endpoint yet"):
        list_nodes("eks", plenty)


def test_a_certificate_that_is_none_is_named(api: NodesFake) -> None:
    found = eks_cluster("eks")
    found.certificate_authority = {"data": "!"}

    with pytest.raises(ClusterError, match="holds no certificate"):
        list_nodes("eks", plenty)


def test_a_cluster_that_does_not_exist_is_named(aws: None) -> None:
    with pytest.raises(ClusterError, match="cannot describe the cluster other"):
        list_nodes("other", plenty)


@pytest.mark.parametrize(
    ("module", "inside"),
    [
        pytest.param("hypertier_lambdas.readiness.handler", "hypertier_lambdas", id="the package"),
        pytest.param("readiness.handler", ".", id="its content"),
    ],
)
def test_the_handler_is_found_in_an_asset_alone(module: str, inside: str, tmp_path: Path) -> None:
    shutil.copytree(Path(hypertier_lambdas.__file__).parent, tmp_path / inside, dirs_exist_ok=True)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {module} as m; print(m.__file__)"

    ran = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(tmp_path))
