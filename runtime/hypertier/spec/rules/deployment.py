"""The deployment file itself: names, groups, sizes and settings."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.catalog.instance_types import INSTANCE_TYPES, find_instance_type
from hypertier.catalog.zones import ZONE_ID
from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.access import Access, check_deployed
from hypertier.spec.cache_tiers import L1, L2, L2Tenant, check_tenants_of
from hypertier.spec.cluster import (
    Cluster,
    check_autoscaled,
    check_autoscaling,
    check_region,
    check_subnet,
    check_zone,
)
from hypertier.spec.deployment import (
    NAME,
    SERVING_MODES,
    Controllers,
    Disaggregation,
    Images,
    Operator,
    Scaling,
    default_groups,
)
from hypertier.spec.groups_together import are_closed, settled
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.routing import Routing, check_routing
from hypertier.spec.rules import sources
from hypertier.spec.rules.below import below
from hypertier.spec.rules.rule import DEPLOYMENT, Hit, fixed, hit, rule, suggested
from hypertier.spec.rules.subject import GROUPS, Subject, read_groups
from hypertier.spec.scaling import check_scaling
from hypertier.spec.schedules import check_served
from hypertier.spec.suggest import nearest
from hypertier.spec.tiered_memory import memory_percent_of
from hypertier.spec.tree import Path, View, path
from hypertier.spec.verify import Verify, check_verify

TENANTS = path("cache.l2.tenants")
DEFAULT_REGION = "us-west-2"  # of `Deployment.region`


@rule(
    "endpoint-file",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} is {got}, which {problem}",
    ko="{path} 값 {got} 파일을 쓸 수 없습니다: {problem}",
)
def endpoint_file(subject: Subject) -> Iterator[Hit]:
    for index, problem in subject.missing_endpoints.items():
        yield hit(path("endpoints", index), problem=problem)
    if subject.manifest.get("endpoints") == []:
        yield hit(path("endpoints"), problem="names no manifest")


@rule(
    "deployment-alone",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="the file holds {count} documents; expected the deployment alone, with its endpoints in files of "
    "their own",
    ko="파일에 문서가 {count}개 있습니다. 배포 파일에는 배포만 두고 엔드포인트는 별도 파일에 두십시오",
)
def deployment_alone(subject: Subject) -> Iterator[Hit]:
    if subject.num_documents > 1:
        yield hit(path("kind"), count=subject.num_documents)


@rule(
    "setting",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} is {got}; expected {expected}",
    ko="{path} 값이 {got}입니다. 다음이어야 합니다: {expected}",
)
def setting(subject: Subject) -> Iterator[Hit]:
    broken = [fault.where for fault in subject.faults]
    serving = subject.manifest.text("serving")
    serving = "selfhosted" if serving is None else serving
    parts: list[tuple[tuple[str | int, ...], type]] = [
        (path("cache.l1"), L1),
        (path("cache.l2"), L2),
        (path("scaling"), Scaling),
        (path("cluster"), Cluster),
        (path("operator"), Operator),
        (path("images"), Images),
        (path("controllers"), Controllers),
        (path("access"), Access),
        (path("disaggregation"), Disaggregation),
        (path("routing"), Routing),
        (path("verify"), Verify),
    ]
    parts += [((*GROUPS, index), InstanceGroup) for index, _ in subject.manifest.mappings(GROUPS)]
    parts += [((*TENANTS, index), L2Tenant) for index, _ in subject.manifest.mappings(TENANTS)]
    for where, cls in parts:
        data = subject.manifest.mapping(where)
        is_on = bool(data) or (cls is Verify and isinstance(subject.manifest.get(where), dict))
        if not is_on or any(place[: len(where)] == where for place in broken):
            continue
        try:
            read: object = codec.decode(cls, data, "", [])
            if isinstance(read, InstanceGroup):
                read.check_fallbacks()
            if isinstance(read, Access) and serving in SERVING_MODES:
                check_deployed(read, serving)
            if isinstance(read, Routing):
                check_routing(read, serving)
            if isinstance(read, Scaling):
                check_served(read.schedules, serving)
                check_scaling(read, serving, _splits(subject))
            if isinstance(read, Verify):
                check_verify(read, serving, _access(subject))
            if isinstance(read, L2):
                check_tenants_of(
                    read, serving, shared_cache=subject.manifest.flag("access.sharedCache") is True
                )
        except ConfigError as error:
            if cls is L2 and error.setting.startswith("cache.l2.tenants."):
                continue  # found at the tenant itself
            yield hit((*where, *below(cls, error.setting, where, data)), expected=error.expected)
    for index, missing in subject.missing_scripts.items():
        place = ("lifecycle", missing.setting.rpartition(".")[2])
        yield hit((*GROUPS, index, *place), expected=missing.expected)
    region = subject.manifest.text("region")
    region = DEFAULT_REGION if region is None else region
    try:
        check_region(region)
    except ConfigError as error:
        yield hit(path("region"), expected=error.expected)
    for index, entry in subject.manifest.mappings(GROUPS):
        zone = View(entry).text("availabilityZoneId")
        try:
            if zone and ZONE_ID.fullmatch(zone):  # else the group says so
                check_zone(zone, region, "")
                check_subnet(zone, _cluster(subject), "")
        except ConfigError as error:
            yield hit((*GROUPS, index, "availabilityZoneId"), expected=error.expected)
    yield from _autoscaling(subject)
    yield from _tiered_memory(subject)
    if serving not in SERVING_MODES:
        meant, expected = nearest(serving, SERVING_MODES), " or ".join(SERVING_MODES)
        where = path("serving")
        yield fixed(where, meant, expected=expected) if meant else hit(where, expected=expected)


def _autoscaling(subject: Subject) -> Iterator[Hit]:
    """What Karpenter needs of groups; those that can't be read are found as such."""
    cluster, groups = _cluster(subject), list(read_groups(subject.manifest))
    try:
        if len(groups) == len(subject.manifest.items(GROUPS)) > 0 or not subject.manifest.has(GROUPS):
            check_autoscaling(cluster, [group for _, group in groups] or default_groups())
    except ConfigError as error:
        yield hit(path("cluster.autoscaling"), expected=error.expected)
    for index, group in groups:
        try:
            check_autoscaled(cluster, group, "")
        except ConfigError as error:
            yield hit((*GROUPS, index, "availabilityZoneId"), expected=error.expected)


