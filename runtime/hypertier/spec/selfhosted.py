"""What of an endpoint's manifest our own serving does, what says nothing to it, and what it refuses.

Nothing of a manifest is silently off: `hypertier lint` and the charts read this one list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypertier.spec.capturing import SERVED as CAPTURED
from hypertier.spec.said import Said
from hypertier.spec.tree import Path, dotted

SERVED = frozenset(
    {
        "spec.modelName",
        "spec.replicas",
        "spec.instanceType",
        "spec.instanceTypes",
        "spec.invocationEndpoint",  # the router answers every path of OpenAI's
        "spec.maxDeployTimeInSeconds",
        "spec.autoScalingSpec",
        *CAPTURED,
        "spec.intelligentRoutingSpec",
        "spec.kubernetes",
        "spec.kvCacheSpec.enableL1Cache",
        "spec.kvCacheSpec.enableL2Cache",
        "spec.kvCacheSpec.l2CacheSpec",
        "spec.metrics.enabled",
        "spec.metrics.modelMetrics",  # vLLM has but one place for them
        "spec.modelSourceConfig.modelSourceType",
        "spec.modelSourceConfig.modelLocation",
        "spec.modelSourceConfig.s3Storage",
        "spec.modelSourceConfig.fsxStorage",
        "spec.modelSourceConfig.huggingFaceModel",
        *(
            f"spec.pdSpec.{side}.{field}"
            for side in ("prefillSpec", "decodingSpec")
            for field in ("replicas", "args", "nodeSelector", "resources.requests", "resources.limits")
        ),
        "spec.pdSpec.autoScalingSpec.prefillAutoScaling",
        "spec.pdSpec.autoScalingSpec.decodingAutoScaling",
        "spec.pdSpec.routingThreshold",
        "spec.pdSpec.topologySpec.sameAZ",
        "spec.pdSpec.topologySpec.availabilityZone",
        "spec.tlsConfig.customCertificateConfig",
        "spec.worker.image",
        "spec.worker.args",
        "spec.worker.command",
        "spec.worker.workingDir",
        "spec.worker.environmentVariables",
        "spec.worker.modelInvocationPort",
        "spec.worker.modelVolumeMount",
        "spec.worker.probes",
        "spec.worker.resources.requests",
        "spec.worker.resources.limits",
    }
)
BEHIND_A_LOAD_BALANCER = frozenset(
    {"spec.loadBalancer.routingAlgorithm", "spec.loadBalancer.idleTimeoutSeconds"}
)
WITHOUT_EFFECT = BEHIND_A_LOAD_BALANCER | {
    "metadata.labels",
    "metadata.annotations",
    "spec.InitialReplicaCount",
    "spec.loadBalancer.healthCheckPath",
    "spec.metrics.metricsScrapeIntervalSeconds",
    "spec.modelVersion",
    "spec.tags",
    "spec.tlsConfig.tlsCertificateOutputS3Uri",
}
_WHY_NOT = {
    "spec.kvCacheSpec.cacheConfigFile": Said("it configures LMCache", "LMCache 설정입니다"),
    "spec.lmcache": Said("no LMCache runs", "LMCache가 실행되지 않습니다"),
    "spec.pdSpec.topologySpec.placementGroup": Said(
        "no node's label tells its group; use nodeSelector", "노드 레이블에 배치 그룹이 없습니다"
    ),
    "spec.dataCapture.sagemakerEndpoint": Said(
        "no SageMaker endpoint is registered; modelPod captures in the router",
        "SageMaker 엔드포인트를 만들지 않습니다. modelPod은 라우터에서 캡처합니다",
    ),
    "spec.dataCapture.loadBalancer": Said(
        "the load balancer's access logs are an attribute of its own",
        "로드 밸런서의 액세스 로그는 자체 속성입니다",
    ),
    "spec.dataCapture.s3UploaderResources": Said(
        "the container that carries captures has its own", "캡처를 옮기는 컨테이너에는 자체 리소스가 있습니다"
    ),
    "spec.dataCapture.modelPod.captureContentTypeHeader": Said(
        "JSON is captured as text, and all else in base64", "JSON은 텍스트로, 나머지는 base64로 캡처합니다"
    ),
    "spec.worker.requestLimits": Said("no proxy in the pod counts requests", "요청을 세는 프록시가 없습니다"),
    "spec.endpointName": Said(
        "no SageMaker endpoint is registered", "SageMaker 엔드포인트를 만들지 않습니다"
    ),
    "spec.dnsConfig": Said(
        "no record is made; point the domain at the Ingress's address",
        "DNS 레코드를 만들지 않습니다. 도메인을 Ingress 주소로 연결하십시오",
    ),
    "spec.nodeAffinity": Said(
        "pods go to the instance group of instanceType", "파드는 instanceType의 그룹으로 갑니다"
    ),
    "spec.inferenceGateway": Said("our router stands in front", "자체 라우터가 앞에 있습니다"),
    "spec.modelSourceConfig.prefetchEnabled": Said(
        "engines read the weights when they start", "엔진이 시작할 때 읽습니다"
    ),
}
_NOTHING_READS_IT = Said("nothing here reads it", "읽는 곳이 없습니다")


def unserved_fields(spec: Mapping[str, Any]) -> Iterator[tuple[Path, Any, Said]]:
    """Every field below `spec` that is written, and neither served nor known to say nothing; and why."""
    yield from _unserved(spec, ("spec",))


def _unserved(fields: Mapping[str, Any], parent: Path) -> Iterator[tuple[Path, Any, Said]]:
    for key, got in fields.items():
        where = (*parent, key)
        name = dotted(where)
        if not got or name in SERVED or name in WITHOUT_EFFECT:
            continue
        if isinstance(got, Mapping) and any(
            known.startswith(f"{name}.") for known in SERVED | WITHOUT_EFFECT
        ):
            yield from _unserved(got, where)
        else:
            yield where, got, _WHY_NOT.get(name, _NOTHING_READS_IT)
