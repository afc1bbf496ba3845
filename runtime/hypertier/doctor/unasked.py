"""What AWS's APIs can't tell, and who can."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.doctor.checks.stored import is_elasticache
from hypertier.planning.bill import uncounted_groups
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig


def not_asked(deployment: Deployment) -> tuple[str, ...]:
    """A line for each thing that the file names and no check looks at."""
    return tuple(_lines(deployment))


def _lines(deployment: Deployment) -> Iterator[str]:
    secrets = {
        (endpoint.namespace, name)
        for endpoint in deployment.endpoints
        for name in _secret_names(deployment, endpoint)
    }
    for namespace, name in sorted(secrets):
        yield f"Kubernetes' Secret {name}: kubectl get secret --namespace {namespace} {name}"
    existing = deployment.cache.l2.existing
    if existing is not None and not is_elasticache(existing):
        yield f"the store {existing.url}, which is not ElastiCache's"
    yield from _karpenter(deployment)


def _karpenter(deployment: Deployment) -> Iterator[str]:
    for name in uncounted_groups(deployment):
        yield (
            f"quota, addresses and capacity for nodes that Karpenter adds to {name}: as many as its "
            "NodePool's limits allow"
        )


def _secret_names(deployment: Deployment, endpoint: InferenceEndpointConfig) -> Iterator[str]:
    """The Secrets beside an endpoint that nobody but its owner makes."""
    l2, routing, access, verify = (
        deployment.cache.l2,
        deployment.routing,
        deployment.access,
        deployment.verify,
    )
    hugging_face = endpoint.spec.model_source_config.hugging_face_model
    token = hugging_face.token_secret_ref if hugging_face else None
    named = [
        access and access.secret_name,
        None if l2.encryption_secret_arn else l2.encryption_secret,
        routing.tls and routing.tls.secret_name,
        verify and verify.api_key_secret_name,
        token and token.name,
    ]
    tls = routing.engine_tls
    if tls is not None and tls.issuer_ref is None:  # else cert-manager makes them
        named.append(tls.secret_name or f"{endpoint.name}-engine-tls")
        if tls.mutual:
            named.append(tls.client_secret_name or f"{endpoint.name}-client-tls")
    yield from (name for name in named if name)