def _tiered_memory(subject: Subject) -> Iterator[Hit]:
    """More for tiered storage than a node has; what can't be read is found as such."""
    groups, data = list(read_groups(subject.manifest)), subject.manifest.mapping(path("cache.l2"))
    try:
        l2 = codec.decode(L2, data, "", [])
    except ConfigError:
        return
    try:
        if l2 and len(groups) == len(subject.manifest.items(GROUPS)):
            memory_percent_of(l2, [group for _, group in groups] or default_groups())
    except ConfigError as error:
        yield hit(path(error.setting), expected=error.expected)


def _splits(subject: Subject) -> list[bool]:
    """Whether each endpoint has a `pdSpec`; one that can't be read may have one or not."""
    known = [bool(endpoint.manifest.mapping("spec.pdSpec")) for endpoint in subject.endpoints]
    return known if known and not subject.missing_endpoints else [True, False]


def _cluster(subject: Subject) -> Cluster:
    """The section as far as it can be read; the default one else, since what is wrong is found as such."""
    data = subject.manifest.mapping(path("cluster"))
    try:
        return codec.decode(Cluster, data, "", []) or Cluster()
    except ConfigError:
        return Cluster()


def _access(subject: Subject) -> Access | None:
    """The section as far as it can be read; what is wrong with it is found as such."""
    try:
        return codec.decode(Access, subject.manifest.mapping(path("access")), "", [])
    except ConfigError:
        return None


@rule(
    "groups-missing",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} is {got}; expected at least one group of nodes, or no key for the default ones",
    ko="{path} 값이 {got}입니다. 노드 그룹이 하나 이상 있어야 합니다. 기본 그룹을 쓰려면 키를 빼십시오",
)
def groups_missing(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.get(GROUPS) == []:
        yield hit(GROUPS)


@rule(
    "group-name-twice",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} is {got}, the name of another group already",
    ko="{path} 값 {got}은(는) 다른 그룹에서 이미 쓰는 이름입니다",
)
def group_name_twice(subject: Subject) -> Iterator[Hit]:
    yield from map(hit, subject.manifest.repeated(GROUPS, "name"))


