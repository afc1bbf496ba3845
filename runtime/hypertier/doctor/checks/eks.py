"""EKS: a version that it still makes, add-ons that it has for that, or the cluster that the file tells of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hypertier.doctor.check import Check, Question, Said, Talk, Verdict, fails, ok, question
from hypertier.doctor.checks import calls
from hypertier.planning.made import addon_versions, makes_eks, makes_hyperpod
from hypertier.spec.cluster import ClusterAttributes
from hypertier.spec.deployment import Deployment

Cluster = Mapping[str, Any]


def checks(deployment: Deployment) -> Iterator[Check]:
    """A new cluster's version, or what an existing one is; then the add-ons."""
    told = deployment.cluster.attributes
    if makes_eks(deployment):
        yield _version(deployment.cluster.kubernetes_version)
    elif told is not None and told.eks_cluster_name is not None:
        yield from _existing(deployment, told, told.eks_cluster_name)
    for name, version in addon_versions(deployment).items():
        yield _addon(name, version, deployment.cluster.kubernetes_version)


def _version(version: str) -> Check:
    asked = question("eks", "DescribeClusterVersions", clusterVersions=[version])

    def talk() -> Talk:
        return supported(version, (yield asked))

    return Check(f"Kubernetes {version}", talk, (asked,))


def _addon(name: str, version: str | None, kubernetes_version: str) -> Check:
    asked = question("eks", "DescribeAddonVersions", addonName=name, kubernetesVersion=kubernetes_version)

    def talk() -> Talk:
        return offered(version, kubernetes_version, (yield asked))

    return Check(f"add-on {name}", talk, (asked,))


def _existing(deployment: Deployment, told: ClusterAttributes, name: str) -> Iterator[Check]:
    asked = calls.eks_cluster(deployment, name)

    def about(what: str, judge: Callable[[Cluster], Verdict]) -> Check:
        return _of_cluster(f"EKS cluster {name}: {what}", asked, judge)

    yield about("state", is_active)
    yield about("version", lambda cluster: has_version(cluster, deployment.cluster.kubernetes_version))
    yield about("network", lambda cluster: is_in_network(cluster, told))
    yield about("access entries", lambda cluster: takes_access_entries(cluster, name))
    if told.oidc_provider_arn is not None:
        arn = told.oidc_provider_arn
        yield about("OIDC provider", lambda cluster: is_issuer(cluster, arn))
    if makes_hyperpod(deployment):
        yield _free(deployment, name)


def _of_cluster(name: str, asked: Question, judge: Callable[[Cluster], Verdict]) -> Check:
    def talk() -> Talk:
        said = yield asked
        if said is None:
            return fails("the cluster does not exist in this account and Region", "name one that does")
        return judge(said["cluster"])

    return Check(name, talk, (asked,))


def _free(deployment: Deployment, name: str) -> Check:
    """EKS serves one HyperPod cluster, as SageMaker's CreateCluster refuses a second."""
    listed = calls.hyperpod_clusters()

    def talk() -> Talk:
        names = [entry["ClusterName"] for entry in ((yield listed) or {}).get("ClusterSummaries", ())]
        for other in names:
            if other != deployment.name:
                said = yield calls.hyperpod_cluster(deployment, other)
                if orchestrator(said) == name:
                    return fails(
                        f"the HyperPod cluster {other} runs on it, and EKS serves one alone",
                        f"cluster.existing: {other}, or another EKS cluster",
                    )
        return ok("no HyperPod cluster runs on it")

    asks = (listed, calls.hyperpod_cluster(deployment, "*"))
    return Check(f"EKS cluster {name}: free for HyperPod", talk, asks)


