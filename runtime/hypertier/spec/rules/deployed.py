"""What an endpoint's manifest and the deployment that it is part of promise each other."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.catalog.addons import INFERENCE_OPERATOR, S3_DRIVER, existing_with
from hypertier.catalog.instance_types import find_instance_type
from hypertier.errors import ConfigError
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import DEPLOYMENT, MODELS, Hit, hit, rule, suggested
from hypertier.spec.rules.subject import Subject, known_groups
from hypertier.spec.said import Said
from hypertier.spec.selfhosted import unserved_fields
from hypertier.spec.tree import Path, View, path
from hypertier.spec.verify import check_verified

STRATEGY = path("spec.intelligentRoutingSpec.routingStrategy")
BACKEND = path("spec.kvCacheSpec.l2CacheSpec.l2CacheBackend")
ROUTING = "spec.intelligentRoutingSpec"
TRIGGERS = ("cloudWatchTrigger", "cloudWatchTriggerList", "prometheusTrigger", "prometheusTriggerList")
OIDC_PROVIDER = Said(
    "the ARN of its OIDC provider in IAM, by which what mounts S3, or AWS's operator, gets a role",
    "S3 마운트 드라이버나 AWS 오퍼레이터의 역할이 신뢰할 클러스터 OIDC 공급자의 IAM ARN",
)
CONTROLLER = Said(
    "existing, or install where the cluster has none: two of them would fight",
    "existing, 클러스터에 없으면 install (둘이 있으면 충돌합니다)",
)
ENGINES_WITHOUT_VLLM = ("sglang", "tgi")  # AWS's LMI has it, and so have some of Triton's
PUBLIC_REGISTRIES = ("docker.io/", "ghcr.io/", "quay.io/", "nvcr.io/", "public.ecr.aws/", "registry.k8s.io/")


@rule(
    "no-group-for-endpoint",
    "error",
    source=sources.HYPERTIER,
    en="{path} is {got}; expected the type of one of the deployment's instanceGroups: {groups}",
    ko="{path} 값이 {got}입니다. 배포의 instanceGroups 중 하나의 유형이어야 합니다: {groups}",
)
def no_group_for_endpoint(subject: Subject) -> Iterator[Hit]:
    groups = _groups(subject.around.deployment)
    if subject.around.deployment is None or not groups or not subject.instance_types:
        return
    if any(find_instance_type(group.instance_type) is None for group in groups):
        return  # rule group-type-unknown speaks
    if not any(group.instance_type in subject.instance_types for group in groups):
        name = "spec.instanceType" if subject.manifest.has("spec.instanceType") else "spec.instanceTypes"
        said = [f"{group.name} ({group.instance_type})" for group in groups]
        yield hit(path(name), groups=", ".join(said))


def _groups(deployment: View | None) -> list[InstanceGroup]:
    return [] if deployment is None else known_groups(deployment)


@rule(
    "tiered-storage-off",
    "error",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is tieredstorage but the deployment's cache.l2.backend is {backend}: the cluster gets no "
    "tiered storage, and L2 would be off. Make the two the same",
    ko="{path} 값이 tieredstorage인데 배포의 cache.l2.backend는 {backend}입니다. 클러스터에 계층형 "
    "스토리지가 없어 L2가 동작하지 않습니다. 두 값을 같게 하십시오",
)
def tiered_storage_off(subject: Subject) -> Iterator[Hit]:
    if subject.around.deployment is None or subject.l2_backend != "tieredstorage":
        return
    backend = subject.around.deployment.text("cache.l2.backend") or "redis"
    if backend != "tieredstorage":
        yield hit(BACKEND, backend=backend)


@rule(
    "tiered-storage-unused",
    "warning",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is {got} but the deployment's cache.l2.backend is tieredstorage: the cluster would reserve "
    "memory on every node that this endpoint never uses",
    ko="{path} 값은 {got}인데 배포의 cache.l2.backend는 tieredstorage입니다. 이 엔드포인트가 쓰지 않는 "
    "메모리를 모든 노드에 예약합니다",
)
def tiered_storage_unused(subject: Subject) -> Iterator[Hit]:
    deployment = subject.around.deployment
    if deployment is None or deployment.text("cache.l2.backend") != "tieredstorage":
        return
    if subject.l2_backend == "redis":
        yield suggested(BACKEND, "tieredstorage")


@rule(
    "l2-events-unheard",
    "warning",
    kinds=MODELS,
    source=sources.HYPERTIER,
    en="{path} is {got} and the deployment's cache.l2.kvEvents is true: expected kvaware, without which the "
    "engine publishes no events",
    ko="{path} 값이 {got}인데 배포의 cache.l2.kvEvents는 true입니다. kvaware가 아니면 엔진이 이벤트를 "
    "내보내지 않습니다",
)
def l2_events_unheard(subject: Subject) -> Iterator[Hit]:
    deployment = subject.around.deployment
    if deployment is None or deployment.flag("cache.l2.kvEvents") is not True:
        return
    if subject.manifest.text(STRATEGY) != "kvaware":
        yield hit(STRATEGY)


@rule(
    "not-verified",
    "error",
    source=sources.HYPERTIER,
    en="{path} is {got}; expected {expected}",
    ko="{path} 값이 {got}입니다. 다음이어야 합니다: {expected}",
)
def not_verified(subject: Subject) -> Iterator[Hit]:
    deployment = subject.around.deployment
    if deployment is None or not isinstance(deployment.get("verify"), dict):
        return
    name = subject.manifest.text("metadata.name") or ""
    is_exported = subject.manifest.flag("spec.metrics.enabled") is not False
    try:
        check_verified("", name, is_exported=is_exported)
    except ConfigError as error:
        yield hit(path(error.setting), expected=error.expected)


@rule(
    "more-replicas-than-nodes",
    "error",
    source=sources.RESOURCES,
    en="{path} is {got} but group {group} has room for {room} ({count} nodes, {each} engines each): the "
    "rest would stay pending",
    ko="{path} 값은 {got}인데 {group} 그룹에는 {room}개만 들어갑니다(노드 {count}대, 노드당 엔진 "
    "{each}개). 나머지는 계속 대기(Pending)합니다",
)
def more_replicas_than_nodes(subject: Subject) -> Iterator[Hit]:
    found = None if subject.manifest.has("spec.pdSpec") else _room(subject)
    replicas = subject.manifest.whole("spec.replicas")
    if found is not None and replicas is not None and replicas > found[2]:
        group, each, room, count = found
        where = path("spec.replicas")
        yield suggested(where, room, group=group, each=each, room=room, count=count)


def _room(subject: Subject) -> tuple[str, int, int, int] | None:
    """The endpoint's group, engines per node, engines in all and nodes; None where it is not known."""
    deployment = subject.around.deployment
    for group in _groups(deployment):
        node = find_instance_type(group.instance_type)
        if group.instance_type in subject.instance_types and node:
            autoscaled = deployment is not None and deployment.flag("cluster.autoscaling") is True
            if not subject.gpus or not node.gpus or (autoscaled and not group.count):
                return None
            each = node.gpus // subject.gpus
            return group.name, each, each * group.count, group.count
    return None


