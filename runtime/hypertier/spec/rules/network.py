"""Certificates, names, and how long a connection may be silent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypertier.catalog.instance_types import find_instance_type
from hypertier.catalog.models import find_model
from hypertier.errors import ConfigError
from hypertier.planning.break_even import PREFILL_EFFICIENCY_RATIO, recompute_seconds
from hypertier.spec.quantities import parse_seconds
from hypertier.spec.routing import BALANCER_IDLE_SECONDS, Timeouts
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import MODELS, Hit, hit, rule, suggested, unset
from hypertier.spec.rules.subject import Subject, small_whole
from hypertier.spec.tree import View, path

TLS = path("spec.tlsConfig")
CERTIFICATE = path("spec.tlsConfig.customCertificateConfig")
IDLE_TIMEOUT = path("spec.loadBalancer.idleTimeoutSeconds")
DEFAULT_IDLE_SECONDS = 60
MAX_IDLE_SECONDS = 4000


@rule(
    "dns-needs-certificate",
    "error",
    kinds=MODELS,
    source=sources.CRD,
    en="dnsConfig is set but {path} is not: a record needs the domain of a certificate of your own",
    ko="dnsConfig가 있는데 {path} 값이 없습니다. DNS 레코드에는 자체 인증서의 도메인이 필요합니다",
)
def dns_needs_certificate(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.has("spec.dnsConfig") and not subject.manifest.has(CERTIFICATE):
        yield hit(CERTIFICATE)


@rule(
    "certificate-region",
    "error",
    kinds=MODELS,
    source=sources.ALB,
    en="{path} is in {certificate}, the deployment is in {region}: a load balancer takes certificates of "
    "its own region alone",
    ko="{path} 인증서는 {certificate} 리전에 있고 배포는 {region} 리전에 있습니다. 로드 밸런서는 같은 "
    "리전의 인증서만 씁니다",
)
def certificate_region(subject: Subject) -> Iterator[Hit]:
    where = (*CERTIFICATE, "acmArn")
    match = re.match(r"arn:aws:acm:([a-z0-9-]+):", subject.manifest.text(where) or "")
    region = subject.around.region
    if match is not None and region is not None and match[1] != region:
        yield hit(where, certificate=match[1], region=region)


@rule(
    "certificate-bucket",
    "warning",
    kinds=MODELS,
    source=sources.SETUP,
    en="{path} names bucket {bucket}; AWS's managed policy lets the operator write to hyperpod-tls* alone",
    ko="{path}의 버킷은 {bucket}입니다. AWS 관리형 정책은 hyperpod-tls* 버킷에만 쓰기를 허용합니다",
)
def certificate_bucket(subject: Subject) -> Iterator[Hit]:
    where = path("spec.tlsConfig.tlsCertificateOutputS3Uri")
    bucket = bucket_of(subject.manifest.text(where))
    if bucket and not bucket.startswith("hyperpod-tls") and subject.by_operator:
        yield hit(where, bucket=bucket)


def bucket_of(uri: str | None) -> str | None:
    """The bucket of an s3:// address, or None; a placeholder is no bucket."""
    match = re.match(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/|$)", uri or "")
    return match[1] if match else None


@rule(
    "idle-timeout",
    "warning",
    source=sources.ALB,
    en="{path} is {got}; reading a prompt of {tokens} tokens takes about {seconds} seconds, in which a "
    "stream is silent: the load balancer would cut it",
    ko="{path} 값이 {got}입니다. {tokens} 토큰의 프롬프트를 읽는 데 약 {seconds}초가 걸리고 그동안 "
    "스트림이 조용하므로 로드 밸런서가 연결을 끊습니다",
)
def idle_timeout(subject: Subject) -> Iterator[Hit]:
    if subject.around.serving == "selfhosted" and not subject.manifest.has(TLS):
        return  # nothing stands before the routers
    length = small_whole(subject.argument("--max-model-len"))
    model = find_model(subject.manifest.text("spec.modelName"))
    nodes = [find_instance_type(name) for name in subject.instance_types]
    if model is None or not subject.gpus or length is None or not nodes or None in nodes:
        return
    flops = max(node.gpu_flops for node in nodes if node) * subject.gpus
    if not flops:
        return
    seconds = recompute_seconds(model, length, flops, PREFILL_EFFICIENCY_RATIO)
    limit, got = _idle(subject)
    if seconds > limit:
        enough = min(-(-int(seconds * 2) // 60) * 60, MAX_IDLE_SECONDS)
        yield suggested(IDLE_TIMEOUT, enough, tokens=length, seconds=round(seconds), got=got)


def _idle(subject: Subject) -> tuple[int, Any]:
    """Seconds of silence after which the load balancer cuts, and how a message shows them.

    Where the manifest does not say it is what `hypertier` sets, or AWS's own.
    """
    written = subject.manifest.whole(IDLE_TIMEOUT)
    if written is not None:
        return written, written
    default = BALANCER_IDLE_SECONDS if subject.around.serving == "selfhosted" else DEFAULT_IDLE_SECONDS
    return default, unset(default)


@rule(
    "hold-behind-balancer",
    "error",
    source=sources.ALB,
    en="{path} is {got}, but routers hold a request for {hold} seconds (scaling.toZero.hold): the load "
    "balancer would answer it with 504 while an engine starts",
    ko="{path} 값이 {got}인데 라우터는 요청을 {hold}초 동안 붙들어 둡니다(scaling.toZero.hold). 엔진이 "
    "시작되는 동안 로드 밸런서가 504로 응답합니다",
)
def hold_behind_balancer(subject: Subject) -> Iterator[Hit]:
    to_zero = subject.scaling.sleeps if subject.scaling else None
    if to_zero is None or subject.manifest.has("spec.pdSpec"):
        return
    hold = to_zero.hold_seconds
    yield from _silent_for_longer(subject, hold, {"hold": hold})


@rule(
    "silence-behind-balancer",
    "warning",
    source=sources.ALB,
    en="{path} is {got}, but routers wait {seconds} seconds for an engine that says nothing "
    "(routing.timeouts.{timeout}): the load balancer would cut such an answer before",
    ko="{path} 값이 {got}인데 라우터는 응답이 없는 엔진을 {seconds}초 동안 기다립니다"
    "(routing.timeouts.{timeout}). 로드 밸런서가 먼저 연결을 끊습니다",
)
def silence_behind_balancer(subject: Subject) -> Iterator[Hit]:
    deployment = subject.around.deployment
    if deployment is None:
        return
    waits = {
        key: _seconds(deployment, f"routing.timeouts.{key}", default)
        for key, default in (("response", Timeouts().response), ("stall", Timeouts().stall))
    }
    longest = max(waits, key=lambda key: waits[key])
    yield from _silent_for_longer(subject, waits[longest], {"seconds": waits[longest], "timeout": longest})


def _silent_for_longer(subject: Subject, seconds: int, told: dict[str, Any]) -> Iterator[Hit]:
    """A hit where the load balancer before the routers cuts what is silent for less than `seconds`."""
    if subject.around.serving != "selfhosted" or not subject.manifest.has(TLS):
        return
    idle, got = _idle(subject)
    if seconds <= idle:
        return
    if seconds <= MAX_IDLE_SECONDS:
        yield suggested(IDLE_TIMEOUT, seconds, got=got, **told)
    else:
        yield hit(IDLE_TIMEOUT, got=got, **told)


def _seconds(deployment: View, key: str, default: str) -> int:
    """A time of the deployment file; 0 where it can't be read, which another rule says."""
    with suppress(ConfigError):
        return parse_seconds(key, deployment.text(key) or default)
    return 0
