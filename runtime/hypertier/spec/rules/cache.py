"""The cache tiers: what must be there for L1 and L2 to hold anything that is found again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from hypertier.spec.endpoint import L2_BACKENDS
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import MODELS, UNSET, Edit, Hit, fixed, hit, rule, suggested
from hypertier.spec.rules.subject import VLLM, Subject, parse_version, small_whole
from hypertier.spec.tree import path

CACHE = path("spec.kvCacheSpec")
L2_ENABLED = path("spec.kvCacheSpec.enableL2Cache")
L2_SPEC = path("spec.kvCacheSpec.l2CacheSpec")
BACKEND = path("spec.kvCacheSpec.l2CacheSpec.l2CacheBackend")
URL = path("spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl")
CHUNK_TOKENS = 256  # LMCache's chunk_size


@rule(
    "l2-backend-missing",
    "error",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is not set but enableL2Cache is true; expected redis or tieredstorage: L2 would stay off",
    ko="enableL2Cache가 true인데 {path} 값이 없습니다. redis 또는 tieredstorage여야 하며, 없으면 L2가 "
    "동작하지 않습니다",
)
def l2_backend_missing(subject: Subject) -> Iterator[Hit]:
    if subject.has_l2 and not subject.manifest.text(BACKEND):
        if subject.manifest.text(URL):
            yield fixed(BACKEND, "redis")  # a URL goes with redis alone
        else:
            yield hit(BACKEND)


@rule(
    "l2-backend-exact",
    "error",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} is {got}; expected redis or tieredstorage, spelled so: the CRD's pattern is not anchored "
    "and lets this pass, the operator then knows no such backend",
    ko="{path} 값이 {got}입니다. 정확히 redis 또는 tieredstorage여야 합니다. CRD의 패턴이 느슨해서 "
    "통과하지만 오퍼레이터는 이런 백엔드를 모릅니다",
)
def l2_backend_exact(subject: Subject) -> Iterator[Hit]:
    backend = subject.manifest.text(BACKEND)
    if not backend or backend in L2_BACKENDS or _is_placeholder(backend):
        return
    plain = re.sub(r"[^a-z]", "", backend.lower())
    named = [name for name in L2_BACKENDS if name in plain]
    meant = {"valkey": "redis", "elasticache": "redis", "tiered": "tieredstorage"}.get(plain)
    if len(named) == 1 and plain == named[0]:
        yield fixed(BACKEND, named[0])
    elif meant or len(named) == 1:
        yield suggested(BACKEND, meant or named[0])
    else:
        yield hit(BACKEND)


def _is_placeholder(text: str) -> bool:
    return bool(re.search(r"[<>${}]", text))


@rule(
    "l2-off-with-backend",
    "error",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} is not set, which means false: the l2CacheSpec below does nothing",
    ko="{path} 값이 없어 false로 처리됩니다. 아래의 l2CacheSpec은 아무 효과가 없습니다",
)
def l2_off_with_backend(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.mapping(L2_SPEC) and not subject.manifest.has(L2_ENABLED):
        yield fixed(L2_ENABLED, True)


@rule(
    "l2-switched-off",
    "warning",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} is false: the l2CacheSpec below does nothing",
    ko="{path} 값이 false라서 아래의 l2CacheSpec은 아무 효과가 없습니다",
)
def l2_switched_off(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.mapping(L2_SPEC) and subject.manifest.flag(L2_ENABLED) is False:
        yield suggested(L2_ENABLED, True)


@rule(
    "l2-redis-url",
    "error",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is {got}; expected the store's address, such as rediss://HOST:6379: redis is not reached "
    "without one",
    ko="{path} 값이 {got}입니다. rediss://HOST:6379 같은 저장소 주소가 필요합니다",
)
def l2_redis_url(subject: Subject) -> Iterator[Hit]:
    if subject.l2_backend != "redis":
        return
    url = subject.manifest.text(URL)
    if not url:
        # With serving: selfhosted the CDK makes the store and fills its address in; the operator has none.
        if subject.around.serving != "selfhosted":
            yield hit(URL)
        return
    if _is_placeholder(url):
        return
    host = _host(url)
    if "://" not in url and re.fullmatch(r"[A-Za-z0-9.-]+:\d{1,5}", url):
        scheme = "rediss" if url.endswith((".amazonaws.com:6379", ".amazonaws.com:6380")) else "redis"
        yield suggested(URL, f"{scheme}://{url}")
    elif not url.startswith(("redis://", "rediss://")) or host is None:
        yield hit(URL)


@rule(
    "l2-url-own-pod",
    "error",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is {got}: every pod would ask itself; expected a host that all replicas reach",
    ko="{path} 값이 {got}입니다. 각 파드가 자기 자신에게 접속하게 됩니다. 모든 복제본이 접근할 수 있는 "
    "호스트여야 합니다",
)
def l2_url_own_pod(subject: Subject) -> Iterator[Hit]:
    url = subject.manifest.text(URL)
    if subject.l2_backend == "redis" and url and _host(url) in ("localhost", "127.0.0.1", "::1", "0.0.0.0"):
        yield hit(URL)


@rule(
    "l2-url-outside-vpc",
    "warning",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} has the public address {host}: outside the VPC, AWS does not vouch for encryption in transit",
    ko="{path} 값이 공인 주소 {host}입니다. VPC 밖에서는 전송 중 암호화가 보장되지 않습니다",
)
def l2_url_outside_vpc(subject: Subject) -> Iterator[Hit]:
    url = subject.manifest.text(URL)
    host = _host(url) if url and subject.l2_backend == "redis" else None
    if host is None or not re.fullmatch(r"[0-9a-fA-F.:]+", host):
        return
    import ipaddress  # rarely needed, slow to import

    try:
        public = ipaddress.ip_address(host).is_global
    except ValueError:
        return
    if public:
        yield hit(URL, host=host)


@rule(
    "l2-url-unencrypted",
    "warning",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is {got}: prompts' KV cache would cross the network in the clear; rediss:// encrypts it",
    ko="{path} 값이 {got}입니다. 프롬프트의 KV 캐시가 암호화 없이 전송됩니다. rediss://를 쓰면 암호화됩니다",
)
def l2_url_unencrypted(subject: Subject) -> Iterator[Hit]:
    url = subject.manifest.text(URL)
    if (
        subject.l2_backend == "redis"
        and url
        and url.startswith("redis://")
        and _host(url)
        and not _has_password(url)
    ):
        yield suggested(URL, "rediss://" + url.removeprefix("redis://"))


@rule(
    "l2-url-password",
    "error",
    kinds=MODELS,
    source=sources.SECRETS,
    en="{path} carries a password in the clear, for everyone who may read the manifest; keep it in a Secret",
    ko="{path} 주소에 비밀번호가 평문으로 들어 있습니다. Secret에 보관하십시오",
)
def l2_url_password(subject: Subject) -> Iterator[Hit]:
    url = subject.manifest.text(URL)
    if url and _has_password(url):
        yield hit(URL)


@rule(
    "l2-tiered-url",
    "warning",
    kinds=MODELS,
    source=sources.CACHING,
    en="{path} is not used: tieredstorage finds the daemon of its own node",
    ko="{path} 값은 쓰이지 않습니다. tieredstorage는 자기 노드의 데몬을 찾습니다",
)
def l2_tiered_url(subject: Subject) -> Iterator[Hit]:
    if subject.l2_backend == "tieredstorage" and subject.manifest.text(URL):
        yield Hit(URL, None, (Edit("remove", URL),))


@rule(
    "both-tiers-off",
    "warning",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} turns both tiers off: it does nothing",
    ko="{path} 설정이 두 계층을 모두 끕니다. 아무 효과가 없습니다",
)
def both_tiers_off(subject: Subject) -> Iterator[Hit]:
    if (
        subject.manifest.has(CACHE)
        and not subject.has_l1
        and not subject.has_l2
        and not subject.manifest.mapping(L2_SPEC)
    ):
        yield hit(CACHE)


@rule(
    "switch-off-ignored",
    "warning",
    kinds=MODELS,
    source=sources.RELEASES,
    en="{path} is false, which operators before 3.3 ignore; the deployment has operator {has}",
    ko="{path} 값이 false이지만 3.3 이전의 오퍼레이터는 이를 무시합니다. 배포의 오퍼레이터는 {has}입니다",
)
def switch_off_ignored(subject: Subject) -> Iterator[Hit]:
    has = subject.around.operator_version
    if has is None or has >= (3, 3) or not subject.by_operator:
        return
    for name in ("enableL1Cache", "enableL2Cache"):
        if subject.manifest.flag((*CACHE, name)) is False:
            yield hit((*CACHE, name), has=".".join(str(part) for part in has))


@rule(
    "cache-engine",
    "error",
    source=sources.CACHING,
    en="{path} is {got}, a container of {engine}; KV caching and routing work with vLLM's containers alone: "
    "the operator sets them up by vLLM's arguments",
    ko="{path} 값 {got}은(는) {engine} 컨테이너입니다. 오퍼레이터가 vLLM 인수로 설정하므로 KV 캐시와 "
    "라우팅은 vLLM 컨테이너에서만 동작합니다",
)
def cache_engine(subject: Subject) -> Iterator[Hit]:
    """LMI has vLLM and LMCache in it, but is set up by its own OPTION_ variables, not by vLLM's arguments.

    https://github.com/deepjavalibrary/djl-serving/tree/master/serving/docs/lmi/user_guides
    (lmcache_user_guide.md), 2026-12-02.
    """
    if not subject.by_operator:
        return  # vLLM is started by a command of ours; rule selfhosted-engine tells where there is none
    wanted = subject.has_l1 or subject.has_l2 or subject.strategy == "kvaware"
    if wanted and subject.engine not in (VLLM, None):
        yield hit(path("spec.worker.image"), engine=subject.engine)


@rule(
    "hash-seed",
    "error",
    kinds=MODELS,
    source=sources.VLLM_CACHING,
    en="PYTHONHASHSEED is {seed}; expected one fixed number, such as 0: without it every pod hashes the "
    "same prompt differently and {feature} never hits",
    ko="PYTHONHASHSEED 값이 {seed}입니다. 0 같은 고정된 숫자여야 합니다. 그렇지 않으면 파드마다 같은 "
    "프롬프트의 해시가 달라져 {feature}이(가) 적중하지 않습니다",
)
def hash_seed(subject: Subject) -> Iterator[Hit]:
    feature = _seed_needed_by(subject)
    if feature is None or not subject.by_operator:
        return  # our engines are given one
    seed = subject.environment_value("PYTHONHASHSEED")
    entry = subject.environment.get("PYTHONHASHSEED")
    if entry is None:
        value = subject.with_variable("PYTHONHASHSEED", "0")
        yield fixed(subject.environment_path, value, feature=feature, seed=UNSET)
    elif seed is not None and small_whole(seed) is None and not _is_placeholder(seed):
        yield fixed((*subject.environment_path, entry[0], "value"), "0", feature=feature, seed=seed)


def _seed_needed_by(subject: Subject) -> str | None:
    if subject.has_l2:
        return "L2"
    if subject.strategy == "kvaware":
        return "kvaware"
    return "pdSpec" if subject.manifest.has("spec.pdSpec") else None


@rule(
    "prompt-below-chunk",
    "error",
    source=sources.LMCACHE,
    en="--max-model-len is {length} tokens, less than one chunk of {chunk}: nothing is ever cached",
    ko="--max-model-len 값이 {length} 토큰으로 청크 하나({chunk})보다 작습니다. 아무것도 캐시되지 않습니다",
)
def prompt_below_chunk(subject: Subject) -> Iterator[Hit]:
    found = subject.argument_place("--max-model-len")
    if found is None or not (subject.has_l1 or subject.has_l2) or not subject.by_operator:
        return
    chunk = _chunk_tokens(subject)
    length = small_whole(found[1])
    if length is not None and length < chunk:
        yield hit(found[0], length=length, chunk=chunk)


def _chunk_tokens(subject: Subject) -> int:
    return small_whole(subject.environment_value("LMCACHE_CHUNK_SIZE")) or CHUNK_TOKENS


@rule(
    "redis-ignored",
    "warning",
    kinds=MODELS,
    source=sources.ISSUE_REDIS,
    en="{path} is redis, which operator 3.2 ignores: it takes tiered storage instead. The issue is open "
    "and names no release with a repair",
    ko="{path} 값이 redis이지만 오퍼레이터 3.2는 이를 무시하고 계층형 스토리지를 씁니다. "
    "이슈가 열려 있으며 고쳐진 릴리스는 알려지지 않았습니다",
)
def redis_ignored(subject: Subject) -> Iterator[Hit]:
    if subject.l2_backend == "redis" and subject.around.serving == "operator":
        yield hit(BACKEND)


@rule(
    "lmcache-variables-stripped",
    "warning",
    kinds=MODELS,
    source=sources.ISSUE_REDIS,
    en="{name} is overwritten: with L2 on, operator 3.2 puts its own LMCACHE_ variables in place of yours",
    ko="{name} 값은 덮어써집니다. L2가 켜져 있으면 오퍼레이터 3.2가 사용자의 LMCACHE_ 변수를 자기 값으로 "
    "바꿉니다",
)
def lmcache_variables_stripped(subject: Subject) -> Iterator[Hit]:
    if not subject.has_l2 or subject.around.serving != "operator":
        return
    for name, (index, _) in subject.environment.items():
        if name.startswith("LMCACHE_"):
            yield hit((*subject.environment_path, index), name=name)


@rule(
    "cache-config-file",
    "warning",
    kinds=MODELS,
    source=sources.CRD,
    en="{path} overrides whatever else kvCacheSpec says; set are also: {others}",
    ko="{path} 설정은 kvCacheSpec의 다른 값을 모두 무시하게 합니다. 함께 지정된 값: {others}",
)
def cache_config_file(subject: Subject) -> Iterator[Hit]:
    where = (*CACHE, "cacheConfigFile")
    others = [name for name in subject.manifest.mapping(CACHE) if name not in ("cacheConfigFile",)]
    if subject.manifest.text(where) and others:
        yield hit(where, others=", ".join(others))


@rule(
    "multi-process-lmcache",
    "error",
    source=sources.RELEASES,
    en="{path} is MultiProcess, which needs LMCache 0.5.0; the image has LMCache {has}",
    ko="{path} 값 MultiProcess에는 LMCache 0.5.0이 필요합니다. 이미지의 LMCache는 {has}입니다",
)
def multi_process_lmcache(subject: Subject) -> Iterator[Hit]:
    where = path("spec.lmcache.mode")
    has = lmcache_version(subject)
    if subject.manifest.text(where) == "MultiProcess" and has is not None and has < (0, 5):
        yield hit(where, has=".".join(str(part) for part in has))


def lmcache_version(subject: Subject) -> tuple[int, ...] | None:
    """LMCache's version where the image's tag says it: `lmcache/vllm-openai:v0.4.3`."""
    if re.search(r"(^|/)lmcache/vllm-openai", subject.image) and subject.image_tag:
        return parse_version(subject.image_tag)
    return None


def vllm_version(subject: Subject) -> tuple[int, ...] | None:
    """vLLM's version where the image's tag says it: `vllm/vllm-openai:v0.19.1`."""
    if re.search(r"(^|/)vllm/vllm-openai", subject.image) and subject.image_tag:
        return parse_version(subject.image_tag)
    return None


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _has_password(url: str) -> bool:
    try:
        password = urlsplit(url).password
    except ValueError:
        return False
    return bool(password) and not _is_placeholder(password or "")
