"""The cluster of a deployment file: a new one, one that exists, or a new one on what exists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from hypertier.catalog.zones import REGION, ZONE_ID, ZONE_NAME, zones_of
from hypertier.errors import ConfigError
from hypertier.spec.instance_group import GROUP_NAME, GROUP_NAME_FORM, InstanceGroup

# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html (read 2026-12-01)
KUBERNETES_VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
KUBERNETES_VERSIONS_FORM = f"one that HyperPod supports: {', '.join(KUBERNETES_VERSIONS)}"

CLUSTER_ARN = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:cluster/[a-z0-9]{12}")
OIDC_PROVIDER_ARN = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:oidc-provider/[!-~]{1,512}")
OIDC_PROVIDER_FORM = "the ARN of a provider in IAM: arn:aws:iam::ACCOUNT:oidc-provider/HOST/id/ID"
EKS_NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")
AWS_ID = "-[0-9a-z]{1,40}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAttributes:
    """What AWS says of what exists already: a VPC, an EKS cluster in it, a HyperPod cluster on that.

    What is not named is made: on `vpc_id` alone both clusters, on `eks_cluster_name` the HyperPod cluster.
    `aws ec2 describe-subnets` tells zones and ranges, `aws eks describe-cluster` the EKS cluster's own group
    and the issuer behind `oidc_provider_arn`, which is needed where weights lie in S3 or AWS's operator is
    brought, `aws sagemaker describe-cluster` `arn` and the nodes' group. EKS `addons` and `namespaces` that
    it has are left as they are.
    """

    vpc_id: str
    availability_zones: tuple[str, ...]
    private_subnet_ids: tuple[str, ...]
    availability_zone_ids: tuple[str, ...] = ()
    private_subnet_cidrs: tuple[str, ...] = ()
    vpc_cidrs: tuple[str, ...] = ()
    eks_cluster_name: str | None = None
    eks_security_group_id: str | None = None
    oidc_provider_arn: str | None = None
    addons: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    arn: str | None = None
    node_security_group_id: str | None = None

    def __post_init__(self) -> None:
        for key, cidrs in (("vpcCidrs", self.vpc_cidrs), ("privateSubnetCidrs", self.private_subnet_cidrs)):
            for cidr in cidrs:
                check_cidr(f"cluster.attributes.{key}", cidr)
        for zone in self.availability_zone_ids:
            if not ZONE_ID.fullmatch(zone):
                raise ConfigError("cluster.attributes.availabilityZoneIds", zone, "ids such as usw2-az2")
        for key, given in (
            ("privateSubnetIds", self.private_subnet_ids),
            ("availabilityZoneIds", self.availability_zone_ids),
            ("privateSubnetCidrs", self.private_subnet_cidrs),
        ):
            if len(given) != len(self.availability_zones) and (given or key == "privateSubnetIds"):
                raise ConfigError(
                    f"cluster.attributes.{key}",
                    list(given),
                    f"one for each of availabilityZones, which are {', '.join(self.availability_zones)}",
                )
        self._check_eks()
        self._check_forms()

    def _check_forms(self) -> None:
        """An id or ARN that is none would be told of by the CDK, or by AWS, in other words."""
        subnets = [("privateSubnetIds", subnet) for subnet in self.private_subnet_ids]
        zones = [("availabilityZones", zone) for zone in self.availability_zones]
        for key, given, form, expected in (
            ("vpcId", self.vpc_id, f"vpc{AWS_ID}", "the id of a VPC, vpc-…"),
            *((key, subnet, f"subnet{AWS_ID}", "ids of subnets, subnet-…") for key, subnet in subnets),
            *((key, zone, ZONE_NAME.pattern, "names of zones, such as us-west-2a") for key, zone in zones),
            (
                "eksSecurityGroupId",
                self.eks_security_group_id,
                f"sg{AWS_ID}",
                "the id of a group, sg-…",
            ),
            (
                "nodeSecurityGroupId",
                self.node_security_group_id,
                f"sg{AWS_ID}",
                "the id of a group, sg-…",
            ),
            ("eksClusterName", self.eks_cluster_name, EKS_NAME.pattern, "the name of an EKS cluster"),
            ("oidcProviderArn", self.oidc_provider_arn, OIDC_PROVIDER_ARN.pattern, OIDC_PROVIDER_FORM),
            ("arn", self.arn, CLUSTER_ARN.pattern, "the ARN of a HyperPod cluster, which ends in its id"),
        ):
            if given is not None and not re.fullmatch(form, given):
                raise ConfigError(f"cluster.attributes.{key}", given, expected)
        for key, names in (("addons", self.addons), ("namespaces", self.namespaces)):
            for name in names:
                if not name.strip():
                    raise ConfigError(f"cluster.attributes.{key}", name, "names")

    def _check_eks(self) -> None:
        """What is told of a cluster is told whole, and of none but a named one."""
        eks = (("eksClusterName", self.eks_cluster_name), ("eksSecurityGroupId", self.eks_security_group_id))
        hyperpod = (("arn", self.arn), ("nodeSecurityGroupId", self.node_security_group_id))
        for (first, one), (second, other) in (eks, hyperpod):
            if (one is None) != (other is None):
                missing, given = (first, second) if one is None else (second, first)
                expected = f"a value beside {given}: a cluster that exists is told of by both"
                raise ConfigError(f"cluster.attributes.{missing}", None, expected)
        of_eks = (
            ("arn", self.arn),
            ("oidcProviderArn", self.oidc_provider_arn),
            ("addons", self.addons),
            ("namespaces", self.namespaces),
        )
        for key, told in of_eks:
            if told and self.eks_cluster_name is None:
                expected = f"the name of the EKS cluster that {key} belongs to"
                raise ConfigError("cluster.attributes.eksClusterName", None, expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A new EKS and HyperPod cluster of `kubernetes_version`, or the name of an `existing` HyperPod cluster.

    What exists is never changed; the CDK needs its `attributes`, since it asks nothing of AWS. Without
    `existing` they tell of a VPC, or an EKS cluster, that a new HyperPod cluster comes onto.
    `client_cidrs` are where clients are beside the VPC and the cluster's own pods. With `autoscaling`
    HyperPod's Karpenter fills the groups of `count: 0` that a HyperpodNodeClass names.
    """

    kubernetes_version: str = "1.35"
    existing: str | None = None
    attributes: ClusterAttributes | None = None
    closed_network: bool = False
    client_cidrs: tuple[str, ...] = ()
    autoscaling: bool = False

    def __post_init__(self) -> None:
        for cidr in self.client_cidrs:
            check_cidr("cluster.clientCidrs", cidr)
        if self.autoscaling and self.existing is not None:
            expected = f"false: {self.existing} is its owner's, whose nodes are left as they are"
            raise ConfigError("cluster.autoscaling", True, expected)
        if not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", self.kubernetes_version):
            raise ConfigError("cluster.kubernetesVersion", self.kubernetes_version, "a version, such as 1.35")
        if self.existing_eks is None and self.kubernetes_version not in KUBERNETES_VERSIONS:
            raise ConfigError("cluster.kubernetesVersion", self.kubernetes_version, KUBERNETES_VERSIONS_FORM)
        if self.existing is not None and not GROUP_NAME.fullmatch(self.existing):
            raise ConfigError("cluster.existing", self.existing, f"a cluster's name: {GROUP_NAME_FORM}")
        told = self.attributes
        if told is not None and told.arn is not None and self.existing is None:
            raise ConfigError(
                "cluster.existing", None, "the name of the HyperPod cluster that cluster.attributes.arn is of"
            )
        if told is not None and told.arn is None and self.existing is not None:
            raise ConfigError(
                "cluster.attributes.arn", None, "the ARN of the HyperPod cluster that cluster.existing names"
            )

    @property
    def existing_eks(self) -> str | None:
        """The EKS cluster that is there already, by its name as far as it is known; None for a new one."""
        told = self.attributes.eks_cluster_name if self.attributes else None
        return told or self.existing


