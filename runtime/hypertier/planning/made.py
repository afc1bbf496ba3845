"""What a deployment makes in AWS, as far as AWS may refuse it."""

from __future__ import annotations

from hypertier.catalog import addons
from hypertier.catalog.operator import ADDON_VERSIONS
from hypertier.catalog.vpc_services import services_for
from hypertier.catalog.zones import USUAL_ZONES, filled_up
from hypertier.planning.quotas import Nodes, Quota, quotas_of
from hypertier.spec.deployment import Deployment


def makes_network(deployment: Deployment) -> bool:
    """Whether there will be a new VPC."""
    return deployment.cluster.attributes is None


def makes_eks(deployment: Deployment) -> bool:
    """Whether there will be a new EKS cluster."""
    return deployment.cluster.existing_eks is None


def makes_hyperpod(deployment: Deployment) -> bool:
    """Whether there will be a new HyperPod cluster."""
    return deployment.cluster.existing is None


def stack_names(deployment: Deployment) -> tuple[str, ...]:
    """The stacks in the order in which they are deployed."""
    network = ("network",) if makes_network(deployment) else ()
    cluster = ("cluster",) if makes_hyperpod(deployment) else ("adopted",)
    return tuple(f"{deployment.name}-{part}" for part in (*network, *cluster, "serving", "operations"))


def zone_ids(deployment: Deployment) -> tuple[str, ...]:
    """The zones of the deployment's subnets, by id; empty where a new VPC takes the account's first ones."""
    told = deployment.cluster.attributes
    if told is not None:
        return told.availability_zone_ids
    named = (group.availability_zone_id for group in deployment.instance_groups)
    return filled_up(tuple(dict.fromkeys(zone for zone in named if zone)), USUAL_ZONES)


def num_elastic_ips(deployment: Deployment) -> int:
    """Elastic IPs of a new VPC: one for the NAT gateway in each zone, none where the network is closed."""
    if not makes_network(deployment) or deployment.cluster.closed_network:
        return 0
    return len(zone_ids(deployment)) or USUAL_ZONES


def interface_services(deployment: Deployment) -> tuple[str, ...]:
    """The services that a new closed network gets an interface endpoint for."""
    if not makes_network(deployment) or not deployment.cluster.closed_network:
        return ()
    needs = ["nodes", "manifests", "observability"]
    if deployment.serving == "operator":
        needs.append("operator")
    elif deployment.controllers.load_balancer != "existing" and any(
        endpoint.spec.tls_config for endpoint in deployment.endpoints
    ):
        needs.append("load balancers")
    return services_for(needs)


def nodes_of(deployment: Deployment) -> tuple[Nodes, ...]:
    """The nodes of a new HyperPod cluster; none where it exists."""
    if not makes_hyperpod(deployment):
        return ()
    return tuple(
        Nodes(group.count, group.all_instance_types, group.spot) for group in deployment.instance_groups
    )


def hyperpod_quotas(deployment: Deployment) -> tuple[Quota, ...]:
    """The quotas that its nodes count against, with how much they need."""
    return quotas_of([nodes_of(deployment)])


def addon_versions(deployment: Deployment) -> dict[str, str | None]:
    """The EKS add-ons that are made, with the version of those that are pinned."""
    told = deployment.cluster.attributes
    existing = addons.existing_with(told.addons if told else ())
    by_operator = deployment.serving == "operator"
    sources = {endpoint.spec.model_source_config.model_source_type for endpoint in deployment.endpoints}
    wanted = list((*addons.BEFORE_NODES, *addons.AFTER_NODES) if makes_eks(deployment) else ())
    if by_operator or "s3" in sources:
        wanted.append(addons.S3_DRIVER)
    if by_operator or "fsx" in sources:
        wanted.append(addons.FSX_DRIVER)
    if by_operator:
        wanted += (addons.CERT_MANAGER, addons.METRICS_SERVER)
    if makes_hyperpod(deployment):
        wanted.append(addons.OBSERVABILITY)
    made: dict[str, str | None] = {name: None for name in wanted if name not in existing}
    if by_operator and addons.INFERENCE_OPERATOR not in existing:
        made[addons.INFERENCE_OPERATOR] = ADDON_VERSIONS.get(deployment.operator.version)
    return made
