"""Every rule broken once and kept once, on valid manifests: what the tests of rules and of fixes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fakes_manifests import (
    GPU,
    GROUP,
    REMOVED,
    changed,
    cluster,
    deployment,
    endpoint,
    gateway,
    jumpstart,
    service_account,
)

from hypertier.spec.rules.rule import (
    CLUSTER,
    DEPLOYMENT,
    ENDPOINT,
    GATEWAY,
    JUMPSTART,
    SERVICE_ACCOUNT,
)
from hypertier.spec.rules.subject import Subject, Surroundings
from hypertier.spec.tree import Document, View

BASES = {
    ENDPOINT: endpoint,
    JUMPSTART: jumpstart,
    DEPLOYMENT: deployment,
    GATEWAY: gateway,
    CLUSTER: cluster,
    SERVICE_ACCOUNT: service_account,
}
ROLE = {"replicas": 1, "resources": {"limits": {GPU: 8}}}
HALF = {"replicas": 1, "resources": {"limits": {GPU: 4}}}
PD = {"prefillSpec": ROLE, "decodingSpec": ROLE}


def split(prefill: Sequence[str] = (), decode: Sequence[str] = ()) -> dict[str, Any]:
    """A pdSpec whose engines have these arguments."""
    return {"prefillSpec": {**ROLE, "args": [*prefill]}, "decodingSpec": {**ROLE, "args": [*decode]}}


LMI = "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.36.0-lmi18.0.0-cu128"
CERTIFICATE = {"acmArn": "arn:aws:acm:eu-west-1:123456789012:certificate/abc", "domainName": "models.example"}
TAINTED = {"Taints": [{"Key": "team", "Value": "x", "Effect": "NoSchedule"}]}
HF = {"modelId": "meta-llama/Llama-3.1-8B-Instruct", "commitSHA": "0" * 40}
L2 = {"enableL1Cache": True, "enableL2Cache": True}
REDIS = {**L2, "l2CacheSpec": {"l2CacheBackend": "redis", "l2CacheLocalUrl": "rediss://cache.internal:6379"}}
TIERED = {**L2, "l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}
ROUTED = {"enabled": True, "routingStrategy": "prefixaware"}
KVAWARE = {
    "spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "kvaware"},
    "spec.invocationEndpoint": "v1/completions",
    "spec.worker.environmentVariables": [
        {"name": "PYTHONHASHSEED", "value": "0"},
        {"name": "SESSION_KEY", "value": "x-user"},
    ],
}
SESSION = {"spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "session"}}
AMP = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-0a1b2c3d"
PROMETHEUS = {"serverAddress": AMP, "query": "sum(vllm:num_requests_waiting)", "targetValue": 5}
CLOUDWATCH = {
    "namespace": "AWS/SageMaker",
    "metricName": "Invocations",
    "dimensions": [{"name": "EndpointName", "value": "llama-8b"}],
    "metricCollectionPeriod": 60,
    "metricCollectionStartTime": 300,
    "targetValue": 10,
}
SCALED = {"minReplicaCount": 1, "maxReplicaCount": 3, "prometheusTrigger": PROMETHEUS}
CW_SCALED = {"minReplicaCount": 1, "maxReplicaCount": 3, "cloudWatchTrigger": CLOUDWATCH}
WORKER = "spec.worker."
LIMITS, REQUESTS = f"{WORKER}resources.limits.", f"{WORKER}resources.requests."
OPERATOR = {**deployment(), "serving": "operator"}
SELFHOSTED = {**deployment(), "serving": "selfhosted"}


@dataclass(frozen=True)
class Case:
    """`broken` makes `rule` speak at `at` of a valid base; `whole` is a change that keeps it silent."""

    rule: str
    broken: Mapping[str, Any]
    at: str
    whole: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ENDPOINT
    deployment: Mapping[str, Any] | None = None
    operator: tuple[int, ...] | None = None
    siblings: tuple[Mapping[str, Any], ...] = ()
    name: str = ""


CASES = [
    # schema
    Case("unknown-field", {"spec.kvCacheSpec": {"enableL1cache": True}}, "spec.kvCacheSpec.enableL1cache"),
    Case(
        "unknown-field",
        {"spec.tlsCertificateOutputS3Uri": "s3://b"},
        "spec.tlsCertificateOutputS3Uri",
        name="place",
    ),
    Case("missing-field", {"spec.modelName": REMOVED}, "spec.modelName"),
    Case(
        "missing-field",
        {"spec.model.modelId": REMOVED},
        "spec.model.modelId",
        kind=JUMPSTART,
        name="jumpstart",
    ),
    Case(
        "missing-field",
        {"metadata": {"namespace": "inference"}},
        "metadata.name",
        {"metadata": {"generateName": "llama-"}},
        name="generated",
    ),
    Case("wrong-type", {"spec.replicas": "2"}, "spec.replicas"),
    Case("kind-or-version", {"apiVersion": f"{GROUP}/v2"}, "apiVersion", {"apiVersion": f"{GROUP}/v1alpha1"}),
    Case("name-too-long", {"metadata.name": "Llama_70B"}, "metadata.name", {"metadata.name": "llama-70b"}),
    Case(
        "not-a-choice",
        {"spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "prefixAware"}},
        "spec.intelligentRoutingSpec.routingStrategy",
        {"spec.intelligentRoutingSpec": ROUTED},
    ),
    Case(
        "out-of-bounds",
        {"spec.metrics.metricsScrapeIntervalSeconds": 1},
        "spec.metrics.metricsScrapeIntervalSeconds",
    ),
    Case(
        "out-of-bounds",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {**HF, "commitSHA": "main"},
            }
        },
        "spec.modelSourceConfig.huggingFaceModel.commitSHA",
        {"spec.modelSourceConfig": {"modelSourceType": "huggingface", "huggingFaceModel": HF}},
        name="pattern",
    ),
    Case(
        "version-v1alpha1",
        {
            "apiVersion": f"{GROUP}/v1alpha1",
            "spec.worker.args": REMOVED,
            "spec.worker.probes": REMOVED,
        },
        "spec.kvCacheSpec",
        {
            "apiVersion": f"{GROUP}/v1alpha1",
            "spec.worker.args": REMOVED,
            "spec.worker.probes": REMOVED,
            "spec.kvCacheSpec": REMOVED,
        },
    ),
    Case(
        "operator-too-old",
        {"spec.kubernetes": {"tolerations": [{"operator": "Exists"}]}},
        "spec.kubernetes.tolerations",
        {"spec.kubernetes": {"schedulerName": "kueue"}},
        operator=(3, 6),
    ),
    Case(
        "operator-too-old",
        {"spec.loadBalancer.idleTimeoutSeconds": 300},
        "spec.loadBalancer.idleTimeoutSeconds",
        operator=(3, 2),
        name="idle-timeout",
    ),
    # placement
    Case("instance-choice", {"spec.instanceTypes": ["ml.g5.12xlarge"]}, "spec.instanceTypes"),
    Case("instance-choice", {"spec.instanceType": REMOVED}, "spec.instanceType", name="none"),
    Case("instance-type-prefix", {"spec.instanceType": "p5.48xlarge"}, "spec.instanceType"),
    Case("instance-type-prefix", {"spec.instanceType": ""}, "spec.instanceType", name="empty"),
    Case(
        "instance-type-prefix",
        {"spec.server.instanceType": "g6.48xlarge"},
        "spec.server.instanceType",
        kind=JUMPSTART,
        name="jumpstart",
    ),
    Case("instance-type-unknown", {"spec.instanceType": "ml.p5.48xlarg"}, "spec.instanceType"),
    Case("tensor-parallel-size", {f"{WORKER}args.2": "8"}, "spec.worker.args[2]"),
    Case(
        "tensor-parallel-size",
        {f"{WORKER}args": ["--tensor-parallel-size=4", "--pipeline-parallel-size=2"]},
        "spec.worker.args[0]",
        {f"{WORKER}args": ["--tensor-parallel-size=2", "--pipeline-parallel-size=2"]},
        name="times-pipeline",
    ),
    Case("gpus-left-idle", {f"{WORKER}args.2": "2"}, "spec.worker.args[2]"),
    Case(
        "gpus-of-type",
        {f'{LIMITS}"{GPU}"': 8, f'{REQUESTS}"{GPU}"': 8},
        f"spec.worker.resources.limits.{GPU}",
    ),
    Case(
        "no-gpu",
        {f'{LIMITS}"{GPU}"': REMOVED, f'{REQUESTS}"{GPU}"': REMOVED},
        f"spec.worker.resources.limits.{GPU}",
    ),
    Case("gpu-request-unlike-limit", {f'{REQUESTS}"{GPU}"': 2}, f"spec.worker.resources.requests.{GPU}"),
    Case("request-over-limit", {f"{LIMITS}memory": "64Gi"}, "spec.worker.resources.limits.memory"),
    Case("bad-quantity", {f"{REQUESTS}memory": "96GiB"}, "spec.worker.resources.requests.memory"),
    Case(
        "memory-over-node",
        {f"{REQUESTS}memory": "400Gi", f"{LIMITS}memory": "400Gi"},
        "spec.worker.resources.requests.memory",
    ),
    Case(
        "cpu-over-node",
        {f"{REQUESTS}cpu": "48"},
        "spec.worker.resources.requests.cpu",
        {f"{REQUESTS}cpu": "47"},
    ),
    Case(
        "partition-of-type",
        {"spec.server.instanceType": "ml.p5.48xlarge", "spec.server.acceleratorPartitionType": "mig-1g.5gb"},
        "spec.server.acceleratorPartitionType",
        {"spec.server.instanceType": "ml.p5.48xlarge", "spec.server.acceleratorPartitionType": "mig-1g.10gb"},
        kind=JUMPSTART,
    ),
    # model source
    Case(
        "model-source-block",
        {"spec.modelSourceConfig.modelSourceType": "fsx"},
        "spec.modelSourceConfig.fsxStorage",
    ),
    Case(
        "model-source-unused",
        {"spec.modelSourceConfig.fsxStorage": {"fileSystemId": "fs-1"}},
        "spec.modelSourceConfig.fsxStorage",
    ),
    Case(
        "huggingface-commit",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {"modelId": "a/b"},
            }
        },
        "spec.modelSourceConfig.huggingFaceModel.commitSHA",
        {"spec.modelSourceConfig": {"modelSourceType": "huggingface", "huggingFaceModel": HF}},
    ),
    Case(
        "huggingface-token-key",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {**HF, "tokenSecretRef": {"name": "hf", "key": "HF_TOKEN"}},
            }
        },
        "spec.modelSourceConfig.huggingFaceModel.tokenSecretRef.key",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {**HF, "tokenSecretRef": {"name": "hf", "key": "token"}},
            }
        },
    ),
    Case(
        "huggingface-token-name",
        {
            "spec.modelSourceConfig": {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {**HF, "tokenSecretRef": {"key": "token"}},
            }
        },
        "spec.modelSourceConfig.huggingFaceModel.tokenSecretRef.name",
    ),
    Case(
        "kubernetes-volume",
        {"spec.modelSourceConfig": {"modelSourceType": "kubernetesVolume"}},
        "spec.kubernetes.volumes",
        {
            "spec.modelSourceConfig": {"modelSourceType": "kubernetesVolume"},
            "spec.kubernetes.volumes": [{"name": "model-weights"}],
        },
    ),
    Case(
        "kubernetes-volume-location",
        {"spec.modelSourceConfig.modelSourceType": "kubernetesVolume"},
        "spec.modelSourceConfig.modelLocation",
    ),
    Case("reserved-volume", {f"{WORKER}modelVolumeMount.name": "shm"}, "spec.worker.modelVolumeMount.name"),
    Case(
        "reserved-volume",
        {"spec.kubernetes.volumes": [{"name": "scratch"}, {"name": "lmcache-config"}]},
        "spec.kubernetes.volumes[1].name",
        {"spec.kubernetes.volumes": [{"name": "scratch"}]},
        name="volumes",
    ),
    Case(
        "custom-service-account",
        {"spec.kubernetes.serviceAccountName": "models"},
        "spec.kubernetes.serviceAccountName",
        {"spec.kubernetes.serviceAccountName": "default"},
    ),
    Case(
        "weights-path",
        {f"{WORKER}args": ["--model", "meta-llama/Llama-3.1-8B", "--tensor-parallel-size=4"]},
        "spec.worker.args[1]",
        {f"{WORKER}args": ["--model", "/opt/ml/model", "--tensor-parallel-size=4"]},
    ),
    Case(
        "accept-eula",
        {"spec.model.modelId": "meta-textgeneration-llama-3-1-8b"},
        "spec.model.acceptEula",
        kind=JUMPSTART,
    ),
    Case(
        "gated-download-role",
        {"spec.model.modelId": "meta-textgeneration-llama-3-1-8b", "spec.model.acceptEula": True},
        "spec.model.gatedModelDownloadRole",
        kind=JUMPSTART,
    ),
    # cache
    Case("l2-backend-missing", {"spec.kvCacheSpec": L2}, "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend"),
    Case(
        "l2-backend-exact",
        {"spec.kvCacheSpec": {**L2, "l2CacheSpec": {"l2CacheBackend": "TieredStorage"}}},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": TIERED},
    ),
    Case(
        "l2-backend-exact",
        {"spec.kvCacheSpec": {**L2, "l2CacheSpec": {"l2CacheBackend": "redis/sagemaker"}}},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": REDIS},
        name="unanchored",
    ),
    Case(
        "l2-off-with-backend",
        {"spec.kvCacheSpec": {"l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}},
        "spec.kvCacheSpec.enableL2Cache",
    ),
    Case(
        "l2-switched-off",
        {"spec.kvCacheSpec": {"enableL2Cache": False, "l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}},
        "spec.kvCacheSpec.enableL2Cache",
    ),
    Case(
        "l2-redis-url",
        {"spec.kvCacheSpec": {**L2, "l2CacheSpec": {"l2CacheBackend": "redis"}}},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
    ),
    Case(
        "l2-redis-url",
        {"spec.kvCacheSpec": {**L2, "l2CacheSpec": {"l2CacheBackend": "redis"}}},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
        deployment=OPERATOR,
    ),
    Case(
        "l2-redis-url",
        {
            "spec.kvCacheSpec": {
                **L2,
                "l2CacheSpec": {"l2CacheBackend": "redis", "l2CacheLocalUrl": "http://c:6379"},
            }
        },
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        name="scheme",
    ),
    Case(
        "l2-url-own-pod",
        {"spec.kvCacheSpec": REDIS, "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "redis://localhost:6379"},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
    ),
    Case(
        "l2-url-outside-vpc",
        {"spec.kvCacheSpec": REDIS, "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://8.8.8.8:6379"},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS, "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://10.0.3.4:6379"},
    ),
    Case(
        "l2-url-unencrypted",
        {
            "spec.kvCacheSpec": REDIS,
            "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "redis://cache.internal:6379",
        },
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
    ),
    Case(
        "l2-url-password",
        {
            "spec.kvCacheSpec": REDIS,
            "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://:hunter2@cache:6379",
        },
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
    ),
    Case(
        "l2-tiered-url",
        {"spec.kvCacheSpec": TIERED, "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://cache:6379"},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": TIERED},
    ),
    Case("both-tiers-off", {"spec.kvCacheSpec": {"enableL1Cache": False}}, "spec.kvCacheSpec"),
    Case(
        "switch-off-ignored",
        {"spec.kvCacheSpec": {**TIERED, "enableL1Cache": False}},
        "spec.kvCacheSpec.enableL1Cache",
        {"spec.kvCacheSpec": TIERED},
        operator=(3, 2),
    ),
    Case(
        "cache-engine",
        {f"{WORKER}image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.36"},
        "spec.worker.image",
    ),
    Case(
        "hash-seed",
        {"spec.kvCacheSpec": TIERED, f"{WORKER}environmentVariables": [{"name": "A", "value": "b"}]},
        "spec.worker.environmentVariables",
        {"spec.kvCacheSpec": TIERED},
    ),
    Case(
        "hash-seed",
        {**KVAWARE, f"{WORKER}environmentVariables.0.value": "random"},
        "spec.worker.environmentVariables[0].value",
        KVAWARE,
        name="random",
    ),
    Case(
        "hash-seed",
        {"spec.kvCacheSpec": TIERED},
        "spec.environmentVariables",
        kind=JUMPSTART,
        name="jumpstart",
    ),
    Case(
        "prompt-below-chunk",
        {f"{WORKER}args": ["--max-model-len", "128", "--tensor-parallel-size=4"]},
        "spec.worker.args[1]",
        {f"{WORKER}args": ["--max-model-len", "8192", "--tensor-parallel-size=4"]},
    ),
    Case(
        "redis-ignored",
        {"spec.kvCacheSpec": REDIS},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": TIERED},
        deployment=OPERATOR,
    ),
    Case(
        "lmcache-variables-stripped",
        {
            "spec.kvCacheSpec": TIERED,
            f"{WORKER}environmentVariables.0": {"name": "LMCACHE_CHUNK_SIZE", "value": "512"},
        },
        "spec.worker.environmentVariables[0]",
        {"spec.kvCacheSpec": TIERED},
        deployment=OPERATOR,
    ),
    Case(
        "cache-config-file",
        {"spec.kvCacheSpec.cacheConfigFile": "/etc/lmcache.yaml"},
        "spec.kvCacheSpec.cacheConfigFile",
        {"spec.kvCacheSpec": {"cacheConfigFile": "/etc/lmcache.yaml"}},
    ),
    Case(
        "multi-process-lmcache",
        {
            "spec.lmcache": {"mode": "MultiProcess"},
            f"{WORKER}image": "lmcache/vllm-openai:v0.4.3",
        },
        "spec.lmcache.mode",
        {
            "spec.lmcache": {"mode": "MultiProcess"},
            f"{WORKER}image": "lmcache/vllm-openai:v0.5.6",
        },
    ),
    # routing
    Case(
        "routing-off-with-strategy",
        {"spec.intelligentRoutingSpec": {"routingStrategy": "kvaware"}},
        "spec.intelligentRoutingSpec.enabled",
        {"spec.intelligentRoutingSpec": ROUTED},
    ),
    Case(
        "kvaware-endpoint",
        {**KVAWARE, "spec.invocationEndpoint": "v1/chat/completions"},
        "spec.invocationEndpoint",
        KVAWARE,
    ),
    Case(
        "kvaware-versions",
        {**KVAWARE, f"{WORKER}image": "vllm/vllm-openai:v0.11.1"},
        "spec.worker.image",
        KVAWARE,
    ),
    Case(
        "kvaware-versions",
        {**KVAWARE, f"{WORKER}image": "lmcache/vllm-openai:v0.4.3"},
        "spec.worker.image",
        {**KVAWARE, f"{WORKER}image": "lmcache/vllm-openai:v0.3.9post2"},
        operator=(3, 1, 2),
        name="old-operator",
    ),
    Case("kvaware-needs-cache", {**KVAWARE, "spec.kvCacheSpec": REMOVED}, "spec.kvCacheSpec", KVAWARE),
    Case(
        "session-key",
        SESSION,
        "spec.worker.environmentVariables",
        {**SESSION, f"{WORKER}environmentVariables": [{"name": "SESSION_KEY", "value": "x-user"}]},
    ),
    Case(
        "kvaware-session-key",
        {**KVAWARE, f"{WORKER}environmentVariables": [{"name": "PYTHONHASHSEED", "value": "0"}]},
        "spec.worker.environmentVariables",
        KVAWARE,
    ),
    Case(
        "routing-one-replica",
        {"spec.intelligentRoutingSpec": ROUTED, "spec.replicas": 1},
        "spec.intelligentRoutingSpec.enabled",
        {"spec.intelligentRoutingSpec": ROUTED},
    ),
    Case(
        "routing-and-gateway",
        {"spec.intelligentRoutingSpec": ROUTED, "spec.inferenceGateway": {"enabled": True}},
        "spec.inferenceGateway.enabled",
        {"spec.inferenceGateway": {"enabled": True}},
    ),
    Case(
        "routing-immutable",
        {
            "spec.intelligentRoutingSpec": ROUTED,
            "metadata.annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {}}'},
        },
        "spec.intelligentRoutingSpec.enabled",
        {"metadata.annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {}}'}},
    ),
    Case(
        "router-autoscaling-without-router",
        {"spec.intelligentRoutingSpec": {"enabled": False, "autoScalingSpec": SCALED}},
        "spec.intelligentRoutingSpec.autoScalingSpec",
        {"spec.intelligentRoutingSpec": {"enabled": True, "autoScalingSpec": SCALED}},
    ),
    Case(
        "secret-does-not-reach-router",
        {
            "spec.intelligentRoutingSpec": ROUTED,
            f"{WORKER}environmentVariables.0": {
                "name": "VLLM_API_KEY",
                "valueFrom": {"secretKeyRef": {"name": "key", "key": "key"}},
            },
        },
        "spec.worker.environmentVariables[0]",
        {"spec.intelligentRoutingSpec": ROUTED},
    ),
    Case(
        "router-engine-metrics",
        {"spec.intelligentRoutingSpec": ROUTED, f"{WORKER}image": "lmsysorg/sglang:v0.5.0"},
        "spec.worker.args",
        {
            "spec.intelligentRoutingSpec": ROUTED,
            f"{WORKER}image": "lmsysorg/sglang:v0.5.0",
            f"{WORKER}args": ["--enable-metrics"],
        },
    ),
    Case(
        "gateway-engine-version",
        {"spec.inferenceGateway": {"enabled": True}, f"{WORKER}image": "vllm/vllm-openai:v0.9.1"},
        "spec.worker.image",
        {"spec.inferenceGateway": {"enabled": True}},
    ),
    # engine
    Case(
        "engine-port",
        {f"{WORKER}modelInvocationPort.containerPort": 8080},
        "spec.worker.modelInvocationPort.containerPort",
    ),
    Case(
        "engine-port",
        {f"{WORKER}modelInvocationPort.containerPort": 8080, f"{WORKER}args": ["--tensor-parallel-size=4"]},
        "spec.worker.modelInvocationPort.containerPort",
        {f"{WORKER}args": ["--tensor-parallel-size=4"]},
        name="default",
    ),
    Case(
        "engine-port",
        {f"{WORKER}image": LMI, f"{WORKER}args": REMOVED},
        "spec.worker.modelInvocationPort.containerPort",
        {f"{WORKER}image": LMI, f"{WORKER}args": REMOVED, f"{WORKER}modelInvocationPort.containerPort": 8080},
        name="lmi",
    ),
    Case("metrics-port", {"spec.metrics": REMOVED}, "spec.metrics.modelMetrics.port"),
    Case(
        "metrics-port",
        {"spec.metrics.modelMetrics.port": 8080},
        "spec.metrics.modelMetrics.port",
        name="written",
    ),
    Case(
        "health-path", {"spec.loadBalancer.healthCheckPath": "/healthz"}, "spec.loadBalancer.healthCheckPath"
    ),
    Case(
        "health-path-ping",
        {"spec.loadBalancer": REMOVED, f"{WORKER}image": "vllm/vllm-openai:v0.6.3"},
        "spec.loadBalancer.healthCheckPath",
        {"spec.loadBalancer": REMOVED},
    ),
    Case("readiness-timeout", {f"{WORKER}probes": REMOVED}, "spec.worker.probes.readinessProbe"),
    Case("floating-image", {f"{WORKER}image": "vllm/vllm-openai:latest"}, "spec.worker.image"),
    Case(
        "floating-image",
        {f"{WORKER}image": "registry.internal:5000/vllm"},
        "spec.worker.image",
        name="no-tag",
    ),
    Case(
        "image-region",
        {f"{WORKER}image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/vllm:1"},
        "spec.worker.image",
        {f"{WORKER}image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/vllm:1"},
        deployment=SELFHOSTED,
    ),
    Case(
        "arguments-ignored",
        {f"{WORKER}image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.11-gpu"},
        "spec.worker.args",
        {
            f"{WORKER}image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.11-gpu",
            f"{WORKER}command": ["vllm", "serve"],
        },
    ),
    # scaling
    Case(
        "prometheus-address",
        {
            "spec.autoScalingSpec": {
                **SCALED,
                "prometheusTrigger": {**PROMETHEUS, "serverAddress": "http://prometheus:9090"},
            }
        },
        "spec.autoScalingSpec.prometheusTrigger.serverAddress",
        {"spec.autoScalingSpec": SCALED},
    ),
    Case(
        "cloudwatch-endpoint-name",
        {"spec.autoScalingSpec": CW_SCALED, "spec.endpointName": "mine"},
        "spec.autoScalingSpec.cloudWatchTrigger.dimensions[0].value",
        {"spec.autoScalingSpec": CW_SCALED, "spec.endpointName": "llama-8b"},
    ),
    Case(
        "cloudwatch-period",
        {
            "spec.autoScalingSpec": {
                **CW_SCALED,
                "cloudWatchTrigger": {**CLOUDWATCH, "metricCollectionPeriod": 45},
            }
        },
        "spec.autoScalingSpec.cloudWatchTrigger.metricCollectionPeriod",
        {"spec.autoScalingSpec": CW_SCALED},
    ),
    Case(
        "cloudwatch-resolution",
        {
            "spec.autoScalingSpec": {
                **CW_SCALED,
                "cloudWatchTrigger": {**CLOUDWATCH, "metricCollectionPeriod": 10},
            }
        },
        "spec.autoScalingSpec.cloudWatchTrigger.metricCollectionPeriod",
        {"spec.autoScalingSpec": CW_SCALED},
    ),
    Case(
        "replicas-and-autoscaling",
        {"spec.autoScalingSpec": SCALED},
        "spec.replicas",
        {"spec.autoScalingSpec": SCALED, "spec.replicas": REMOVED},
    ),
    Case("initial-replica-count", {"spec.InitialReplicaCount": 2}, "spec.InitialReplicaCount"),
    Case(
        "trigger-and-list",
        {"spec.autoScalingSpec": {**SCALED, "prometheusTriggerList": [PROMETHEUS]}},
        "spec.autoScalingSpec.prometheusTrigger",
        {"spec.autoScalingSpec": SCALED},
    ),
    Case(
        "no-trigger",
        {"spec.autoScalingSpec": {"minReplicaCount": 1}},
        "spec.autoScalingSpec",
        {"spec.autoScalingSpec": SCALED},
    ),
    Case(
        "replica-bounds",
        {"spec.autoScalingSpec": {**SCALED, "minReplicaCount": 4}},
        "spec.autoScalingSpec.maxReplicaCount",
        {"spec.autoScalingSpec": SCALED},
    ),
    Case(
        "two-scalers",
        {"spec.autoScalingSpec": SCALED},
        "spec.autoScalingSpec",
        siblings=(
            {
                "kind": "ScaledObject",
                "metadata": {"name": "mine", "namespace": "inference"},
                "spec": {"scaleTargetRef": {"name": "llama-8b"}},
            },
        ),
    ),
    Case(
        "wake-from-zero",
        {"spec.autoScalingSpec": {**SCALED, "minReplicaCount": 0}},
        "spec.autoScalingSpec.prometheusTrigger.query",
        {"spec.autoScalingSpec": {**CW_SCALED, "minReplicaCount": 0}},
    ),
    # hygiene
    Case(
        "placeholder",
        {"spec.modelSourceConfig.s3Storage.bucketName": "${BUCKET}"},
        "spec.modelSourceConfig.s3Storage.bucketName",
    ),
    Case("placeholder", {"spec.modelName": "<your model>"}, "spec.modelName", name="angle"),
    Case("placeholder", {"spec.modelName": "$MODEL_NAME"}, "spec.modelName", name="dollar"),
    Case("placeholder", {"spec.modelName": "{MODEL_NAME}"}, "spec.modelName", name="braces"),
    Case(
        "placeholder",
        {f"{WORKER}args": ["serve $MODEL_PATH"]},
        "spec.worker.args[0]",
        {f"{WORKER}command": ["sh", "-c"], f"{WORKER}args": ["exec vllm serve $MODEL_PATH"]},
        name="not-a-shell",
    ),
    *(
        Case(
            "argument-form",
            {f"{WORKER}args": ["/opt/ml/model", name, bad]},
            "spec.worker.args[2]",
            {f"{WORKER}args": ["/opt/ml/model", name, good]},
            name=f"{name.strip('-')}-{bad or 'empty'}",
        )
        for name, bad, good in (
            ("--max-model-len", "nonsense", "64K"),
            ("--max-model-len", "", "25.6k"),
            ("--max-model-len", "-5", "auto"),
            ("--max-num-batched-tokens", "8,192", "8192"),
            ("--tensor-parallel-size", "9" * 30, "4"),
            ("--tensor-parallel-size", "four", "4"),
            ("--max-num-seqs", "0", "256"),
            ("--port", "http", "8000"),
            ("--gpu-memory-utilization", "95", "0.95"),
            ("--gpu-memory-utilization", "90%", ".9"),
        )
    ),
    Case("refused-later", {"spec.replicas": -1}, "spec.replicas"),
    *(
        Case("refused-later", {where: value}, where, name=f"{where.rpartition('.')[2]}-{number}")
        for where, values in {
            "spec.modelSourceConfig.s3Storage.bucketName": ("", "a b", "B", "a/b"),
            "spec.modelSourceConfig.s3Storage.region": ("", "nowhere", "us-west-2a"),
            f"{WORKER}modelVolumeMount.name": ("", "model weights", "M", "a" * 64),
            f"{WORKER}modelVolumeMount.mountPath": ("", "opt/ml", "/a:b"),
        }.items()
        for number, value in enumerate(values)
    ),
    *(
        Case(
            "refused-later",
            {f"{WORKER}environmentVariables.0": {"name": name, "value": "x"}},
            "spec.worker.environmentVariables[0].name",
            name=f"variable-{number}",
        )
        for number, name in enumerate(("", "A B", "A=B", "\u00e9", "A\n"))
    ),
    Case(
        "literal-secret",
        {f"{WORKER}environmentVariables.0": {"name": "HF_TOKEN", "value": "not-in-the-open"}},
        "spec.worker.environmentVariables[0].value",
        {f"{WORKER}environmentVariables.0": {"name": "MAX_TOKENS", "value": "4096"}},
    ),
    Case("literal-secret", {f"{WORKER}args.0": "hf_" + "a1B2" * 8}, "spec.worker.args[0]", name="shape"),
    # deployment
    Case(
        "setting",
        {"serving": "self-hosted"},
        "serving",
        {"serving": "operator"},
        kind=DEPLOYMENT,
        name="serving",
    ),
    Case(
        "setting",
        {"cache": {"l2": {"bandwidth": "8"}}},
        "cache.l2.bandwidth",
        {"cache": {"l2": {"bandwidth": "8GB/s"}}},
        kind=DEPLOYMENT,
    ),
    Case(
        "setting",
        {"access": {"secretName": "s", "jwt": {"jwks": "http://a/", "issuer": "a", "audience": "b"}}},
        "access.jwt.jwks",
        {"access": {"secretName": "s", "jwt": {"jwks": "https://a/", "issuer": "a", "audience": "b"}}},
        kind=DEPLOYMENT,
        name="access",
    ),
    Case(
        "setting",
        {"access": {"tenants": [{"name": "acme", "weight": 0.0}], "secretName": "s"}},
        "access.tenants[0].weight",
        {"access": {"tenants": [{"name": "acme", "weight": 2.5}], "secretName": "s"}},
        kind=DEPLOYMENT,
        name="tenant",
    ),
    Case(
        "setting",
        {"cache": {"l2": {"tenants": [{"name": "acme"}, {"name": "globex", "quota": "1"}]}}},
        "cache.l2.tenants[1].quota",
        {"cache": {"l2": {"tenants": [{"name": "acme"}, {"name": "globex", "quota": "64Mi"}]}}},
        kind=DEPLOYMENT,
        name="l2-tenant",
    ),
    Case(
        "setting",
        {"access": {"tenants": [{"name": "acme"}]}},
        "access.secretName",
        {"access": {"queue": {"maxInFlightPerReplica": 8}}},
        kind=DEPLOYMENT,
        name="access-without-keys",
    ),
    Case(
        "quotas-exceed-store",
        {"cache": {"l2": {"size": "9Gi", "tenants": [{"name": name, "quota": "5Gi"} for name in "ab"]}}},
        "cache.l2.tenants",
        {"cache": {"l2": {"size": "10Gi", "tenants": [{"name": name, "quota": "5Gi"} for name in "ab"]}}},
        kind=DEPLOYMENT,
    ),
    Case(
        "l2-events-unheard",
        {"spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "session"}},
        "spec.intelligentRoutingSpec.routingStrategy",
        {"spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "kvaware"}},
        deployment={**SELFHOSTED, "cache": {"l2": {"kvEvents": True}}},
    ),
    Case("groups-missing", {"instanceGroups": []}, "instanceGroups", kind=DEPLOYMENT),
    Case("group-name-twice", {"instanceGroups.1.name": "system"}, "instanceGroups[1].name", kind=DEPLOYMENT),
    Case(
        "group-type-unknown",
        {"instanceGroups.1.instanceType": "ml.g5.13xlarge"},
        "instanceGroups[1].instanceType",
        kind=DEPLOYMENT,
    ),
    Case(
        "group-type-unknown",
        {"instanceGroups.1.instanceTypes": ["ml.g5.13xlarge"]},
        "instanceGroups[1].instanceTypes[0]",
        {"instanceGroups.1.instanceTypes": ["ml.g5.24xlarge"]},
        kind=DEPLOYMENT,
        name="fallback",
    ),
    Case(
        "existing-cluster-untold",
        {"cluster": {"existing": "prod"}},
        "cluster.attributes",
        {"cluster": {"kubernetesVersion": "1.35"}},
        kind=DEPLOYMENT,
    ),
    Case(
        "no-open-group",
        {"instanceGroups.0.taints": [{"key": "team"}]},
        "instanceGroups",
        {"instanceGroups.0.taints": [{"key": "team", "effect": "PreferNoSchedule"}]},
        kind=DEPLOYMENT,
    ),
    Case(
        "fallback-not-named",
        {"spec.instanceType": "ml.g5.12xlarge"},
        "spec.instanceType",
        {"spec.instanceType": REMOVED, "spec.instanceTypes": ["ml.g5.12xlarge", "ml.g5.24xlarge"]},
        deployment=changed(
            deployment(), {"serving": "operator", "instanceGroups.1.instanceTypes": ["ml.g5.24xlarge"]}
        ),
    ),
    Case(
        "release-name",
        {"name": "7-models"},
        "name",
        {"name": "models-7"},
        kind=DEPLOYMENT,
        name="digit-first",
    ),
    Case("release-name", {"name": "a" * 52}, "name", {"name": "a" * 51}, kind=DEPLOYMENT),
    Case(
        "kubernetes-version",
        {"cluster": {"kubernetesVersion": "1.29"}},
        "cluster.kubernetesVersion",
        kind=DEPLOYMENT,
    ),
    Case(
        "existing-cluster-addons",
        {"serving": "operator", "cluster": {"existing": "prod"}},
        "cluster.existing",
        {"cluster": {"existing": "prod"}},
        kind=DEPLOYMENT,
    ),
    Case("not-served-here", {"spec.endpointName": "support"}, "spec.endpointName", deployment=SELFHOSTED),
    Case(
        "not-served-here",
        {"spec.worker.resources.claims": ["gpu"]},
        "spec.worker.resources.claims",
        {"spec.loadBalancer": {"healthCheckPath": "/health"}},
        deployment=SELFHOSTED,
        name="nothing-reads-it",
    ),
    Case(
        "no-group-for-endpoint",
        {"spec.instanceType": "ml.p5.48xlarge"},
        "spec.instanceType",
        deployment=SELFHOSTED,
    ),
    Case(
        "tiered-storage-off",
        {"spec.kvCacheSpec": TIERED},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": REDIS},
        deployment=SELFHOSTED,
    ),
    Case(
        "more-replicas-than-nodes",
        {"spec.replicas": 4},
        "spec.replicas",
        {"spec.replicas": 3},
        deployment=SELFHOSTED,
    ),
    Case("no-room-to-roll", {"spec.replicas": 3}, "spec.replicas", deployment=OPERATOR),
    Case(
        "closed-network-model",
        {"spec.modelSourceConfig": {"modelSourceType": "huggingface", "huggingFaceModel": HF}},
        "spec.modelSourceConfig.modelSourceType",
        deployment={**SELFHOSTED, "cluster": {"closedNetwork": True}},
    ),
    Case(
        "closed-network-image",
        {f"{WORKER}image": "vllm/vllm-openai:v0.32.0"},
        "spec.worker.image",
        {f"{WORKER}image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/vllm:1"},
        deployment={**SELFHOSTED, "cluster": {"closedNetwork": True}},
    ),
    # disaggregation
    Case(
        "disaggregation-instance",
        {"spec.pdSpec": PD},
        "spec.instanceType",
        {"spec.pdSpec": PD, "spec.instanceType": "ml.p5.48xlarge"},
    ),
    Case(
        "disaggregation-instance",
        {"spec.pdSpec": PD, "spec.instanceType": "ml.g5.2xlarge"},
        "spec.instanceType",
        {"spec.pdSpec": PD},
        deployment=SELFHOSTED,
    ),
    Case(
        "disaggregation-parallelism",
        {"spec.pdSpec": split(prefill=["--tensor-parallel-size=6"], decode=["-tp", "4"])},
        "spec.pdSpec.prefillSpec.args",
        {"spec.pdSpec": split(prefill=["--tensor-parallel-size=2"], decode=["-tp", "4"])},
    ),
    Case(
        "disaggregation-parallelism",
        {"spec.pdSpec": split(prefill=["-tp", "16"], decode=["-tp", "8"])},
        "spec.pdSpec.prefillSpec.args",
        {"spec.pdSpec": split(prefill=["-tp", "8"], decode=["-tp", "16"])},
    ),
    Case(
        "disaggregation-arguments",
        {"spec.pdSpec": split(decode=["--kv-cache-dtype", "fp8"])},
        "spec.pdSpec.decodingSpec.args",
        {"spec.pdSpec": split(prefill=["--kv-cache-dtype=fp8"], decode=["--kv-cache-dtype", "fp8"])},
    ),
    Case(
        "disaggregation-nodes",
        {"spec.pdSpec": {"prefillSpec": {**ROLE, "replicas": 3}, "decodingSpec": ROLE}},
        "spec.pdSpec",
        {"spec.pdSpec": {"prefillSpec": HALF, "decodingSpec": {**HALF, "replicas": 2}}},
        deployment=SELFHOSTED,
    ),
    Case(
        "disaggregation-scaling",
        {"spec.pdSpec": PD, "spec.autoScalingSpec": {"maxReplicaCount": 2}},
        "spec.autoScalingSpec",
        {"spec.pdSpec": {**PD, "autoScalingSpec": {"decodingAutoScaling": {"maxReplicaCount": 2}}}},
    ),
    Case(
        "disaggregation-hook",
        {"spec.pdSpec": PD},
        "spec.pdSpec",
        deployment={**SELFHOSTED, "scaling": {"min": 1, "max": 2}},
    ),
    Case(
        "disaggregation-zone",
        {"spec.pdSpec": {**PD, "topologySpec": {"sameAZ": False}}},
        "spec.pdSpec.topologySpec.sameAZ",
        {"spec.pdSpec": PD},
    ),
    Case(
        "disaggregation-model",
        {"spec.pdSpec": PD},
        "spec.pdSpec",
        {"spec.pdSpec": PD, "spec.modelName": "Llama-3.1-70B"},
    ),
    Case(
        "disaggregation-resources",
        {"spec.pdSpec": {**PD, "prefillSpec": {"replicas": 1}}},
        "spec.pdSpec.prefillSpec.resources",
        {"spec.pdSpec": PD},
    ),
    Case(
        "disaggregation-threshold",
        {"spec.pdSpec": {**PD, "routingThreshold": 512}},
        "spec.pdSpec.routingThreshold",
        {"spec.pdSpec": PD},
    ),
    # network
    Case(
        "dns-needs-certificate",
        {"spec.dnsConfig": {"hostedZoneId": "Z123"}},
        "spec.tlsConfig.customCertificateConfig",
        {
            "spec.dnsConfig": {"hostedZoneId": "Z123"},
            "spec.tlsConfig": {"customCertificateConfig": CERTIFICATE},
        },
    ),
    Case(
        "certificate-region",
        {"spec.tlsConfig": {"customCertificateConfig": CERTIFICATE}},
        "spec.tlsConfig.customCertificateConfig.acmArn",
        deployment=SELFHOSTED,
    ),
    Case(
        "certificate-bucket",
        {"spec.tlsConfig": {"tlsCertificateOutputS3Uri": "s3://certificates-of-ours"}},
        "spec.tlsConfig.tlsCertificateOutputS3Uri",
        {"spec.tlsConfig": {"tlsCertificateOutputS3Uri": "s3://hyperpod-tls-ours/x"}},
    ),
    Case(
        "idle-timeout",
        {"spec.modelName": "Llama-3.1-405B", f"{WORKER}args": ["--max-model-len=131072"]},
        "spec.loadBalancer.idleTimeoutSeconds",
        {"spec.modelName": "Llama-3.1-8B", f"{WORKER}args": ["--max-model-len=8192"]},
    ),
    # capture
    Case(
        "capture-bucket",
        {"spec.dataCapture": {"s3Uri": "s3://captures-of-ours/x"}},
        "spec.dataCapture.s3Uri",
        {"spec.dataCapture": {"s3Uri": "s3://hyperpod-tls-ours/x"}},
    ),
    Case(
        "capture-key",
        {"spec.dataCapture": {"modelPod": {"enabled": True, "kmsKeyId": "alias/ours"}}},
        "spec.dataCapture.modelPod.kmsKeyId",
        {"spec.dataCapture": {"modelPod": {"enabled": False, "kmsKeyId": "alias/ours"}}},
    ),
    Case(
        "capture-without-endpoint",
        {"spec.dataCapture": {"sagemakerEndpoint": {"enabled": True}}},
        "spec.dataCapture.sagemakerEndpoint.enabled",
        {"spec.dataCapture": {"sagemakerEndpoint": {"enabled": True}}, "spec.endpointName": "llama"},
    ),
    # memory
    Case(
        "memory-under-cache",
        {f"{WORKER}environmentVariables.0": {"name": "LMCACHE_MAX_LOCAL_CPU_SIZE", "value": "100"}},
        "spec.worker.resources.limits.memory",
        {f"{WORKER}environmentVariables.0": {"name": "LMCACHE_MAX_LOCAL_CPU_SIZE", "value": "40"}},
    ),
    Case(
        "memory-too-small",
        {f"{LIMITS}memory": "20Gi", f"{REQUESTS}memory": "20Gi"},
        "spec.worker.resources.limits.memory",
    ),
    Case(
        "memory-too-small",
        {f"{LIMITS}memory": "40Gi", "spec.modelSourceConfig.prefetchEnabled": True},
        "spec.worker.resources.limits.memory",
        {f"{LIMITS}memory": "40Gi"},
        name="prefetch",
    ),
    Case(
        "weights-over-gpus",
        {"spec.modelName": "Llama-3.1-70B"},
        f"spec.worker.resources.limits.{GPU}",
        {"spec.modelName": "Llama-3.1-70B", f"{WORKER}args": ["--quantization", "awq"]},
    ),
    Case(
        "pod-beside-tiered-storage",
        {f"{REQUESTS}memory": "150Gi"},
        "spec.worker.resources.requests.memory",
        {f"{REQUESTS}memory": "140Gi"},
        deployment={**deployment(), "cache": {"l2": {"backend": "tieredstorage", "memoryPercent": 20}}},
    ),
    Case(
        "replica-does-not-fit",
        {f"{REQUESTS}memory": "190Gi", f"{LIMITS}memory": "190Gi"},
        "spec.worker.resources.requests.memory",
        deployment=SELFHOSTED,
    ),
    Case(
        "deploy-time",
        {"spec.maxDeployTimeInSeconds": 300},
        "spec.maxDeployTimeInSeconds",
        {"spec.maxDeployTimeInSeconds": 1800},
    ),
    # gateway
    Case("gateway-without-authentication", {"spec.auth": {}}, "spec.auth.jwt", kind=GATEWAY),
    Case(
        "gateway-schedulers",
        {"spec.schedulers": [{"modelName": str(number)} for number in range(101)]},
        "spec.schedulers",
        kind=GATEWAY,
    ),
    Case(
        "gateway-adapters",
        {"spec.schedulers.0.adapters": [str(number) for number in range(51)]},
        "spec.schedulers[0].adapters",
        {"spec.schedulers.0.adapters": [str(number) for number in range(50)]},
        kind=GATEWAY,
    ),
    Case(
        "gateway-model-twice",
        {"spec.schedulers.1.modelName": "llama-8b"},
        "spec.schedulers[1].modelName",
        kind=GATEWAY,
    ),
    Case(
        "gateway-weights",
        {"spec.schedulers.0.configMapRef": {"name": "x"}},
        "spec.schedulers[0].weights",
        kind=GATEWAY,
    ),
    Case(
        "gateway-lru",
        {"spec.schedulers.1.weights": {"lru": 1}},
        "spec.schedulers[1].weights.lru",
        kind=GATEWAY,
    ),
    # cluster
    Case(
        "tiered-storage-alone",
        dict.fromkeys(
            ("NodeRecovery", "NodeProvisioningMode", "ClusterRole", "AutoScaling", "InstanceGroups"), REMOVED
        ),
        "TieredStorageConfig",
        kind=CLUSTER,
    ),
    Case(
        "tiered-storage-percent",
        {"TieredStorageConfig.InstanceMemoryAllocationPercentage": 5},
        "TieredStorageConfig.InstanceMemoryAllocationPercentage",
        kind=CLUSTER,
    ),
    Case("karpenter-needs", {"NodeProvisioningMode": REMOVED}, "NodeProvisioningMode", kind=CLUSTER),
    Case(
        "karpenter-needs",
        {"ClusterRole": REMOVED},
        "ClusterRole",
        {"ClusterRole": REMOVED, "AutoScaling": REMOVED},
        kind=CLUSTER,
        name="role",
    ),
    Case(
        "taints-and-health-checks",
        {
            "InstanceGroups.0.KubernetesConfig": TAINTED,
            "InstanceGroups.0.OnStartDeepHealthChecks": ["InstanceStress"],
        },
        "InstanceGroups[0].KubernetesConfig.Taints",
        {"InstanceGroups.0.KubernetesConfig": TAINTED},
        kind=CLUSTER,
    ),
    Case(
        "taints-without-tolerations",
        {},
        "spec.kubernetes.tolerations",
        siblings=(changed(cluster(), {"InstanceGroups.0.KubernetesConfig": TAINTED}),),
    ),
    Case(
        "taints-without-tolerations",
        {},
        "spec.kubernetes.tolerations",
        {"spec.kubernetes": {"tolerations": [{"key": "team", "operator": "Exists"}]}},
        deployment=changed(
            deployment(), {"serving": "operator", "instanceGroups.1.taints": [{"key": "team"}]}
        ),
        name="of a deployment",
    ),
    Case(
        "cluster-without-tiered-storage",
        {"spec.kvCacheSpec": TIERED},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": TIERED},
        siblings=(changed(cluster(), {"TieredStorageConfig": REMOVED}),),
    ),
    Case(
        "operator-role-name",
        {"metadata.annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/inference"}},
        "metadata.annotations.eks.amazonaws.com/role-arn",
        kind=SERVICE_ACCOUNT,
    ),
    Case(
        "operator-region",
        {"serving": "operator", "region": "ca-central-1"},
        "region",
        {"serving": "selfhosted", "region": "ca-central-1"},
        kind=DEPLOYMENT,
    ),
    Case(
        "pods-per-node",
        {"serving": "operator", "instanceGroups.0.instanceType": "ml.m5.xlarge"},
        "instanceGroups[0].instanceType",
        {"serving": "operator"},
        kind=DEPLOYMENT,
    ),
]


def subject(case: Case, changes: Mapping[str, Any]) -> Subject:
    data = changed(BASES[case.kind](), changes)
    view = None if case.deployment is None else View(case.deployment)
    siblings = tuple(View(sibling) for sibling in case.siblings) if changes is case.broken else ()
    return Subject(case.kind, Document(data), Surroundings(view, case.operator, siblings))


def ids(case: Case) -> str:
    return f"{case.rule}-{case.name}" if case.name else case.rule
