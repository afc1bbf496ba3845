"""What is encrypted, with whose key: one line for each thing that keeps or carries data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypertier_cdk.review.kubernetes import objects_of, of_kind
from hypertier_cdk.review.templates import Assembly, Resource, text_of

NONE = "not encrypted"


@dataclass(frozen=True, slots=True)
class Encryption:
    """At rest: whose key, or "not encrypted". In transit: how, or "" where nothing travels."""

    stack: str
    what: str
    at_rest: str
    in_transit: str = ""

    @property
    def is_open(self) -> bool:
        """Something here is not encrypted."""
        return NONE in (self.at_rest, self.in_transit)


def encryption_of(assembly: Assembly) -> tuple[Encryption, ...]:
    """One line a resource that keeps data, in the order of the templates, then one an endpoint's traffic."""
    return tuple(
        Encryption(resource.stack, what, at_rest, in_transit)
        for resource in assembly.resources
        if (read := _READERS.get(resource.type)) is not None
        for what, at_rest, in_transit in read(resource)
    ) + tuple(_traffic(assembly))


def _traffic(assembly: Assembly) -> Iterator[Encryption]:
    """Requests, where hypertier serves them itself: to routers, and from them to engines."""
    objects = objects_of(assembly)
    outside = {entry["metadata"]["name"] for entry in of_kind(objects, "Ingress")}
    for service in of_routers(objects, "Service"):
        name = service["metadata"]["name"]
        yield Encryption("Kubernetes", f"{name}: requests", "", _to_routers(service, name in outside))
    for deployment in of_routers(objects, "Deployment"):
        name = deployment["metadata"]["name"]
        yield Encryption("Kubernetes", f"{name}: requests to engines", "", _to_engines(deployment))


def of_routers(objects: tuple[dict[str, Any], ...], kind: str) -> Iterator[dict[str, Any]]:
    """The objects of a kind that routers are made of."""
    for entry in of_kind(objects, kind):
        if entry["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "router":
            yield entry


def _to_routers(service: Mapping[str, Any], is_outside: bool) -> str:
    by_tls = any(port.get("name") == "https" for port in service["spec"].get("ports", ()))
    inside = f"{'TLS' if by_tls else 'HTTP'} inside the network"
    return f"TLS to the load balancer, then {inside}" if is_outside else inside


def _to_engines(deployment: Mapping[str, Any]) -> str:
    pod = deployment["spec"].get("template", {}).get("spec", {})
    arguments = [word for container in pod.get("containers", ()) for word in container.get("args", ())]
    if "--replica-ca" not in arguments:
        return "HTTP inside the network, kept to routers and the exporter by policies"
    return "TLS, both sides show certificates" if "--replica-cert" in arguments else "TLS"


def _key(value: Any, otherwise: str) -> str:
    return f"customer key {text_of(value)}" if value else otherwise


Line = tuple[str, str, str]


def _eks(resource: Resource) -> Iterator[Line]:
    keys = [entry.get("Provider", {}).get("KeyArn") for entry in resource.get("EncryptionConfig", default=())]
    yield (
        f"{resource.path}: Kubernetes secrets",
        _key(keys[0] if keys else None, "key of EKS"),
        "TLS, by EKS",
    )


def _replication_group(resource: Resource) -> Iterator[Line]:
    rest = (
        _key(resource.get("KmsKeyId"), "key of ElastiCache")
        if resource.get("AtRestEncryptionEnabled")
        else NONE
    )
    yield (
        f"{resource.path}: KV cache in L2",
        rest,
        f"TLS, {resource.get('TransitEncryptionMode', default='required')}"
        if resource.get("TransitEncryptionEnabled")
        else NONE,
    )


def _hyperpod(resource: Resource) -> Iterator[Line]:
    for group in resource.get("InstanceGroups", default=()):
        volumes = [
            entry["EbsVolumeConfig"].get("VolumeKmsKeyId")
            for entry in group.get("InstanceStorageConfigs", ())
            if "EbsVolumeConfig" in entry
        ]
        key = next((volume for volume in volumes if volume), None)
        yield f"{resource.path}: volumes of group {group['InstanceGroupName']}", _key(key, "key of EBS"), ""
    if resource.get("TieredStorageConfig", "Mode") == "Enable":
        # AWS documents no encryption of what its daemon keeps in the nodes' memory.
        yield f"{resource.path}: KV cache in tiered storage, in the nodes' memory", NONE, "by HyperPod"


def _bucket(resource: Resource) -> Iterator[Line]:
    rules = resource.get("BucketEncryption", "ServerSideEncryptionConfiguration", default=())
    default = rules[0].get("ServerSideEncryptionByDefault", {}) if rules else {}
    kms = default.get("KMSMasterKeyID")
    yield f"{resource.path}: objects", _key(kms, "key of S3"), "TLS where its policy demands it"


def _queue(resource: Resource) -> Iterator[Line]:
    managed = "key of SQS" if resource.get("SqsManagedSseEnabled") is not False else NONE
    yield f"{resource.path}: messages", _key(resource.get("KmsMasterKeyId"), managed), "TLS"


def _with_key(what: str, property_name: str, otherwise: str) -> Callable[[Resource], Iterator[Line]]:
    def read(resource: Resource) -> Iterator[Line]:
        yield f"{resource.path}: {what}", _key(resource.get(property_name), otherwise), "TLS"

    return read


_READERS: dict[str, Callable[[Resource], Iterator[Line]]] = {
    "AWS::EKS::Cluster": _eks,
    "AWS::ElastiCache::ReplicationGroup": _replication_group,
    "AWS::SageMaker::Cluster": _hyperpod,
    "AWS::S3::Bucket": _bucket,
    "AWS::SQS::Queue": _queue,
    "AWS::SNS::Topic": _with_key("messages", "KmsMasterKeyId", NONE),
    "AWS::Logs::LogGroup": _with_key("logs", "KmsKeyId", "key of CloudWatch Logs"),
    "AWS::SecretsManager::Secret": _with_key("secret", "KmsKeyId", "key of Secrets Manager"),
    "AWS::APS::Workspace": _with_key("metrics", "KmsKeyArn", "key of Prometheus"),
}
