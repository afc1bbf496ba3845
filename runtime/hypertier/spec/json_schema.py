"""JSON Schema of the manifests and of the deployment file, for completion and checks in editors.

What it says of types comes from the types; what spans fields is for the rules alone.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from hypertier.catalog.cache_nodes import FAMILIES
from hypertier.spec.deployment import CONTROLLER_MODES, SERVING_MODES, DeploymentFile
from hypertier.spec.endpoint import L2_BACKENDS, InferenceEndpointConfig
from hypertier.spec.instance_group import TAINT_EFFECTS
from hypertier.spec.jumpstart import JumpStartModel
from hypertier.spec.structure import required_names, typed_fields
from hypertier.spec.tree import Path, dotted

DIALECT = "http://json-schema.org/draft-07/schema#"  # the newest that VS Code's YAML extension knows whole
KINDS: dict[str, type] = {
    "endpoint": InferenceEndpointConfig,
    "jumpstart": JumpStartModel,
    "deployment": DeploymentFile,
}
_TYPES: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_BOUNDS = {
    "choices": "enum",
    "pattern": "pattern",
    "minimum": "minimum",
    "maximum": "maximum",
    "max_length": "maxLength",
    "max_items": "maxItems",
}
# Keys of the deployment file, whose types carry defaults instead of descriptions.
DEPLOYMENT_KEYS: Mapping[str, str] = {
    "apiVersion": "hypertier.dev/v1",
    "kind": "Deployment",
    "name": "Names stacks, Helm releases and Kubernetes objects; at most 51 characters.",
    "region": "The AWS region.",
    "serving": "selfhosted: our engines and router; operator: AWS's inference operator.",
    "operator": "AWS's inference operator, for serving: operator.",
    "operator.version": "Its version; fields that it does not have are errors.",
    "cluster": "The EKS and HyperPod cluster.",
    "cluster.kubernetesVersion": "Version of a new EKS cluster.",
    "cluster.existing": "Name of an existing HyperPod cluster, instead of a new one.",
    "cluster.attributes": "What AWS says of what exists: a VPC, an EKS cluster, a HyperPod cluster.",
    "cluster.closedNetwork": "Whether the cluster has no way to the internet.",
    "cluster.clientCidrs": "Where clients are beside the VPC and the cluster's own pods, as CIDRs.",
    "cluster.autoscaling": "Whether HyperPod's Karpenter fills groups of count 0.",
    "instanceGroups": "Nodes of the HyperPod cluster.",
    "instanceGroups[].name": "Name of the group.",
    "instanceGroups[].instanceType": "SageMaker instance type, which begins with ml.",
    "instanceGroups[].count": "Nodes in the group.",
    "instanceGroups[].instanceTypes": "Types that are tried in their order where instanceType is not had.",
    "instanceGroups[].minCount": "Nodes without which the group's first start is rolled back.",
    "instanceGroups[].availabilityZoneId": "Zone, such as usw2-az2; a training plan is bound to one.",
    "instanceGroups[].trainingPlanArn": "Training plan that the nodes come from.",
    "instanceGroups[].spot": "Whether the nodes are spot capacity, which EC2 may take back.",
    "instanceGroups[].volume": "A second volume of each node, at /opt/sagemaker.",
    "instanceGroups[].volume.size": "Its size, such as 500Gi.",
    "instanceGroups[].volume.kmsKeyArn": "KMS key of yours that encrypts it; else the cluster makes one.",
    "instanceGroups[].rootVolumeKmsKeyArn": "KMS key of yours for the root volume; else one of AWS's.",
    "instanceGroups[].labels": "Kubernetes labels of the nodes.",
    "instanceGroups[].taints": "Kubernetes taints of the nodes; GPU groups have nvidia.com/gpu by default.",
    "instanceGroups[].taints[].key": "Key of the taint.",
    "instanceGroups[].taints[].value": "Value of the taint.",
    "instanceGroups[].taints[].effect": "What becomes of pods that do not tolerate it.",
    "instanceGroups[].deepHealthChecks": "What each node goes through before it takes pods.",
    "instanceGroups[].patchSchedule": "When nodes get a new image.",
    "instanceGroups[].patchSchedule.cron": "Schedule, such as cron(0 3 ? * SUN *).",
    "instanceGroups[].patchSchedule.batchPercent": "How many nodes at a time, in percent.",
    "instanceGroups[].patchSchedule.rollbackAlarmNames": "CloudWatch alarms that roll the image back.",
    "instanceGroups[].efaOnly": "Whether the network interfaces are for EFA alone, without addresses.",
    "instanceGroups[].lifecycle": "Script that HyperPod runs on each node after its own setup of it.",
    "instanceGroups[].lifecycle.source": "Folder or script beside this file, or s3://sagemaker-...",
    "instanceGroups[].lifecycle.file": "The script's name in source; not needed where source is one file.",
    "cache": "Sizes of the cache tiers; the manifests say which of them an endpoint uses.",
    "cache.l1": "Host memory of each node.",
    "cache.l1.size": "Amount per node, such as 800Gi, or auto for half of what is left.",
    "cache.l2": "The store that all replicas share.",
    "cache.l2.backend": "redis: an ElastiCache Valkey store; tieredstorage: HyperPod's own.",
    "cache.l2.bandwidth": "What the store must deliver to all replicas together, such as 8GB/s.",
    "cache.l2.size": "What the store must hold, such as 2Ti.",
    "cache.l2.nodeFamily": "Family of the store's nodes: r7g, r8g for memory; c7gn, c8gn for bandwidth.",
    "cache.l2.ttl": "How long an entry lives without being read, such as 24h.",
    "cache.l2.memoryPercent": "Share of a node's memory for tiered storage, in percent.",
    "cache.l2.memory": "Or an amount for it of each node that engines run on, such as 400Gi.",
    "cache.l2.tenants": "What tenants may keep, by the names of access.tenants.",
    "cache.l2.tenants[].name": "The tenant; * stands for all others, - for requests without a cache_salt.",
    "cache.l2.tenants[].quota": "What it may keep for each endpoint, such as 100Gi; 0 for nothing.",
    "cache.l2.tenants[].ttl": "How long its entries live without being read, such as 1h.",
    "cache.l2.kvEvents": "Whether engines announce what they store, beside what their GPU and L1 hold.",
    "cache.l2.encryptionSecret": "Secret whose key, or ARN of what, engines encrypt with: 32 bytes, base64.",
    "cache.l2.existing": "A Valkey store that exists already, taken as it is.",
    "cache.l2.existing.url": "Its address, such as rediss://store.internal:6379.",
    "cache.l2.existing.secretArn": "Secret in Secrets Manager with its username and password.",
    "cache.l2.existing.keyArn": "Customer key that the secret is encrypted with.",
    "images": "Container images that exist already, instead of building them.",
    "images.engine": "Image of the engine.",
    "images.router": "Image of the router.",
    "images.prePull": "Whether nodes with GPUs get the engine's image before an engine comes to them.",
    "controllers": "What endpoints need in the cluster beside the operator: installed, or there already.",
    "controllers.keda": "install or existing: KEDA, for an autoScalingSpec.",
    "controllers.loadBalancer": "install or existing: the AWS Load Balancer Controller, for a tlsConfig.",
    "controllers.registry": "ECR registry with copies of their charts and images, for a closed network.",
    "scaling": "How many engine replicas.",
    "scaling.min": "Least replicas; 0 for none while nobody asks.",
    "scaling.max": "Most replicas.",
    "scaling.toZero": "With a least of 0, when there is no replica, and how requests wait for one.",
    "scaling.toZero.idle": "How long nobody asks before that, such as 30m.",
    "scaling.toZero.hold": "How long a request waits for a replica, such as 10m.",
    "scaling.toZero.maxHeld": "Requests that wait in each process of a router at most.",
    "scaling.schedules": "Other bounds from a moment on, until the next schedule's.",
    "scaling.schedules[].name": "Names the bounds; lower-case letters, digits and hyphens, at most 32.",
    "scaling.schedules[].cron": "When, again and again: cron(30 7 ? * MON-FRI *).",
    "scaling.schedules[].at": "When, once: 2027-03-01T08:00:00.",
    "scaling.schedules[].timeZone": "IANA time zone; UTC by default.",
    "scaling.schedules[].minReplicas": "Least replicas from then on, or 0; scaling.min by default.",
    "scaling.schedules[].maxReplicas": "Most replicas from then on; scaling.max by default.",
    "scaling.prefill": "Of engines that prefill, with a pdSpec.",
    "scaling.prefill.min": "Least of them.",
    "scaling.prefill.max": "Most of them.",
    "scaling.decode": "Of engines that decode, with a pdSpec.",
    "scaling.decode.min": "Least of them.",
    "scaling.decode.max": "Most of them.",
    "scaling.monthlyBudgetUsd": "What a month may cost, in US dollars.",
    "access": "Who may ask the endpoints, how much, and when it is their turn.",
    "access.secretName": "Secret with the files keys and salt-key.",
    "access.jwt": "Whose JWTs are taken, beside API keys.",
    "access.jwt.jwks": "https URL, or path, of a JWK Set.",
    "access.jwt.issuer": "Who issues the tokens.",
    "access.jwt.audience": "Whom the tokens are for.",
    "access.jwt.tenantClaim": "Claim that names the tenant.",
    "access.jwt.algorithms": "Signatures that are taken; asymmetric ones alone.",
    "access.jwt.leeway": "How far clocks may differ, such as 60s.",
    "access.tenants": "Tenants with limits of their own.",
    "access.tenants[].name": "As the tenant's keys and JWTs name it.",
    **{
        f"access.{of}.{key}": text
        for of in ("tenants[]", "default")
        for key, text in {
            "requestsPerMinute": "Requests a minute; no key for no limit.",
            "tokensPerMinute": "Tokens a minute, of prompts and answers; no key for no limit.",
            "concurrentRequests": "Requests at once; no key for no limit.",
            "weight": "Share of the engines while requests wait.",
            "priority": "Lower ones go first.",
        }.items()
    },
    "access.default": "Limits of each tenant without an entry.",
    "access.queue": "Requests wait in the router once engines have enough of them.",
    "access.queue.maxInFlightPerReplica": "Requests that an engine has at most, on average.",
    "access.queue.size": "Requests that wait in a router at most, for models that share replicas.",
    "access.queue.timeout": "How long one waits, such as 30s.",
    "access.sharedCache": "Whether tenants find what others have cached.",
    "access.paths": "Paths of engines for tenants, beside those of OpenAI's API.",
    "endpoints": "Endpoint manifests, as paths relative to this file.",
}
_DEPLOYMENT_CHOICES = {
    "serving": SERVING_MODES,
    "instanceGroups[].taints[].effect": TAINT_EFFECTS,
    "cache.l2.backend": L2_BACKENDS,
    "cache.l2.nodeFamily": FAMILIES,
    "controllers.keda": CONTROLLER_MODES,
    "controllers.loadBalancer": CONTROLLER_MODES,
}


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of `endpoint`, `jumpstart` or `deployment`."""
    cls = KINDS[kind]
    schema = {"$schema": DIALECT, "title": cls.__name__} | _object(cls, ())
    constants = {"kind": "Deployment" if kind == "deployment" else cls.__name__}
    if kind == "deployment":
        constants["apiVersion"] = DEPLOYMENT_KEYS["apiVersion"]
    for name, value in constants.items():
        schema["properties"][name]["const"] = value
    schema["required"] = sorted({*schema.get("required", ()), "apiVersion", "kind"})
    return schema


