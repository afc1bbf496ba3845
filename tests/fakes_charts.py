"""Deployments for chart tests: the reference, with fields of its endpoint manifest changed by path."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from hypertier.spec.access import Access
from hypertier.spec.cache_tiers import L1, L2, CacheTiers
from hypertier.spec.deployment import Deployment, Disaggregation, Images, Scaling, load_deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.routing import ClientTls, Routing
from hypertier.spec.verify import Verify

REFERENCE = Path(__file__).parent.parent / "examples" / "reference"
MANIFEST = yaml.safe_load((REFERENCE / "llama-70b.yaml").read_text(encoding="utf-8"))


def endpoint(changes: Mapping[str, Any] | None = None) -> InferenceEndpointConfig:
    """The reference endpoint with `{"spec.replicas": 3}` and the like; None takes the field out."""
    manifest = copy.deepcopy(MANIFEST)
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        place = manifest
        for key in parents:
            place = place.setdefault(key, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = copy.deepcopy(value)
    return InferenceEndpointConfig.from_manifest(manifest)


def deployment(changes: Mapping[str, Any] | None = None, **fields: Any) -> Deployment:
    """The reference deployment with a changed endpoint, and fields of `Deployment` replaced."""
    reference = load_deployment(REFERENCE / "deployment.yaml")
    return replace(reference, **{"endpoints": (endpoint(changes),), **fields})


SOURCE = "spec.modelSourceConfig"
PREFILL_AND_DECODE = {"prefillSpec": {"replicas": 1}, "decodingSpec": {"replicas": 1}}
SPLIT = {"prefillSpec": {"replicas": 2}, "decodingSpec": {"replicas": 5}}
HUGGING_FACE = {
    "modelSourceType": "huggingface",
    "huggingFaceModel": {
        "modelId": "meta-llama/Llama-3.1-70B-Instruct",
        "commitSHA": "1605565b47bb9346c5515c34102e054115b4f98b",
        "tokenSecretRef": {"name": "hugging-face", "key": "token"},
    },
}
FSX = {
    "modelSourceType": "fsx",
    "modelLocation": "/models/llama",
    "fsxStorage": {"fileSystemId": "fs-0123456789abcdef0", "dnsName": "fs-0.fsx.example", "mountName": "m"},
}
VOLUME = {
    "spec.modelSourceConfig": {"modelSourceType": "kubernetesVolume"},
    "spec.kubernetes": {
        "volumes": [
            {
                "name": "model-weights",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "200Gi"}},
                        }
                    }
                },
            }
        ],
        "tolerations": [{"key": "team", "operator": "Equal", "value": "llm", "effect": "NoSchedule"}],
        "podTemplateAnnotations": {"example.com/owner": "llm"},
        "schedulerName": "default-scheduler",
    },
}
SMALL = {
    "spec.instanceType": "ml.g5.12xlarge",
    "spec.worker.args": ["--max-model-len", "8192"],
    "spec.worker.resources": {"limits": {"nvidia.com/gpu": 4}},
    "spec.worker.probes": None,
}
SMALL_GROUPS = (InstanceGroup(name="gpu", instance_type="ml.g5.12xlarge", count=2),)
AUTO_CACHE = replace(deployment().cache, l1=replace(deployment().cache.l1, size="auto"))

TIERED = {"spec.kvCacheSpec.l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}
TIERED_CACHE = CacheTiers(l1=L1(size="800Gi"), l2=L2(backend="tieredstorage", memory_percent=20))

PROMETHEUS = {
    "prometheusTrigger": {
        "serverAddress": "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0a1b2c3d",
        "query": "sum(vllm:num_requests_waiting)",
        "targetValue": 4,
    }
}
KINDS_OF_DEPLOYMENT: dict[str, Callable[[], Deployment]] = {
    "reference": deployment,
    "L1 alone": lambda: deployment({"spec.kvCacheSpec.enableL2Cache": False}),
    "L2 alone": lambda: deployment({"spec.kvCacheSpec.enableL1Cache": False}),
    "tiered storage": lambda: deployment(TIERED, cache=TIERED_CACHE),
    "tiered storage without L1": lambda: deployment(
        {**TIERED, "spec.kvCacheSpec.enableL1Cache": False}, cache=TIERED_CACHE
    ),
    "no cache": lambda: deployment({"spec.kvCacheSpec": None}),
    "weights from Hugging Face": lambda: deployment({SOURCE: HUGGING_FACE}),
    "weights from FSx": lambda: deployment({SOURCE: FSX}),
    "weights from a volume": lambda: deployment(VOLUME),
    "session routing": lambda: deployment({"spec.intelligentRoutingSpec.routingStrategy": "session"}),
    "routing off": lambda: deployment({"spec.intelligentRoutingSpec": None}),
    "metrics off": lambda: deployment({"spec.metrics.enabled": False}),
    "one group of small nodes": lambda: deployment(SMALL, instance_groups=SMALL_GROUPS, cache=AUTO_CACHE),
    "images given": lambda: deployment(images=Images(engine="r.example/e:1", router="r.example/r:1")),
    "namespace default": lambda: deployment({"metadata.namespace": None}),
    "longest name": lambda: deployment({"metadata.name": "e" * 54}),
    "verified": lambda: deployment(verify=Verify()),
    "verified with a key, by TLS": lambda: deployment(
        verify=Verify(every_minutes=60, api_key_secret_name="a-key"),
        access=Access(secret_name="keys"),
        routing=Routing(tls=ClientTls(secret_name="router-tls")),
    ),
    "two endpoints of a namespace": lambda: deployment(
        endpoints=(endpoint(), endpoint({"metadata.name": "second"}))
    ),
    "one name in two namespaces": lambda: deployment(
        endpoints=(endpoint(), endpoint({"metadata.namespace": "other"}))
    ),
    "prefill and decode apart": lambda: deployment({"spec.pdSpec": SPLIT}, scaling=Scaling()),
    "prefill and decode apart by UCX, scaled": lambda: deployment(
        {
            "spec.pdSpec": {**SPLIT, "autoScalingSpec": {"prefillAutoScaling": PROMETHEUS}},
            "spec.kvCacheSpec": None,
        },
        disaggregation=Disaggregation(backend="UCX"),
        scaling=Scaling(),
    ),
    "operator": lambda: deployment(serving="operator"),
}
