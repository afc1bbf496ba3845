"""The way in from outside: internal, TLS, patient with long streams, and only with a certificate."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from fakes_charts import deployment
from kubernetes_gate import findings

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.objects import endpoint_objects, namespace_objects

ARN = "arn:aws:acm:us-west-2:123456789012:certificate/0a1b2c3d"
TLS = {"customCertificateConfig": {"acmArn": ARN, "domainName": "llm.example.com"}}
ALB = "alb.ingress.kubernetes.io/"


def objects_of(wanted: Deployment) -> list[dict[str, Any]]:
    return [
        *namespace_objects(wanted),
        *endpoint_objects(wanted, wanted.endpoints[0], ChartInputs()),
    ]


def annotations_of(changes: dict[str, Any]) -> dict[str, str]:
    (ingress,) = (
        e for e in objects_of(deployment({"spec.tlsConfig": TLS, **changes})) if e["kind"] == "Ingress"
    )
    annotations: dict[str, str] = ingress["metadata"]["annotations"]
    return annotations


def test_without_a_certificate_nobody_outside_comes_in() -> None:
    kinds = {entry["kind"] for entry in objects_of(deployment())}

    assert "Ingress" not in kinds


def test_the_ingress_passes_the_gate() -> None:
    objects = objects_of(deployment({"spec.tlsConfig": TLS}))

    assert findings(objects, "1.35") == []


def test_the_load_balancer_is_internal_and_speaks_tls_alone() -> None:
    annotations = annotations_of({})

    assert annotations[f"{ALB}scheme"] == "internal"
    assert annotations[f"{ALB}listen-ports"] == '[{"HTTPS": 443}]'
    assert annotations[f"{ALB}certificate-arn"] == ARN
    assert annotations[f"{ALB}ssl-policy"].startswith("ELBSecurityPolicy-TLS13")


@pytest.mark.parametrize(
    ("balancer", "idle", "algorithm"),
    [
        pytest.param(None, 1800, "least_outstanding_requests", id="a router's own patience"),
        pytest.param(
            {"idleTimeoutSeconds": 300, "routingAlgorithm": "round_robin"}, 300, "round_robin", id="written"
        ),
    ],
)
def test_the_load_balancer_waits_as_long_as_the_manifest_says(
    balancer: dict[str, Any] | None, idle: int, algorithm: str
) -> None:
    annotations = annotations_of({"spec.loadBalancer": balancer})

    assert f"idle_timeout.timeout_seconds={idle}," in annotations[f"{ALB}load-balancer-attributes"]
    assert f"algorithm.type={algorithm}," in annotations[f"{ALB}target-group-attributes"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"spec.tlsConfig": TLS}, ["--idle-timeout", "1860"], id="of hypertier's own patience"),
        pytest.param(
            {"spec.tlsConfig": TLS, "spec.loadBalancer": {"idleTimeoutSeconds": 300}},
            ["--idle-timeout", "360"],
            id="of the manifest's",
        ),
        pytest.param({"spec.loadBalancer": {"idleTimeoutSeconds": 300}}, [], id="no load balancer"),
    ],
)
def test_routers_keep_an_idle_connection_for_longer_than_the_load_balancer(
    changes: dict[str, Any], expected: list[str]
) -> None:
    (arguments,) = [
        each["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in objects_of(deployment(changes))
        if each["kind"] == "Deployment" and each["metadata"]["name"].endswith("-router")
    ]

    at = arguments.index("--idle-timeout") if "--idle-timeout" in arguments else len(arguments)
    assert arguments[at : at + 2] == expected


def test_a_router_that_leaves_keeps_its_connections_until_it_has_drained() -> None:
    wanted = deployment({"spec.tlsConfig": TLS})
    router = next(
        e
        for e in objects_of(wanted)
        if e["kind"] == "Deployment" and e["metadata"]["name"].endswith("router")
    )

    arguments = router["spec"]["template"]["spec"]["containers"][0]["args"]
    drain = arguments[arguments.index("--drain-seconds") + 1]
    assert (
        f"deregistration_delay.timeout_seconds={drain}" in annotations_of({})[f"{ALB}target-group-attributes"]
    )


def test_the_gate_sees_an_ingress_that_leads_nowhere() -> None:
    objects = objects_of(deployment({"spec.tlsConfig": TLS}))
    service = next(e for e in objects if e["kind"] == "Service" and e["metadata"]["name"].endswith("router"))

    service["spec"]["ports"][0]["name"] = "web"

    assert [f for f in findings(objects, "1.35") if f.startswith("ingresses_lead")]


CERTIFICATE = "spec.tlsConfig.customCertificateConfig"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no certificate": (
        {"spec.tlsConfig": {"tlsCertificateOutputS3Uri": "s3://hypertier-tls"}},
        r"customCertificateConfig is not set; expected acmArn and domainName",
    ),
    "a certificate of another region": (
        {f"{CERTIFICATE}.acmArn": ARN.replace("us-west-2", "eu-west-1")},
        r"acmArn is 'arn:aws:acm:eu-west-1:.*'; expected arn:aws:acm:us-west-2:",
    ),
    "no certificate's ARN": (
        {f"{CERTIFICATE}.acmArn": "cert-1"},
        r"acmArn is 'cert-1'; expected arn:aws:acm",
    ),
    "a wildcard": (
        {f"{CERTIFICATE}.domainName": "*.example.com"},
        r"domainName is '\*\.example\.com'; expected",
    ),
    "a domain with a line break": ({f"{CERTIFICATE}.domainName": "a.example.com\n"}, r"domainName is"),
    "a patience beyond the load balancer's": (
        {"spec.loadBalancer": {"idleTimeoutSeconds": 4001}},
        r"idleTimeoutSeconds is 4001; expected 1 to 4000",
    ),
    "an algorithm that is none": (
        {"spec.loadBalancer": {"routingAlgorithm": "random"}},
        r"routingAlgorithm is 'random'; expected least_outstanding_requests or round_robin",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_not_be_reached_is_refused(case: str) -> None:
    changes, message = REFUSED[case]

    with pytest.raises(ConfigError, match=message):
        objects_of(deployment({"spec.tlsConfig": copy.deepcopy(TLS), **changes}))
