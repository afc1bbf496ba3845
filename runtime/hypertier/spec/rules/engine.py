"""The engine's container: ports, health, metrics, image, arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypertier.catalog.zones import REGION
from hypertier.spec.rules import sources
from hypertier.spec.rules.cache import vllm_version
from hypertier.spec.rules.rule import Hit, fixed, hit, rule, suggested, unset
from hypertier.spec.rules.subject import VLLM, Subject, small_whole
from hypertier.spec.said import Said
from hypertier.spec.tree import path

CONTAINER_PORT = path("spec.worker.modelInvocationPort.containerPort")
METRICS_PORT = path("spec.metrics.modelMetrics.port")
HEALTH_PATH = path("spec.loadBalancer.healthCheckPath")
PROBES = path("spec.worker.probes")
READINESS = (*PROBES, "readinessProbe")
DEFAULT_METRICS_PORT = 8080
DEFAULT_PORTS = {VLLM: 8000, "lmi": 8080, "tgi": 8080, "sglang": 30000}
HEALTH_PATHS = {
    VLLM: ("/health", "/ping", "/v1/models", "/version", "/load", "/metrics"),
    "sglang": ("/health", "/health_generate", "/ping", "/v1/models", "/model_info", "/get_model_info"),
    "tgi": ("/health", "/ping", "/info", "/metrics", "/"),
    "lmi": ("/ping", "/health"),
}


@rule(
    "engine-port",
    "error",
    source=sources.VLLM_ARGUMENTS,
    en="{path} is {got} but the engine listens on {port} ({why}): no request would arrive",
    ko="{path} 값은 {got}인데 엔진은 {port} 포트에서 수신합니다({why}). 요청이 도달하지 못합니다",
)
def engine_port(subject: Subject) -> Iterator[Hit]:
    port = subject.manifest.whole(CONTAINER_PORT)
    found = listening_port(subject)
    if port is not None and found is not None and port != found[0]:
        yield fixed(CONTAINER_PORT, found[0], port=found[0], why=found[1])


def listening_port(subject: Subject) -> tuple[int, Said] | None:
    """The port that the engine will listen on and how that is known, or None where it is not."""
    written = subject.argument("--port")
    if written is not None:
        port = small_whole(written)
        return (port, Said("--port", "--port")) if port else None
    if subject.engine in ("lmi", "tgi") and subject.is_aws_container:
        return (
            None
            if any("PORT" in name for name in subject.environment)
            else (8080, Said("the container's own", "컨테이너 자체의 포트"))
        )
    if subject.engine is None or subject.is_aws_container or "ecr." in subject.image:
        return None  # an image of one's own may listen anywhere
    if subject.manifest.items("spec.worker.command") and not any(
        "vllm" in word or "sglang" in word for word in subject.arguments
    ):
        return None
    port = DEFAULT_PORTS.get(subject.engine)
    if port is None:
        return None
    return port, Said(f"{subject.engine}'s default", f"{subject.engine} 기본값")


@rule(
    "probe-port",
    "error",
    source=sources.PROBES,
    en="{path} is {got} but the engine listens on {port} ({why}): the probe would fail for ever",
    ko="{path} 값은 {got}인데 엔진은 {port} 포트에서 수신합니다({why}). 검사가 계속 실패합니다",
)
def probe_port(subject: Subject) -> Iterator[Hit]:
    found = listening_port(subject)
    if found is None:
        return
    for probe in subject.manifest.mapping(PROBES):
        for way in ("httpGet", "tcpSocket", "grpc"):
            where = (*PROBES, probe, way, "port")
            port = subject.manifest.whole(where)
            if port is not None and port != found[0]:
                yield fixed(where, found[0], port=found[0], why=found[1])


@rule(
    "metrics-port",
    "error",
    source=sources.OBSERVABILITY,
    en="{path} is {got} but the engine serves its metrics on {port}, its own port: none would be "
    "collected, and nothing that scales by them would move",
    ko="{path} 값은 {got}인데 엔진은 자신의 포트 {port}에서 지표를 제공합니다. 지표가 수집되지 않고 지표에 "
    "따른 확장도 동작하지 않습니다",
)
def metrics_port(subject: Subject) -> Iterator[Hit]:
    port = subject.manifest.whole(CONTAINER_PORT)
    if subject.engine not in DEFAULT_PORTS or port is None or not 1024 <= port <= 65535:
        return
    if not subject.by_operator:
        return  # our exporter asks the engine's own port
    if subject.manifest.flag("spec.metrics.enabled") is False:
        return
    listening = listening_port(subject)
    right = listening[0] if listening else port
    written = subject.manifest.whole(METRICS_PORT)
    if written is None and subject.manifest.has(METRICS_PORT):
        return
    if (DEFAULT_METRICS_PORT if written is None else written) != right:
        got = written if written is not None else unset(DEFAULT_METRICS_PORT)
        yield fixed(METRICS_PORT, right, port=right, got=got)


@rule(
    "health-path",
    "warning",
    source=sources.VLLM_ARGUMENTS,
    en="{path} is {got}, which {engine} does not answer; it has {known}. The load balancer would find no "
    "healthy target",
    ko="{path} 값 {got}에 {engine}은(는) 응답하지 않습니다. 응답하는 경로: {known}. 로드 밸런서가 정상 "
    "대상을 찾지 못합니다",
)
def health_path(subject: Subject) -> Iterator[Hit]:
    written = subject.manifest.text(HEALTH_PATH)
    known = HEALTH_PATHS.get(subject.engine or "") if subject.by_operator else None
    if known and written and written.startswith("/") and written not in known:
        yield suggested(HEALTH_PATH, known[0], engine=subject.engine, known=", ".join(known))


@rule(
    "health-path-ping",
    "error",
    source=sources.VLLM_ARGUMENTS,
    en="{path} is {got}; vLLM {version} answers /health alone: /ping came with 0.7",
    ko="{path} 값이 {got}입니다. vLLM {version}은(는) /health에만 응답합니다. /ping은 0.7부터 있습니다",
)
def health_path_ping(subject: Subject) -> Iterator[Hit]:
    version = vllm_version(subject)
    written = subject.manifest.text(HEALTH_PATH)
    if subject.by_operator and version is not None and version < (0, 7) and written in (None, "/ping"):
        got = written or unset("/ping")
        yield fixed(HEALTH_PATH, "/health", got=got, version=subject.image_tag)


@rule(
    "readiness-timeout",
    "warning",
    source=sources.MODEL_HUB,
    en="{path} is not set: the operator's readiness probe gives up after 1 second, and a busy engine "
    "leaves the load balancer",
    ko="{path} 값이 없습니다. 오퍼레이터의 준비 상태 검사는 1초 만에 포기하므로 바쁜 엔진이 로드 "
    "밸런서에서 빠집니다",
)
def readiness_timeout(subject: Subject) -> Iterator[Hit]:
    if not subject.by_operator or subject.manifest.has((*READINESS, "timeoutSeconds")):
        return
    if str(subject.manifest.get("apiVersion")).endswith("/v1alpha1"):
        return  # which has no probes
    if subject.manifest.mapping(READINESS):
        yield fixed((*READINESS, "timeoutSeconds"), 10)
        return
    listening = listening_port(subject)
    port = listening[0] if listening else subject.manifest.whole(CONTAINER_PORT)
    known = HEALTH_PATHS.get(subject.engine or "")
    asked = subject.manifest.text(HEALTH_PATH) or (known[0] if known else None)
    if port is None or asked is None:
        yield hit(READINESS)
        return
    probe = {"httpGet": {"path": asked, "port": port}, "periodSeconds": 10, "timeoutSeconds": 10}
    yield fixed(READINESS, probe)


@rule(
    "floating-image",
    "warning",
    source=sources.IMAGES,
    en="{path} is {got}: {why}, so replicas may run different engines and hash differently; name a version",
    ko="{path} 값이 {got}입니다({why}). 복제본마다 다른 엔진이 실행될 수 있으니 버전을 지정하십시오",
)
def floating_image(subject: Subject) -> Iterator[Hit]:
    image = subject.image
    if not image or re.search(r"[<>${}]", image) or "@sha256:" in image:
        return
    if subject.image_tag is None:
        yield hit(path("spec.worker.image"), why=Said("no tag", "태그가 없음"))
    elif (tag := subject.image_tag) in ("latest", "nightly", "main", "stable", "dev"):
        yield hit(path("spec.worker.image"), why=Said(f"the tag {tag} moves", f"{tag} 태그는 계속 바뀜"))


@rule(
    "image-region",
    "warning",
    source=sources.IMAGES,
    en="{path} comes from ECR in {from_region}, the deployment is in {region}: pulls cross regions, slow "
    "and billed, and fail in a closed network",
    ko="{path} 이미지는 {from_region} 리전의 ECR에 있고 배포는 {region} 리전에 있습니다. 리전 간 전송은 "
    "느리고 비용이 들며 폐쇄망에서는 실패합니다",
)
def image_region(subject: Subject) -> Iterator[Hit]:
    region = subject.around.region
    is_one = region is not None and REGION.fullmatch(region)
    if is_one and subject.image_region and subject.image_region != region:
        moved = subject.image.replace(f".ecr.{subject.image_region}.", f".ecr.{region}.", 1)
        yield suggested(path("spec.worker.image"), moved, from_region=subject.image_region, region=region)


@rule(
    "arguments-ignored",
    "warning",
    source=sources.MODEL_HUB,
    en="{path} may be ignored: the entry point of AWS's containers takes no arguments; set command too, or "
    "use the container's SM_VLLM_ variables",
    ko="{path} 값이 무시될 수 있습니다. AWS 컨테이너의 진입점은 인수를 받지 않습니다. command도 지정하거나 "
    "SM_VLLM_ 변수를 쓰십시오",
)
def arguments_ignored(subject: Subject) -> Iterator[Hit]:
    if not subject.by_operator:
        return  # our engines are started by a command of ours
    fixed_entry = subject.engine in ("lmi", "tgi") or (subject.is_aws_container and subject.engine == VLLM)
    if (
        fixed_entry
        and subject.manifest.items("spec.worker.args")
        and not subject.manifest.items("spec.worker.command")
    ):
        yield hit(path("spec.worker.args"))
