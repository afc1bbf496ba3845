"""The way in from outside the cluster: an internal Application Load Balancer with TLS, before the routers.

Annotations of the AWS Load Balancer Controller, which must be on the cluster:
https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/
(read 2026-12-01).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import CustomCertificateConfig, InferenceEndpointConfig
from hypertier.spec.routing import BALANCER_IDLE_SECONDS
from hypertier_cdk.charts.inputs import TOKEN_MARK, ChartInputs, client_cidrs, refuse
from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import Object, metadata

SSL_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
ALGORITHM = "least_outstanding_requests"
CERTIFICATE = re.compile(r"arn:aws[a-z-]*:acm:([a-z0-9-]+):[0-9]{12}:certificate/.+")
DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")
PREFIX = "alb.ingress.kubernetes.io"


def ingress_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> list[Object]:
    """An Ingress where the manifest brings a certificate; nothing where it has no `tlsConfig`.

    Raises:
        ConfigError: a certificate or domain that cannot work, or none.
    """
    tls = endpoint.spec.tls_config
    if tls is None:
        return []
    certificate = tls.custom_certificate_config
    if certificate is None:
        raise refuse(
            endpoint,
            "spec.tlsConfig.customCertificateConfig",
            None,
            "acmArn and domainName of a certificate: with serving: selfhosted nothing makes one",
        )
    _check(deployment, endpoint, certificate)
    annotations = _annotations(deployment, endpoint, certificate, client_cidrs(deployment, inputs))
    port = "http" if deployment.routing.tls is None else "https"
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": metadata(names, "router", annotations),
            "spec": {
                "ingressClassName": "alb",
                "rules": [
                    {
                        "host": certificate.domain_name,
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {
                                        "service": {"name": names.of("router"), "port": {"name": port}}
                                    },
                                }
                            ]
                        },
                    }
                ],
            },
        }
    ]


def balancer_idle_seconds(endpoint: InferenceEndpointConfig) -> int | None:
    """After how long a silence the load balancer before an endpoint's routers cuts; None without one."""
    if endpoint.spec.tls_config is None:
        return None
    balancer = endpoint.spec.load_balancer
    return (balancer.idle_timeout_seconds if balancer else None) or BALANCER_IDLE_SECONDS


def _annotations(
    deployment: Deployment,
    endpoint: InferenceEndpointConfig,
    certificate: CustomCertificateConfig,
    clients: Sequence[str],
) -> dict[str, str]:
    balancer = endpoint.spec.load_balancer
    algorithm = (balancer.routing_algorithm if balancer else None) or ALGORITHM
    balancer_attributes = {
        "idle_timeout.timeout_seconds": balancer_idle_seconds(endpoint),
        "routing.http.drop_invalid_header_fields.enabled": "true",
    }
    target_attributes = {
        "load_balancing.algorithm.type": algorithm,
        "deregistration_delay.timeout_seconds": min(deployment.routing.timeouts.seconds("drain"), 3600),
    }
    values = {
        "scheme": "internal",
        "target-type": "ip",
        "listen-ports": json.dumps([{"HTTPS": 443}]),
        "certificate-arn": certificate.acm_arn,
        "ssl-policy": SSL_POLICY,
        "healthcheck-path": "/health",
        "healthcheck-interval-seconds": "5",
        "healthcheck-timeout-seconds": "3",
        "unhealthy-threshold-count": "2",
        "load-balancer-attributes": _listed(balancer_attributes),
        "target-group-attributes": _listed(target_attributes),
    }
    if deployment.routing.tls is not None:  # the load balancer looks at no certificate of routers
        values |= {"backend-protocol": "HTTPS", "healthcheck-protocol": "HTTPS"}
    if clients:
        values["inbound-cidrs"] = ",".join(clients)
    return {f"{PREFIX}/{name}": value for name, value in values.items()}


def _listed(attributes: Mapping[str, object]) -> str:
    return ",".join(f"{name}={value}" for name, value in attributes.items())


def _check(
    deployment: Deployment, endpoint: InferenceEndpointConfig, certificate: CustomCertificateConfig
) -> None:
    path = "spec.tlsConfig.customCertificateConfig"
    match = CERTIFICATE.fullmatch(certificate.acm_arn)
    if TOKEN_MARK not in certificate.acm_arn and (match is None or match[1] != deployment.region):
        raise refuse(
            endpoint,
            f"{path}.acmArn",
            certificate.acm_arn,
            f"arn:aws:acm:{deployment.region}:ACCOUNT:certificate/ID: load balancers use certificates of "
            "their own region",
        )
    if len(certificate.domain_name) > 253 or not DOMAIN.fullmatch(certificate.domain_name):
        raise refuse(
            endpoint,
            f"{path}.domainName",
            certificate.domain_name,
            "a domain name in lower case, without a wildcard",
        )
