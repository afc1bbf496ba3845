"""Data capture: where records go, and who may write and read them."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.spec.rules import sources
from hypertier.spec.rules.network import bucket_of
from hypertier.spec.rules.rule import MODELS, Hit, hit, rule
from hypertier.spec.rules.subject import Subject
from hypertier.spec.tree import path

CAPTURE = path("spec.dataCapture")


@rule(
    "capture-bucket",
    "warning",
    kinds=MODELS,
    source=sources.SETUP,
    en="{path} names bucket {bucket}; AWS's managed policy covers hyperpod-tls* alone, so the role needs "
    "s3:PutObject on this one",
    ko="{path}의 버킷은 {bucket}입니다. AWS 관리형 정책은 hyperpod-tls*만 허용하므로 역할에 이 버킷의 "
    "s3:PutObject 권한이 필요합니다",
)
def capture_bucket(subject: Subject) -> Iterator[Hit]:
    if not subject.by_operator:
        return
    where = (*CAPTURE, "s3Uri")
    bucket = bucket_of(subject.manifest.text(where))
    if bucket and not bucket.startswith("hyperpod-tls"):
        yield hit(where, bucket=bucket)


@rule(
    "capture-key",
    "warning",
    kinds=MODELS,
    source=sources.SETUP,
    en="{path} is {got}: the operator's role needs kms:GenerateDataKey on this key, by its policy and by "
    "the key's; no managed policy grants it",
    ko="{path} 값이 {got}입니다. 오퍼레이터 역할의 정책과 키 정책 모두에 kms:GenerateDataKey 권한이 "
    "필요합니다",
)
def capture_key(subject: Subject) -> Iterator[Hit]:
    if not subject.by_operator:
        return
    for tier in ("sagemakerEndpoint", "modelPod"):
        where = (*CAPTURE, tier, "kmsKeyId")
        if subject.manifest.text(where) and subject.manifest.flag((*CAPTURE, tier, "enabled")):
            yield hit(where)


@rule(
    "capture-without-endpoint",
    "error",
    source=sources.CRD,
    en="{path} is true but endpointName is not set: there is no SageMaker endpoint to capture at",
    ko="{path} 값이 true인데 endpointName이 없습니다. 캡처할 SageMaker 엔드포인트가 없습니다",
)
def capture_without_endpoint(subject: Subject) -> Iterator[Hit]:
    where = (*CAPTURE, "sagemakerEndpoint", "enabled")
    if subject.manifest.flag(where) is True and not subject.manifest.text("spec.endpointName"):
        yield hit(where)