@rule(
    "no-open-group",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.TAINTS,
    en="every group of {path} that has nodes has taints that keep pods off: CoreDNS and other add-ons "
    "tolerate none, and need a group to run on",
    ko="노드가 있는 {path}의 모든 그룹에 파드를 막는 테인트가 있습니다. CoreDNS 등은 테인트를 "
    "허용하지 않으므로 실행할 그룹이 하나는 있어야 합니다",
)
def no_open_group(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.has("cluster.existing"):
        return  # its owner's nodes may be elsewhere
    groups = [group for _, group in read_groups(subject.manifest)]
    tiered = subject.manifest.text("cache.l2.backend") == "tieredstorage"
    if groups and are_closed(settled(groups, tiered_storage=tiered)):
        yield hit(GROUPS)


@rule(
    "fallback-not-named",
    "warning",
    source=sources.HYPERTIER,
    en="{path} does not name {missing}, which group {group} falls back to: AWS's operator would place no pod "
    "on such a node",
    ko="{path}에 {missing}이(가) 없습니다. {group} 그룹이 대신 쓰는 유형인데 AWS 오퍼레이터는 그 노드에 "
    "파드를 배치하지 않습니다",
)
def fallback_not_named(subject: Subject) -> Iterator[Hit]:
    deployment = subject.around.deployment
    if deployment is None or subject.around.serving != "operator":
        return
    for _, group in read_groups(deployment):
        missing = [name for name in group.all_instance_types if name not in subject.instance_types]
        if group.instance_type in subject.instance_types and missing:
            name = "spec.instanceType" if subject.manifest.has("spec.instanceType") else "spec.instanceTypes"
            yield hit(path(name), missing=", ".join(missing), group=group.name)


@rule(
    "group-type-unknown",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} is {got}, whose memory and GPUs are not known here{hint}",
    ko="{path} 값 {got}의 메모리와 GPU 정보가 없습니다{hint}",
)
def group_type_unknown(subject: Subject) -> Iterator[Hit]:
    for where, name in _types_of_groups(subject.manifest):
        if isinstance(name, str) and name.startswith("ml.") and find_instance_type(name) is None:
            meant = nearest(name, INSTANCE_TYPES)
            yield suggested(where, meant, hint=f"; {meant}?") if meant else hit(where, hint="")


def _types_of_groups(deployment: View) -> Iterator[tuple[Path, object]]:
    for index, entry in deployment.mappings(GROUPS):
        yield (*GROUPS, index, "instanceType"), entry.get("instanceType")
        for number, name in enumerate(View(entry).items("instanceTypes")):
            yield (*GROUPS, index, "instanceTypes", number), name


@rule(
    "release-name",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.HELM,
    en="{path} is {got}; expected a lower-case letter, then letters, digits and single hyphens, at most "
    "51: it names stacks, Helm releases and Kubernetes objects",
    ko="{path} 값이 {got}입니다. 스택, Helm 릴리스, Kubernetes 객체의 이름이므로 소문자로 시작하고 "
    "소문자, 숫자, 하나씩의 하이픈으로 51자 이하여야 합니다",
)
def release_name(subject: Subject) -> Iterator[Hit]:
    name = subject.manifest.text("name")
    if name is None:
        return
    if not NAME.fullmatch(name):
        yield hit(path("name"))


@rule(
    "endpoint-name-twice",
    "error",
    kinds=(DEPLOYMENT,),
    source=sources.NAMES,
    en="{path} is {got}, whose manifest is named {name} like another's: the later would replace the earlier",
    ko="{path} 값 {got}의 매니페스트 이름 {name}이(가) 다른 매니페스트와 같습니다. 나중 것이 앞의 것을 "
    "덮어씁니다",
)
def endpoint_name_twice(subject: Subject) -> Iterator[Hit]:
    seen = set()
    for index, endpoint in enumerate(subject.endpoints):
        name = endpoint.manifest.text("metadata.name")
        key = (endpoint.manifest.text("metadata.namespace") or "default", name)
        if name and key in seen:
            yield hit(path("endpoints", index), name=name)
        seen.add(key)


@rule(
    "quotas-exceed-store",
    "warning",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} add up to {total} GiB for each endpoint, and cache.l2.size is {size} GiB: the store would be "
    "full before a quota is, and evict anybody's blocks",
    ko="{path} 값의 합은 엔드포인트마다 {total} GiB인데 cache.l2.size는 {size} GiB입니다. 할당량보다 "
    "저장소가 먼저 가득 차서 다른 테넌트의 블록까지 밀려납니다",
)
def quotas_exceed_store(subject: Subject) -> Iterator[Hit]:
    try:
        l2 = codec.decode(L2, subject.manifest.mapping(path("cache.l2")) or {}, "", [])
    except ConfigError:
        return  # found by another rule
    total = sum(tenant.quota_bytes or 0 for tenant in l2.tenants) if l2 else 0
    if l2 and total > l2.size_bytes:
        yield hit(TENANTS, total=total // 2**30, size=l2.size_bytes // 2**30)


# keys that only our own engines and routers read, beside those that are refused
_OURS_ALONE = (
    "cache.l1.size",
    "cache.l2.bandwidth",
    "cache.l2.size",
    "cache.l2.nodeFamily",
    "cache.l2.ttl",
    "images.engine",
    "images.router",
    "images.prePull",
    "disaggregation.backend",
)


@rule(
    "ignored-by-operator",
    "warning",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} is {got}, which nothing reads with serving: operator: its engines, L2 and router follow from "
    "the endpoint's manifest alone",
    ko="{path} 값이 {got}인데 serving: operator에서는 읽는 곳이 없습니다. 엔진, L2, 라우터는 엔드포인트 "
    "매니페스트만 따릅니다",
)
def ignored_by_operator(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.text("serving") != "operator":
        return
    for dotted_path in _OURS_ALONE:
        where = path(dotted_path)
        if subject.manifest.has(where):
            yield hit(where)