@rule(
    "scaling-over-nodes",
    "warning",
    kinds=(*MODELS, DEPLOYMENT),
    source=sources.RESOURCES,
    en="{path} is {got} but group {group} has room for {room} ({count} nodes, {each} engines each): replicas "
    "beyond would wait for nodes that nobody adds",
    ko="{path} 값은 {got}인데 {group} 그룹에는 {room}개만 들어갑니다(노드 {count}대, 노드당 엔진 {each}개). "
    "그 이상은 아무도 추가하지 않는 노드를 기다립니다",
)
def scaling_over_nodes(subject: Subject) -> Iterator[Hit]:
    where, scaled = path("spec.autoScalingSpec.maxReplicaCount"), [subject]
    if subject.kind == DEPLOYMENT:
        where = path("scaling.max")
        scaled = [each for each in subject.endpoints if not each.manifest.has("spec.autoScalingSpec")]
    most = subject.manifest.whole(where)
    for endpoint in scaled:
        found = None if endpoint.manifest.has("spec.pdSpec") else _room(endpoint)
        if found is None or most is None:
            continue
        group, each, room, count = found
        # Of more that are there from the beginning another rule speaks.
        if most > room >= (endpoint.manifest.whole("spec.replicas") or 0):
            yield hit(where, group=group, each=each, room=room, count=count)
            return


@rule(
    "no-room-to-roll",
    "warning",
    source=sources.ROLLING,
    en="{path} takes every GPU of group {group}: a rolling update starts a new pod before it ends an old "
    "one, finds no GPU and hangs. Keep room for one more",
    ko="{path} 값이 {group} 그룹의 모든 GPU를 씁니다. 롤링 업데이트가 새 파드를 배치할 GPU를 찾지 못해 "
    "멈춥니다. 하나의 여유를 두십시오",
)
def no_room_to_roll(subject: Subject) -> Iterator[Hit]:
    found = _room(subject)
    if subject.around.serving != "operator" or found is None:
        return
    replicas = subject.manifest.whole("spec.replicas") or subject.max_replicas
    if replicas == found[2]:
        yield hit(path("spec.replicas"), group=found[0])