def check_cidr(setting: str, cidr: object) -> None:
    """Refuse what is no range of IPv4 addresses.

    EKS gives pods and Services addresses of one family, here IPv4: nobody ever comes from an IPv6 range.
    https://docs.aws.amazon.com/eks/latest/userguide/cni-ipv6.html (read 2026-12-01)

    Raises:
        ConfigError: names `setting`.
    """
    try:
        if not isinstance(cidr, str) or "/" not in cidr:
            raise ValueError("no prefix length")
        if ip_network(cidr).version != 4:
            raise ValueError("the cluster's pods and load balancers have IPv4 addresses alone")
    except ValueError as error:
        raise ConfigError(setting, cidr, f"ranges of IPv4 addresses such as 10.0.0.0/8 ({error})") from None


def check_region(region: str) -> None:
    """Refuse what no Region of AWS is called.

    Raises:
        ConfigError: names it.
    """
    if not REGION.fullmatch(region):
        raise ConfigError("region", region, "a Region of AWS, such as us-west-2")


def check_zone(zone_id: str, region: str, group: str) -> None:
    """Refuse a zone of another Region than the deployment's.

    Raises:
        ConfigError: names `group`, as one finds it in the file.
    """
    beside = zones_of(region)
    if beside and zone_id.partition("-")[0] != beside[0].partition("-")[0]:
        raise ConfigError(
            f"{group}.availabilityZoneId", zone_id, f"a zone of {region}, such as {', '.join(beside)}"
        )


def check_subnet(zone_id: str, cluster: Cluster, group: str) -> None:
    """Refuse a zone in which an existing VPC has no subnet for new nodes, as far as is known.

    Raises:
        ConfigError: names `group`, as one finds it in the file.
    """
    told = cluster.attributes
    if told is None or cluster.existing is not None or zone_id in told.availability_zone_ids:
        return
    zones = ", ".join(told.availability_zone_ids) or "not given"
    raise ConfigError(
        f"{group}.availabilityZoneId",
        zone_id,
        f"one of cluster.attributes.availabilityZoneIds, the zones of privateSubnetIds, which are {zones}",
    )


def check_autoscaling(cluster: Cluster, groups: Sequence[InstanceGroup]) -> None:
    """Refuse autoscaling without a group that Karpenter may fill.

    It takes nodes that a group starts with away again.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodeclass.html
    (read 2026-12-02)

    Raises:
        ConfigError: every group has nodes of its own.
    """
    if cluster.autoscaling and all(group.count for group in groups):
        raise ConfigError(
            "cluster.autoscaling",
            True,
            "an instanceGroup of count: 0, which Karpenter fills: of one that starts with nodes it takes "
            f"them away; there are {', '.join(f'{group.name} ({group.count})' for group in groups)}",
        )


def check_autoscaled(cluster: Cluster, group: InstanceGroup, setting: str) -> None:
    """Refuse a group for Karpenter that lies in several zones; the same page says that it takes none.

    Raises:
        ConfigError: names `setting`, the group as one finds it in the file.
    """
    if cluster.autoscaling and group.count == 0 and group.availability_zone_id is None:
        raise ConfigError(
            f"{setting}.availabilityZoneId",
            None,
            "the id of a zone, such as usw2-az2: with cluster.autoscaling Karpenter fills this group, and "
            "takes none whose subnets lie in several",
        )