def supported(version: str, said: Said | None) -> Verdict:
    """Whether EKS makes clusters of this version."""
    versions = (said or {}).get("clusterVersions", ())
    fix = "cluster.kubernetesVersion: one that EKS supports (aws eks describe-cluster-versions)"
    if not versions:
        return fails("EKS has no such version", fix)
    (found,) = versions
    if found["versionStatus"] == "UNSUPPORTED":
        return fails("EKS no longer supports it", fix)
    if found["versionStatus"] == "EXTENDED_SUPPORT":
        end = found.get("endOfExtendedSupportDate")
        return ok(f"in extended support, which costs more{f', until {end:%Y-%m-%d}' if end else ''}")
    end = found.get("endOfStandardSupportDate")
    return ok(f"in standard support{f' until {end:%Y-%m-%d}' if end else ''}")


def offered(version: str | None, kubernetes_version: str, said: Said | None) -> Verdict:
    """Whether EKS has the add-on for this version of Kubernetes; in its pinned `version`, if any."""
    entries: Sequence[Mapping[str, Any]] = [
        entry for addon in (said or {}).get("addons", ()) for entry in addon.get("addonVersions", ())
    ]
    versions = [str(entry["addonVersion"]) for entry in entries]
    if not versions:
        return fails(
            f"EKS does not have it for Kubernetes {kubernetes_version} in this Region",
            "cluster.kubernetesVersion: another, or another region",
        )
    if version is not None and version not in versions:
        return fails(
            f"EKS has {', '.join(versions)} of it for Kubernetes {kubernetes_version}, and not {version}",
            "operator.version: the release that one of them carries",
        )
    return ok(version or f"{len(versions)} versions")


def is_active(cluster: Cluster) -> Verdict:
    """Whether manifests can be applied to it."""
    if cluster["status"] in ("ACTIVE", "UPDATING"):
        return ok(cluster["status"])
    return fails(cluster["status"], "wait until it is ACTIVE, or see its health: aws eks describe-cluster")


def has_version(cluster: Cluster, version: str) -> Verdict:
    """Whether it has the version by which manifests and kubectl are chosen."""
    if cluster["version"] == version:
        return ok(version)
    return fails(
        f"{cluster['version']}, the file says {version}", f'cluster.kubernetesVersion: "{cluster["version"]}"'
    )


def is_in_network(cluster: Cluster, told: ClusterAttributes) -> Verdict:
    """Whether it lies in the VPC, behind the group, that the file tells of."""
    network = cluster["resourcesVpcConfig"]
    for key, has, wanted in (
        ("vpcId", network.get("vpcId"), told.vpc_id),
        ("eksSecurityGroupId", network.get("clusterSecurityGroupId"), told.eks_security_group_id),
    ):
        if has != wanted:
            return fails(f"{key} {has}, the file says {wanted}", f"cluster.attributes.{key}: {has}")
    return ok(told.vpc_id)


def takes_access_entries(cluster: Cluster, name: str) -> Verdict:
    """Whether it knows access entries, by which the functions that apply manifests get in."""
    mode = cluster.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if "API" in mode:
        return ok(mode)
    return fails(
        f"authentication mode {mode}, which knows no access entries",
        f"aws eks update-cluster-config --name {name} --access-config authenticationMode=API_AND_CONFIG_MAP",
    )


def is_issuer(cluster: Cluster, provider_arn: str) -> Verdict:
    """Whether the provider in IAM is that of the cluster's issuer."""
    issuer = cluster.get("identity", {}).get("oidc", {}).get("issuer", "").removeprefix("https://")
    if issuer and provider_arn.endswith(f":oidc-provider/{issuer}"):
        return ok(issuer)
    return fails(
        f"the cluster's issuer is {issuer or 'none'}, the file's provider is of another",
        f"cluster.attributes.oidcProviderArn: the provider of {issuer}"
        if issuer
        else "none that IAM could trust",
    )


def orchestrator(said: Said | None) -> str | None:
    """The EKS cluster that a HyperPod cluster runs on, by name; None where it runs on none."""
    arn = (((said or {}).get("Orchestrator") or {}).get("Eks") or {}).get("ClusterArn")
    return str(arn).rpartition("/")[2] if arn else None
