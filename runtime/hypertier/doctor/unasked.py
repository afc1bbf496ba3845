"""What AWS's APIs can't tell, and who can."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.doctor.checks.stored import is_elasticache
from hypertier.spec.deployment import Deployment


def not_asked(deployment: Deployment) -> tuple[str, ...]:
    """A line for each thing that the file names and no check looks at."""
    return tuple(_lines(deployment))


def _lines(deployment: Deployment) -> Iterator[str]:
    namespaces = sorted({endpoint.namespace for endpoint in deployment.endpoints})
    for name in sorted(set(_secret_names(deployment))):
        for namespace in namespaces:
            yield f"Kubernetes' Secret {name}: kubectl get secret --namespace {namespace} {name}"
    existing = deployment.cache.l2.existing
    if existing is not None and not is_elasticache(existing):
        yield f"the store {existing.url}, which is not ElastiCache's"


def _secret_names(deployment: Deployment) -> Iterator[str]:
    l2, routing, access = deployment.cache.l2, deployment.routing, deployment.access
    if access is not None and access.secret_name is not None:
        yield access.secret_name
    if l2.encryption_secret is not None and l2.encryption_secret_arn is None:
        yield l2.encryption_secret
    if routing.tls is not None:
        yield routing.tls.secret_name