def _object(cls: type, where: Path) -> dict[str, Any]:
    properties = {
        name: _field(hint, about, (*where, name)) for name, (hint, about) in typed_fields(cls).items()
    }
    schema: dict[str, Any] = {
        "type": "object",
        "description": first_paragraph(cls),
        "properties": properties,
        "additionalProperties": False,
    }
    required = list(required_names(cls))
    return schema | ({"required": required} if required else {})


def _field(hint: Any, about: Mapping[str, Any], where: Path) -> dict[str, Any]:
    schema = _typed(hint, where)
    said = about.get("doc") or DEPLOYMENT_KEYS.get(dotted(where))
    if said is not None:
        schema["description"] = said + (f" Since operator {about['since']}." if "since" in about else "")
    for name, keyword in _BOUNDS.items():
        if name in about:
            value = about[name]
            schema[keyword] = list(value) if isinstance(value, tuple) else _portable(value)
    if dotted(where) in _DEPLOYMENT_CHOICES:
        schema["enum"] = list(_DEPLOYMENT_CHOICES[dotted(where)])
    if about.get("open_ended"):
        schema["additionalProperties"] = True
    return schema


def _portable(value: Any) -> Any:
    """A pattern without the inline flag that JSON Schema's expressions don't have."""
    if isinstance(value, str) and value.startswith("(?i)"):
        return "".join(
            f"[{letter.upper()}{letter}]" if letter.isalpha() else letter
            for letter in value.removeprefix("(?i)")
        )
    return value


def _typed(hint: Any, where: Path) -> dict[str, Any]:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _object(hint, where)
    if typing.get_origin(hint) is tuple:
        inside = (*where[:-1], f"{where[-1]}[]")
        return {"type": "array", "items": _typed(typing.get_args(hint)[0], inside)}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    return {"type": "object"}


def first_paragraph(cls: type) -> str:
    """What a type's docstring says first, in one line."""
    return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
