"""Where the weights come from, and the volumes that carry them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import JUMPSTART, Edit, Hit, fixed, hit, rule, suggested
from hypertier.spec.rules.subject import Subject
from hypertier.spec.tree import path

SOURCE = path("spec.modelSourceConfig")
TYPE = path("spec.modelSourceConfig.modelSourceType")
LOCATION = path("spec.modelSourceConfig.modelLocation")
VOLUMES = path("spec.kubernetes.volumes")
BLOCKS = {"s3": "s3Storage", "fsx": "fsxStorage", "huggingface": "huggingFaceModel"}
USER_ASSIGNABLE = "sagemaker.amazonaws.com/user-assignable"
RESERVED_VOLUMES = (
    "shm",
    "model-weights-copy",
    "parallel-copy-configmap",
    "lmcache-config",
    "gated-model-downloader-configmap",
)
# Models of the JumpStart hub that AWS publishes behind a licence: Meta's and Google's.
GATED_PREFIXES = ("meta-textgeneration-", "meta-vlm-", "huggingface-llm-gemma-")


@rule(
    "model-source-block",
    "error",
    source=sources.CLI_VALIDATORS,
    en="modelSourceType is {source} but {path} is not set: there is nothing to load the model from",
    ko="modelSourceType이 {source}인데 {path} 값이 없습니다. 모델을 불러올 곳이 없습니다",
)
def model_source_block(subject: Subject) -> Iterator[Hit]:
    source = subject.manifest.text(TYPE)
    block = BLOCKS.get(source or "")
    if block is None or subject.manifest.has((*SOURCE, block)):
        return
    present = [name for name, other in BLOCKS.items() if subject.manifest.mapping((*SOURCE, other))]
    if len(present) == 1:
        yield Hit((*SOURCE, block), None, (Edit("set", TYPE, present[0]),), {"source": source})
    else:
        yield hit((*SOURCE, block), source=source)


@rule(
    "model-source-unused",
    "warning",
    source=sources.DEPLOY,
    en="{path} is not used: modelSourceType is {source}",
    ko="{path} 값은 쓰이지 않습니다. modelSourceType이 {source}입니다",
)
def model_source_unused(subject: Subject) -> Iterator[Hit]:
    source = subject.manifest.text(TYPE)
    own = BLOCKS.get(source or "")
    if own is None or not subject.manifest.has((*SOURCE, own)):
        return
    for block in BLOCKS.values():
        if block != own and subject.manifest.has((*SOURCE, block)):
            where = (*SOURCE, block)
            yield Hit(where, None, (Edit("remove", where),), {"source": source})


@rule(
    "model-location",
    "error",
    source=sources.DEPLOY,
    en="{path} is {got}; expected the weights' prefix in the bucket, such as {like}: nothing lies under an "
    "address",
    ko="{path} 값이 {got}입니다. 버킷 안의 가중치 접두사여야 합니다. 예: {like}",
)
def model_location(subject: Subject) -> Iterator[Hit]:
    found = re.match(r"s3://([^/]+)/?(.*)", subject.manifest.text(LOCATION) or "")
    if found is None or subject.manifest.text(TYPE) != "s3":
        return
    prefix = found[2].strip("/")
    if prefix and found[1] == subject.manifest.text((*SOURCE, "s3Storage", "bucketName")):
        yield fixed(LOCATION, prefix, like=prefix)
    else:
        yield hit(LOCATION, like=prefix or "models/llama-3.1-8b")


@rule(
    "huggingface-commit",
    "warning",
    source=sources.DEPLOY,
    en="{path} is not set: the weights follow the branch main, and cached KV of older weights no longer fits",
    ko="{path} 값이 없습니다. 가중치가 main 브랜치를 따라가므로 이전 가중치의 KV 캐시가 맞지 않게 됩니다",
)
def huggingface_commit(subject: Subject) -> Iterator[Hit]:
    where = (*SOURCE, "huggingFaceModel")
    if subject.manifest.mapping(where) and not subject.manifest.has((*where, "commitSHA")):
        yield hit((*where, "commitSHA"))


@rule(
    "huggingface-token-key",
    "warning",
    source=sources.DEPLOY,
    en="{path} is {got}; AWS's pages store the Hugging Face token under the key token, in a Secret of the "
    "endpoint's own namespace",
    ko="{path} 값이 {got}입니다. AWS 문서는 Hugging Face 토큰을 엔드포인트와 같은 네임스페이스의 Secret에 "
    "token 키로 저장합니다",
)
def huggingface_token_key(subject: Subject) -> Iterator[Hit]:
    where = (*SOURCE, "huggingFaceModel", "tokenSecretRef", "key")
    key = subject.manifest.text(where)
    if key is not None and key != "token":
        yield suggested(where, "token")


@rule(
    "huggingface-token-name",
    "error",
    source=sources.CRD,
    en="{path} is not set: the reference names no Secret, and the token is never found",
    ko="{path} 값이 없습니다. 참조가 어떤 Secret도 가리키지 않아 토큰을 찾을 수 없습니다",
)
def huggingface_token_name(subject: Subject) -> Iterator[Hit]:
    where = (*SOURCE, "huggingFaceModel", "tokenSecretRef")
    if subject.manifest.mapping(where) and not subject.manifest.text((*where, "name")):
        yield hit((*where, "name"))


@rule(
    "kubernetes-volume",
    "error",
    source=sources.DEPLOY,
    en="modelSourceType is kubernetesVolume; expected a volume named {name} under {path}, as "
    "worker.modelVolumeMount.name says",
    ko="modelSourceType이 kubernetesVolume이므로 {path}에 worker.modelVolumeMount.name과 같은 {name} "
    "볼륨이 필요합니다",
)
def kubernetes_volume(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.text(TYPE) != "kubernetesVolume":
        return
    name = subject.manifest.text("spec.worker.modelVolumeMount.name")
    names = [entry.get("name") for _, entry in subject.manifest.mappings(VOLUMES)]
    if name is not None and name not in names:
        yield hit(VOLUMES, name=name)


@rule(
    "kubernetes-volume-location",
    "warning",
    source=sources.DEPLOY,
    en="{path} is not used: with kubernetesVolume the volume itself says where the model is",
    ko="{path} 값은 쓰이지 않습니다. kubernetesVolume에서는 볼륨이 모델의 위치를 정합니다",
)
def kubernetes_volume_location(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.text(TYPE) == "kubernetesVolume" and subject.manifest.has(LOCATION):
        yield Hit(LOCATION, None, (Edit("remove", LOCATION),))


@rule(
    "reserved-volume",
    "error",
    source=sources.DEPLOY,
    en="{path} is {got}, a name that the operator keeps for itself: {reserved}",
    ko="{path} 값 {got}은(는) 오퍼레이터가 쓰는 예약된 이름입니다: {reserved}",
)
def reserved_volume(subject: Subject) -> Iterator[Hit]:
    for index, entry in subject.manifest.mappings(VOLUMES):
        if entry.get("name") in RESERVED_VOLUMES:
            yield hit((*VOLUMES, index, "name"), reserved=RESERVED_VOLUMES)
    mount = path("spec.worker.modelVolumeMount.name")
    if subject.manifest.text(mount) in RESERVED_VOLUMES:
        yield suggested(mount, "model-weights", reserved=RESERVED_VOLUMES)


@rule(
    "custom-service-account",
    "warning",
    source=sources.DEPLOY,
    en='{path} is {got}: the operator refuses a service account without the label {label}: "true"; '
    "only a cluster's administrator may set it",
    ko='{path} 값이 {got}입니다. 오퍼레이터는 {label}: "true" 레이블이 없는 서비스 계정을 거부합니다. '
    "레이블은 클러스터 관리자만 붙일 수 있습니다",
)
def custom_service_account(subject: Subject) -> Iterator[Hit]:
    where = path("spec.kubernetes.serviceAccountName")
    name = subject.manifest.text(where)
    if name in (None, "default") or not subject.by_operator:
        return
    for other in subject.around.siblings:
        labels = other.mapping("metadata.labels")
        is_it = other.get("kind") == "ServiceAccount" and other.text("metadata.name") == name
        if is_it and str(labels.get(USER_ASSIGNABLE)).lower() == "true":
            return
    yield hit(where, label=USER_ASSIGNABLE)


@rule(
    "weights-path",
    "warning",
    source=sources.VLLM_ARGUMENTS,
    en="the engine loads {model} but the weights are mounted at {mount}: it would download them itself",
    ko="엔진은 {model}을(를) 불러오는데 가중치는 {mount}에 마운트됩니다. 엔진이 직접 내려받게 됩니다",
)
def weights_path(subject: Subject) -> Iterator[Hit]:
    found = subject.argument_place("--model", "--model-path")
    mount = subject.manifest.text("spec.worker.modelVolumeMount.mountPath") or "/opt/ml/model"
    if subject.manifest.text(TYPE) not in ("s3", "fsx", "kubernetesVolume") or found is None:
        return
    where, model = found
    if not model.startswith(("/", "s3://")) and re.fullmatch(r"[\w.-]+/[\w.-]+", model):
        word = subject.manifest.text(where) or ""
        value = f"{word.partition('=')[0]}={mount}" if word.startswith("-") else mount
        yield suggested(where, value, model=model, mount=mount)


@rule(
    "accept-eula",
    "error",
    kinds=(JUMPSTART,),
    source=sources.DEPLOY,
    en="{path} is {got} and {model} is a gated model: it is downloaded only for those who accepted its "
    "licence. Read it, then set true",
    ko="{path} 값이 {got}인데 {model}은(는) 라이선스 동의가 필요한 모델입니다. 라이선스를 읽고 true로 "
    "설정하십시오",
)
def accept_eula(subject: Subject) -> Iterator[Hit]:
    model = subject.manifest.text("spec.model.modelId") or ""
    if model.startswith(GATED_PREFIXES) and subject.manifest.flag("spec.model.acceptEula") is not True:
        yield hit(path("spec.model.acceptEula"), model=model)


@rule(
    "gated-download-role",
    "warning",
    kinds=(JUMPSTART,),
    source=sources.SETUP,
    en="{path} is not set: {model} is gated; without a role here the add-on needs "
    "jumpstartGatedModelDownloadRoleArn",
    ko="{path} 값이 없습니다. {model}은(는) 제한된 모델이므로 추가 기능에 "
    "jumpstartGatedModelDownloadRoleArn이 필요합니다",
)
def gated_download_role(subject: Subject) -> Iterator[Hit]:
    model = subject.manifest.text("spec.model.modelId") or ""
    where = path("spec.model.gatedModelDownloadRole")
    if (
        model.startswith(GATED_PREFIXES)
        and not subject.manifest.has(where)
        and subject.manifest.flag("spec.model.acceptEula") is True
    ):
        yield hit(where, model=model)