@rule(
    "closed-network-model",
    "error",
    source=sources.EKS_PRIVATE,
    en="{path} is {got} but the deployment's cluster.closedNetwork is true: nothing in it reaches Hugging "
    "Face",
    ko="{path} 값이 {got}인데 배포의 cluster.closedNetwork가 true입니다. 폐쇄망에서는 Hugging Face에 "
    "접근할 수 없습니다",
)
def closed_network_model(subject: Subject) -> Iterator[Hit]:
    if subject.around.deployment is None or not subject.around.deployment.flag("cluster.closedNetwork"):
        return
    where = path("spec.modelSourceConfig.modelSourceType")
    if subject.manifest.text(where) == "huggingface":
        yield hit(where)


@rule(
    "closed-network-image",
    "error",
    source=sources.EKS_PRIVATE,
    en="{path} is {got} but the deployment's cluster.closedNetwork is true: expected an image in ECR, "
    "which has an endpoint inside the VPC",
    ko="{path} 값이 {got}인데 배포의 cluster.closedNetwork가 true입니다. VPC 엔드포인트가 있는 ECR "
    "이미지여야 합니다",
)
def closed_network_image(subject: Subject) -> Iterator[Hit]:
    if subject.around.deployment is None or not subject.around.deployment.flag("cluster.closedNetwork"):
        return
    first, slash, _ = subject.image.partition("/")
    on_docker_hub = bool(slash) and "." not in first and ":" not in first
    if subject.image.startswith(PUBLIC_REGISTRIES) or on_docker_hub:
        yield hit(path("spec.worker.image"))


@rule(
    "existing-eks-untold",
    "error",
    source=sources.HYPERTIER,
    en="{path} needs {key} of the deployment, whose EKS cluster exists and is asked nothing: "
    "expected {expected}",
    ko="EKS 클러스터가 이미 있으므로 {path}에는 배포의 {key} 값이 필요합니다: {expected}",
)
def existing_eks_untold(subject: Subject) -> Iterator[Hit]:
    deployment = subject.around.deployment
    if deployment is None or not deployment.has("cluster.attributes.eksClusterName"):
        return
    for where, key in _needs_of_a_cluster(subject, deployment):
        if not deployment.has(key):
            expected = CONTROLLER if key.startswith("controllers.") else OIDC_PROVIDER
            yield hit(where, key=key, expected=expected)


def _needs_of_a_cluster(subject: Subject, deployment: View) -> Iterator[tuple[Path, str]]:
    """The fields for which synth must know more of an EKS cluster, and the key that tells it."""
    source = path("spec.modelSourceConfig.modelSourceType")
    addons = existing_with(deployment.texts("cluster.attributes.addons"))
    brings_operator = subject.around.serving == "operator" and INFERENCE_OPERATOR not in addons
    brings_driver = subject.manifest.text(source) == "s3" and S3_DRIVER not in addons
    if brings_operator or brings_driver:
        yield source, "cluster.attributes.oidcProviderArn"
    if subject.around.serving == "operator":
        return
    if subject.manifest.has("spec.tlsConfig"):
        yield path("spec.tlsConfig"), "controllers.loadBalancer"
    for scaled in ("spec.pdSpec" if subject.manifest.has("spec.pdSpec") else "spec", ROUTING):
        scaler = path(f"{scaled}.autoScalingSpec")
        triggers = [name for name in TRIGGERS if subject.manifest.has((*scaler, name))]
        if triggers or (scaled != ROUTING and subject.manifest.has(scaler)):
            yield scaler, "controllers.keda"


@rule(
    "selfhosted-engine",
    "error",
    source=sources.HYPERTIER,
    en="{path} is {got}, a container of {engine}; serving: selfhosted runs vLLM in it, which it has not: "
    "name an image of vLLM, or serve by AWS's operator",
    ko="{path} 값 {got}은(는) {engine} 컨테이너인데 serving: selfhosted는 그 안에서 vLLM을 실행합니다. vLLM "
    "이미지를 지정하거나 AWS 오퍼레이터로 제공하십시오",
)
def selfhosted_engine(subject: Subject) -> Iterator[Hit]:
    if subject.by_operator or subject.runs_another_image:
        return
    if subject.engine in ENGINES_WITHOUT_VLLM:
        yield hit(path("spec.worker.image"), engine=subject.engine)


@rule(
    "not-served-here",
    "error",
    source=sources.HYPERTIER,
    en="{path} is {got}, which serving: selfhosted does not do ({why}) and synth refuses; take it out, or "
    "serve by AWS's operator",
    ko="{path} 값이 {got}인데 serving: selfhosted에서는 지원하지 않아({why}) synth가 거부합니다. 값을 "
    "지우거나 AWS 오퍼레이터로 제공하십시오",
)
def not_served_here(subject: Subject) -> Iterator[Hit]:
    if subject.around.serving != "selfhosted":
        return
    unknown = {fault.where for fault in subject.faults if fault.kind == "unknown"}
    for where, _, why in unserved_fields(subject.manifest.mapping("spec")):
        if where not in unknown:
            yield hit(where, why=why)
