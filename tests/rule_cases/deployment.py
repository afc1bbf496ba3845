"""Rules of deployment, each broken once and kept once."""

from __future__ import annotations

from fakes_manifests import REMOVED, changed, deployment
from rule_cases.case import HF, OPERATOR, REDIS, SCALED, SELFHOSTED, TIERED, WORKER, Case

from hypertier.spec.rules.rule import DEPLOYMENT

S3_SOURCE = "spec.modelSourceConfig.modelSourceType"
S3_MOUNTED = {"addons": ["aws-mountpoint-s3-csi-driver"]}
SCALER, PD, ROUTERS = "spec.autoScalingSpec", "spec.pdSpec", "spec.intelligentRoutingSpec.autoScalingSpec"
# A group that HyperPod's Karpenter fills.
KARPENTER = {
    "cluster": {"autoscaling": True},
    "instanceGroups.1.count": 0,
    "instanceGroups.1.availabilityZoneId": "usw2-az2",
}

CASES = [
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
        {"verify": {"everyMinutes": 7}},
        "verify.everyMinutes",
        {"verify": {"everyMinutes": 60}},
        kind=DEPLOYMENT,
        name="verify",
    ),
    Case(
        "setting",
        {"verify": {}, "serving": "operator"},
        "verify",
        {"verify": {}},
        kind=DEPLOYMENT,
        name="verify-by-the-operator",
    ),
    Case(
        "setting",
        {"verify": {}, "access": {"secretName": "keys"}},
        "verify.apiKeySecretName",
        {"verify": {"apiKeySecretName": "a-key"}, "access": {"secretName": "keys"}},
        kind=DEPLOYMENT,
        name="verify-without-a-key",
    ),
    Case(
        "setting",
        {"verify": {"apiKeySecretName": "a-key"}},
        "verify.apiKeySecretName",
        {"verify": {}, "access": {"queue": {"maxInFlightPerReplica": 8}}},
        kind=DEPLOYMENT,
        name="verify-with-a-key-nobody-asks-for",
    ),
    Case(
        "not-verified",
        {"spec.metrics": {"enabled": False}},
        "spec.metrics.enabled",
        {"spec.metrics": {"enabled": True}},
        deployment={**SELFHOSTED, "verify": {}},
    ),
    Case(
        "not-verified",
        {"metadata.name": "e" * 46},
        "metadata.name",
        {"metadata.name": "e" * 45},
        deployment={**SELFHOSTED, "verify": {}},
        name="name",
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
    Case(
        "setting",
        {"routing": {"cpus": 0}},
        "routing.cpus",
        {"routing": {"cpus": 4}},
        kind=DEPLOYMENT,
    ),
    Case(
        "setting",
        {"routing": {"tracing": {"endpoint": "collector"}}},
        "routing.tracing.endpoint",
        {"routing": {"tracing": {"endpoint": "http://collector:4318"}}},
        kind=DEPLOYMENT,
    ),
    Case(
        "setting",
        {"routing": {"modelAliases": {"big": "big"}}},
        "routing.modelAliases.big",
        {"routing": {"modelAliases": {"big": "llama"}}},
        kind=DEPLOYMENT,
    ),
    Case(
        "setting",
        {"routing": {"timeouts": {"read": "0s"}}},
        "routing.timeouts.read",
        {"routing": {"timeouts": {"read": "5s"}}},
        kind=DEPLOYMENT,
    ),
    Case(
        "setting",
        {
            "instanceGroups.1.availabilityZoneId": "usw2-az2",
            "cluster": {
                "attributes": {
                    "vpcId": "vpc-1",
                    "availabilityZones": ["us-west-2a"],
                    "privateSubnetIds": ["subnet-1"],
                }
            },
        },
        "instanceGroups[1].availabilityZoneId",
        {
            "instanceGroups.1.availabilityZoneId": "usw2-az2",
            "cluster": {
                "attributes": {
                    "vpcId": "vpc-1",
                    "availabilityZones": ["us-west-2a"],
                    "availabilityZoneIds": ["usw2-az2"],
                    "privateSubnetIds": ["subnet-1"],
                }
            },
        },
        kind=DEPLOYMENT,
        name="no subnet in the zone",
    ),
    Case(
        "setting",
        {"cluster": {"kubernetesVersion": "1.36"}},
        "cluster.kubernetesVersion",
        {"cluster": {"kubernetesVersion": "1.30"}},
        kind=DEPLOYMENT,
        name="a version of Kubernetes without HyperPod",
    ),
    Case(
        "setting",
        {"serving": ""},
        "serving",
        {"serving": "selfhosted"},
        kind=DEPLOYMENT,
        name="serving, empty",
    ),
    Case(
        "no-open-group",
        {"instanceGroups.0.count": 0, "instanceGroups.1.taints": [{"key": "team"}]},
        "instanceGroups",
        {"instanceGroups.0.count": 1, "instanceGroups.1.taints": [{"key": "team"}]},
        kind=DEPLOYMENT,
        name="without a node",
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
        "ignored-by-operator",
        {"serving": "operator", "cache": {"l1": {"size": "100Gi"}}},
        "cache.l1.size",
        {"serving": "operator", "cache": {"l2": {"memoryPercent": 30}}},
        kind=DEPLOYMENT,
    ),
    Case(
        "setting",
        {"cluster": {"autoscaling": True}},
        "cluster.autoscaling",
        KARPENTER,
        kind=DEPLOYMENT,
        name="karpenter-without-a-group",
    ),
    Case(
        "setting",
        KARPENTER | {"instanceGroups.1.availabilityZoneId": REMOVED},
        "instanceGroups[1].availabilityZoneId",
        KARPENTER,
        kind=DEPLOYMENT,
        name="karpenter-in-several-zones",
    ),
    Case(
        "setting",
        {"cache": {"l2": {"gate": "ajar"}}},
        "cache.l2.gate",
        {"cache": {"l2": {"gate": "closed", "epoch": 2, "lookupDeadlineMs": 50}}},
        kind=DEPLOYMENT,
        name="gate",
    ),
    Case(
        "setting",
        {"cache": {"l2": {"connections": 65}}},
        "cache.l2.connections",
        {"cache": {"l2": {"connections": 8}}},
        kind=DEPLOYMENT,
        name="connections",
    ),
    Case(
        "setting",
        {"serving": "operator", "cache": {"l2": {"connections": 8}}},
        "cache.l2.connections",
        kind=DEPLOYMENT,
        name="connections of the operator",
    ),
    Case(
        "setting",
        {"serving": "operator", "cache": {"l2": {"epoch": 1}}},
        "cache.l2.epoch",
        kind=DEPLOYMENT,
        name="epoch of the operator",
    ),
    Case(
        "engine-tls-arguments",
        {f"{WORKER}args": ["--port", "8000", "--ssl-certfile=/tls/tls.crt"]},
        f"{WORKER}args[2]",
        deployment=SELFHOSTED,
    ),
    Case(
        "engine-tls-arguments",
        {PD: {"prefillSpec": {"args": ["--ssl-certfile", "/tls/tls.crt"]}}},
        f"{PD}.prefillSpec.args[0]",
        {PD: {"prefillSpec": {"args": ["--max-num-seqs", "8"]}}},
        deployment=SELFHOSTED,
        name="of-one-kind",
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
    *(
        Case(
            "existing-eks-untold",
            changes,
            at,
            whole,
            deployment={**told, "cluster": {"attributes": {"eksClusterName": "platform", **attributes}}},
            name=name,
        )
        for name, told, attributes, changes, at, whole in [
            ("s3", SELFHOSTED, {}, {}, S3_SOURCE, {S3_SOURCE: "fsx"}),
            ("tls", SELFHOSTED, S3_MOUNTED, {"spec.tlsConfig": {}}, "spec.tlsConfig", {}),
            ("keda", SELFHOSTED, S3_MOUNTED, {SCALER: SCALED}, SCALER, {}),
            (
                "pd",
                SELFHOSTED,
                S3_MOUNTED,
                {PD: {"autoScalingSpec": SCALED}},
                f"{PD}.autoScalingSpec",
                {SCALER: REMOVED},
            ),
            (
                "routers",
                SELFHOSTED,
                S3_MOUNTED,
                {ROUTERS: SCALED},
                ROUTERS,
                {ROUTERS: {"maxReplicaCount": 3}},
            ),
        ]
    ),
    Case(
        "tiered-storage-unused",
        {"spec.kvCacheSpec": REDIS},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": TIERED},
        deployment={**SELFHOSTED, "cache": {"l2": {"backend": "tieredstorage"}}},
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
    Case(
        "more-replicas-than-nodes",
        {"spec.replicas": 4},
        "spec.replicas",
        {
            "spec.replicas": 4,
            "spec.pdSpec": {"prefillSpec": {"replicas": 1}, "decodingSpec": {"replicas": 1}},
        },
        deployment=SELFHOSTED,
        name="with-pdSpec",
    ),
    Case(
        "more-replicas-than-nodes",
        {"spec.replicas": 4},
        "spec.replicas",
        deployment=changed(
            SELFHOSTED, KARPENTER | {"instanceGroups.1.count": 3, "instanceGroups.0.count": 0}
        ),
        name="in a group that Karpenter does not fill",
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
]
