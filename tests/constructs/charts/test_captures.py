"""A manifest's dataCapture becomes the router's flags, a volume, and who carries it to S3."""

from __future__ import annotations

from typing import Any

import pytest
from fakes_charts import deployment

from hypertier.spec.access import Access, Queue
from hypertier.spec.deployment import Deployment
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.names import ROUTER_METRICS_PORT
from hypertier_cdk.charts.objects import endpoint_objects

KEY = "arn:aws:kms:us-west-2:123456789012:key/12345678-1234-1234-1234-123456789012"
CAPTURE = {"s3Uri": "s3://ours/x", "modelPod": {"enabled": True, "kmsKeyId": KEY}}


def objects_of(wanted: Deployment) -> dict[tuple[str, str], dict[str, Any]]:
    objects = endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())
    return {(entry["kind"], entry["metadata"]["name"].removeprefix("llama-70b-")): entry for entry in objects}


def pod_of(wanted: Deployment) -> dict[str, Any]:
    pod: dict[str, Any] = objects_of(wanted)["Deployment", "router"]["spec"]["template"]["spec"]
    return pod


def test_who_carries_captures_starts_before_the_router_and_ends_after_it() -> None:
    pod = pod_of(deployment({"spec.dataCapture": CAPTURE}))

    (carrier,) = pod["initContainers"]
    (router,) = pod["containers"]
    assert carrier["restartPolicy"] == "Always"  # a sidecar, as Kubernetes has them
    assert carrier["args"] == [
        *("--spool", "/var/lib/captures", "--to", "s3://ours/x/llama-70b"),
        *("--kms-key-id", KEY, "--region", "us-west-2"),
    ]
    mount = {"name": "captures", "mountPath": "/var/lib/captures"}
    assert mount in carrier["volumeMounts"]
    assert mount in router["volumeMounts"]
    assert {"name": "captures", "emptyDir": {"sizeLimit": "512Mi"}} in pod["volumes"]
    assert carrier["securityContext"] == router["securityContext"]
    assert router["args"][router["args"].index("--capture-spool") + 1] == "/var/lib/captures"


def test_it_may_reach_aws_and_its_credentials() -> None:
    def reached(wanted: Deployment) -> list[Any]:
        egress: list[Any] = objects_of(wanted)["NetworkPolicy", "router"]["spec"]["egress"]
        return egress

    plain, capturing = reached(deployment()), reached(deployment({"spec.dataCapture": CAPTURE}))

    exporters = objects_of(deployment())["NetworkPolicy", "exporter"]["spec"]["egress"]
    added = [rule for rule in capturing if rule not in plain]
    assert len(added) == 2
    assert all(rule in exporters for rule in added)


@pytest.mark.parametrize(
    "capture",
    [
        pytest.param(None, id="no section"),
        pytest.param({"s3Uri": "s3://ours/x"}, id="no tier"),
        pytest.param({"s3Uri": "s3://ours/x", "modelPod": {"enabled": False}}, id="a tier that is off"),
    ],
)
def test_where_it_is_not_asked_for_nothing_is_captured(capture: dict[str, Any] | None) -> None:
    pod = pod_of(deployment({"spec.dataCapture": capture} if capture else {}))

    assert "initContainers" not in pod
    assert not any("capture" in word for word in pod["containers"][0]["args"])
    assert "captures" not in {volume["name"] for volume in pod["volumes"]}


def test_the_exporter_reads_what_routers_lost_and_what_waits_in_them() -> None:
    def read(wanted: Deployment) -> tuple[bool, bool, bool]:
        objects = objects_of(wanted)
        exporter = objects["Deployment", "exporter"]["spec"]["template"]["spec"]["containers"][0]
        ports = [
            rule["port"]
            for entry in objects["NetworkPolicy", "exporter"]["spec"]["egress"]
            for rule in entry["ports"]
        ]
        told = "--router-discover" in exporter["args"]
        return told, ROUTER_METRICS_PORT in ports, ("Service", "routers") in objects

    assert read(deployment({"spec.dataCapture": CAPTURE})) == (True, True, True)
    assert read(deployment(access=Access(queue=Queue(max_in_flight_per_replica=8)))) == (True, True, True)
    assert read(deployment()) == (False, False, False)
