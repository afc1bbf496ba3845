"""A deployment becomes four stacks, each with what changes at the same pace."""

from __future__ import annotations

import itertools
import json
import typing
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from fakes_stacks import ROOT, example_folder, on_what_exists, synthesized
from fakes_templates import UNSTAGED

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.cache_tiers import ExistingStore
from hypertier.spec.cluster import Cluster
from hypertier.spec.deployment import Deployment, DeploymentFile, Scaling, load_deployment
from hypertier.spec.endpoint import InferenceGateway
from hypertier.spec.instance_group import InstanceGroup
from hypertier_cdk.review.kubernetes import objects_of, of_kind
from hypertier_cdk.review.templates import Assembly, read_assembly
from hypertier_cdk.review.unseen import unseen_in
from infra.settings import AS_TYPED
from infra.stacks import add_stacks, new_app


def stacks_with(assembly: Assembly, resource_type: str) -> set[str]:
    return {resource.stack for resource in assembly.of_type(resource_type)}


def test_the_reference_is_four_stacks(reference_assembly: Assembly) -> None:
    assert reference_assembly.stacks == (
        "reference-network",
        "reference-cluster",
        "reference-serving",
        "reference-operations",
    )


@pytest.mark.parametrize(
    ("resource_type", "stack"),
    [
        pytest.param("AWS::EC2::VPC", "reference-network", id="the network"),
        pytest.param("AWS::SageMaker::Cluster", "reference-cluster", id="the cluster"),
        pytest.param("AWS::EKS::Cluster", "reference-cluster", id="its orchestrator"),
        pytest.param("AWS::ElastiCache::ReplicationGroup", "reference-serving", id="L2"),
        pytest.param("AWS::SNS::Topic", "reference-operations", id="where alarms ring"),
    ],
)
def test_a_thing_stands_in_one_stack(resource_type: str, stack: str, reference_assembly: Assembly) -> None:
    assert stacks_with(reference_assembly, resource_type) == {stack}


def test_the_reference_runs_seven_nodes_of_eight_gpus(reference_assembly: Assembly) -> None:
    (cluster,) = reference_assembly.of_type("AWS::SageMaker::Cluster")

    groups = {group["InstanceType"]: group["InstanceCount"] for group in cluster.get("InstanceGroups")}

    assert groups == {"ml.m5.4xlarge": 3, "ml.p5.48xlarge": 7}


def test_the_reference_serves_engines_a_router_and_an_exporter(reference_assembly: Assembly) -> None:
    deployments = of_kind(objects_of(reference_assembly), "Deployment")

    names = {entry["metadata"]["name"] for entry in deployments}

    assert names == {"llama-70b-engine", "llama-70b-router", "llama-70b-exporter"}


def test_every_alarm_rings_or_steps(reference_assembly: Assembly) -> None:
    for alarm in reference_assembly.of_type("AWS::CloudWatch::Alarm"):
        assert alarm.get("AlarmActions"), alarm.path


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        pytest.param("reference", [2], id="what the hook keeps"),
        pytest.param("disaggregated", [1, 3], id="what the hooks of both roles keep"),
    ],
)
def test_fewer_replicas_than_there_must_be_ring(example: str, expected: list[int]) -> None:
    assembly = read_assembly(example_folder(ROOT / "examples" / example / "deployment.yaml"))

    thresholds = [
        alarm.get("Threshold")
        for alarm in assembly.of_type("AWS::CloudWatch::Alarm")
        if alarm.get("MetricName") == "ReplicasScraped" and alarm.get("Statistic") == "Minimum"
    ]

    assert sorted(thresholds) == expected


def test_a_resource_that_takes_tags_is_handed_the_stack_s(reference_assembly: Assembly) -> None:
    """By the types' schemas in CloudFormation's registry, as cfn-lint carries them."""
    types = {resource.type for resource in reference_assembly.resources if resource.type.startswith("AWS::")}
    schemas = {name: PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-west-2", name).schema for name in types}

    tagged = {name for name, schema in schemas.items() if "Tags" in schema["properties"]}

    assert {name for name in tagged if not schemas[name].get("tagging", {}).get("taggable")} == set()
    assert {"AWS::SageMaker::Cluster", "AWS::EKS::Cluster", "AWS::ElastiCache::ReplicationGroup"} <= tagged


def test_a_shard_of_l2_that_gives_less_than_planned_rings(reference_assembly: Assembly) -> None:
    (store,) = reference_assembly.of_type("AWS::ElastiCache::ReplicationGroup")
    of_l2 = [
        alarm
        for alarm in reference_assembly.of_type("AWS::CloudWatch::Alarm")
        if alarm.get("Namespace") == "AWS/ElastiCache"
    ]

    assert {alarm.stack for alarm in of_l2} == {"reference-operations"}
    assert len(of_l2) == 2 * store.get("NumNodeGroups")


def test_a_later_stack_depends_on_the_earlier_ones(reference_folder: Path) -> None:
    artifacts = json.loads((reference_folder / "manifest.json").read_text())["artifacts"]
    stacks = [name for name in artifacts if artifacts[name]["type"] == "aws:cloudformation:stack"]

    for earlier, later in itertools.pairwise(stacks):
        assert earlier in artifacts[later]["dependencies"]


def test_every_stack_is_of_the_deployment_s_region(reference_folder: Path) -> None:
    artifacts = json.loads((reference_folder / "manifest.json").read_text())["artifacts"]

    environments = {entry["environment"] for entry in artifacts.values() if "environment" in entry}

    assert environments == {"aws://unknown-account/us-west-2"}


def test_every_stack_hands_on_the_deployment_s_name_as_a_tag(reference_folder: Path) -> None:
    artifacts = json.loads((reference_folder / "manifest.json").read_text())["artifacts"]
    stacks = [entry for entry in artifacts.values() if entry["type"] == "aws:cloudformation:stack"]

    assert [entry["properties"]["tags"] for entry in stacks] == [{"hypertier:deployment": "reference"}] * 4


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        pytest.param({"name": "7up"}, "name", id="a name that begins with a digit"),
        pytest.param({"name": "my_cache"}, "name", id="a name with an underscore"),
        pytest.param({"region": "moon-1"}, "region", id="a Region that AWS does not have"),
        pytest.param(
            {"instance_groups": (InstanceGroup(name="a", instance_type="ml.g5.xlarge", count=1),)},
            "llama-70b: spec.instanceType",
            id="no nodes for the endpoint",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_the_words_of_the_file(
    change: dict[str, Any], setting: str, reference_deployment: Deployment
) -> None:
    with pytest.raises(ConfigError) as refused:
        add_stacks(cdk.App(), replace(reference_deployment, **change))

    assert refused.value.setting == setting


def test_where_no_image_of_the_health_agent_is_known_its_key_is_named(
    reference_deployment: Deployment,
) -> None:
    anywhere = tuple(
        replace(group, availability_zone_id=None) for group in reference_deployment.instance_groups
    )
    seoul = replace(reference_deployment, region="ap-northeast-2", instance_groups=anywhere)
    images = replace(seoul.images, health_agent="registry.example/agent:1")

    with pytest.raises(ConfigError) as refused:
        add_stacks(new_app(UNSTAGED), seoul)
    add_stacks(new_app(UNSTAGED), replace(seoul, images=images))

    assert refused.value.setting == "images.healthAgent"


@pytest.mark.parametrize(
    ("field", "setting"),
    [
        ("engine", "images.engine"),
        ("router", "images.router"),
        ("nvidia_device_plugin", "images.nvidiaDevicePlugin"),
        ("efa_device_plugin", "images.efaDevicePlugin"),
        ("health_agent", "images.healthAgent"),
    ],
)
def test_an_image_that_a_closed_network_cannot_reach_is_named_as_typed(field: str, setting: str) -> None:
    closed = load_deployment(ROOT / "examples" / "closed-network" / "deployment.yaml")
    images = replace(closed.images, **{field: "docker.io/acme/image:1"})

    with pytest.raises(ConfigError, match="an image in Amazon ECR") as refused:
        add_stacks(new_app(UNSTAGED), replace(closed, images=images))

    assert refused.value.setting == setting


@pytest.fixture(scope="module")
def adopted() -> Assembly:
    return read_assembly(example_folder(ROOT / "examples" / "adopt-existing" / "deployment.yaml"))


@pytest.mark.parametrize(
    "resource_type",
    [
        "AWS::EC2::VPC",
        "AWS::EC2::Subnet",
        "AWS::EKS::Cluster",
        "AWS::SageMaker::Cluster",
        "AWS::EKS::Nodegroup",
    ],
)
def test_of_an_existing_cluster_nothing_is_made_again(resource_type: str, adopted: Assembly) -> None:
    assert adopted.of_type(resource_type) == ()


def test_on_an_existing_cluster_the_endpoint_is_whole(adopted: Assembly) -> None:
    names = {entry["metadata"]["name"] for entry in of_kind(objects_of(adopted), "Deployment")}

    assert adopted.stacks == ("adopted-adopted", "adopted-serving", "adopted-operations")
    assert names == {"llama-70b-engine", "llama-70b-router", "llama-70b-exporter"}
    assert len(adopted.of_type("AWS::ElastiCache::ReplicationGroup")) == 1


def test_on_an_existing_cluster_the_review_says_what_it_does_not_see(adopted: Assembly) -> None:
    assert [entry.partition(":")[0] for entry in unseen_in(adopted)] == [
        "the VPC",
        "the EKS cluster",
        "the HyperPod cluster",
    ]


def test_of_a_cluster_that_is_made_everything_is_seen(reference_assembly: Assembly) -> None:
    assert unseen_in(reference_assembly) == ()


def test_a_store_that_exists_is_read_and_nothing_of_it_is_made(reference_deployment: Deployment) -> None:
    existing = ExistingStore(
        url="rediss://store.internal:6379",
        secret_arn="arn:aws:secretsmanager:us-west-2:123456789012:secret:store-a1b2c3",
    )
    l2 = replace(reference_deployment.cache.l2, existing=existing)
    app = new_app(UNSTAGED)
    add_stacks(app, replace(reference_deployment, cache=replace(reference_deployment.cache, l2=l2)))

    assembly = read_assembly(app.synth().directory)

    made = [resource.type for resource in assembly.resources if "ElastiCache" in resource.type]
    engines = [entry for entry in of_kind(objects_of(assembly), "Deployment") if "engine" in str(entry)]
    assert made == []
    assert "rediss://store.internal:6379" in str(engines)
    assert not [
        alarm
        for alarm in assembly.of_type("AWS::CloudWatch::Alarm")
        if alarm.get("Namespace") == "AWS/ElastiCache"
    ]


@pytest.mark.parametrize("eks", [pytest.param(None, id="a VPC"), pytest.param("theirs", id="an EKS cluster")])
def test_a_new_hyperpod_cluster_comes_onto_what_exists_and_changes_nothing_of_it(
    eks: str | None, reference_deployment: Deployment
) -> None:
    assembly = read_assembly(synthesized(on_what_exists(reference_deployment, eks=eks)))

    (cluster,) = assembly.of_type("AWS::SageMaker::Cluster")
    subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    made = {resource.type for resource in assembly.resources}
    changed = [
        resource.get("GroupId")
        for resource in assembly.resources
        if resource.type in ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")
    ]
    assert assembly.stacks == ("reference-cluster", "reference-serving", "reference-operations")
    assert cluster.get("VpcConfig")["Subnets"] == subnets
    assert not made & {"AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::Route", "AWS::EC2::VPCEndpoint"}
    assert ("AWS::EKS::Cluster" in made) is (eks is None)
    assert "sg-0123456789abcdef0" not in changed


def test_an_observability_that_the_eks_cluster_has_is_left_to_it(reference_deployment: Deployment) -> None:
    deployment = on_what_exists(reference_deployment, eks="theirs")
    told = deployment.cluster.attributes
    assert told is not None
    there = replace(told, addons=("amazon-sagemaker-hyperpod-observability",))
    app = new_app(UNSTAGED)

    add_stacks(app, replace(deployment, cluster=replace(deployment.cluster, attributes=there)))

    assert app.node.find_child("reference-operations").observability is None  # type: ignore[attr-defined]


def test_groups_without_nodes_are_karpenter_s_to_fill(reference_deployment: Deployment) -> None:
    system, gpu = reference_deployment.instance_groups
    autoscaled = replace(
        reference_deployment,
        cluster=replace(reference_deployment.cluster, autoscaling=True),
        instance_groups=(system, replace(gpu, count=0)),
    )

    (cluster,) = read_assembly(synthesized(autoscaled)).of_type("AWS::SageMaker::Cluster")

    assert cluster.get("AutoScaling") == {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    assert (cluster.get("NodeRecovery"), cluster.get("NodeProvisioningMode")) == ("Automatic", "Continuous")
    assert "Fn::GetAtt" in cluster.get("ClusterRole")


def test_an_existing_cluster_must_be_told_of(reference_deployment: Deployment) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.attributes is not set; expected .*eksClusterName"):
        add_stacks(new_app(UNSTAGED), replace(reference_deployment, cluster=Cluster(existing="prod")))


def test_scaling_without_metrics_is_refused(reference_deployment: Deployment) -> None:
    endpoint = reference_deployment.endpoints[0]
    assert endpoint.spec.metrics is not None
    silent = replace(
        endpoint, spec=replace(endpoint.spec, metrics=replace(endpoint.spec.metrics, enabled=False))
    )

    with pytest.raises(ConfigError, match=r"llama-70b: spec\.metrics\.enabled is false"):
        add_stacks(new_app(UNSTAGED), replace(reference_deployment, endpoints=(silent,)))


def test_with_the_operator_scaling_by_the_deployment_file_is_refused(
    reference_deployment: Deployment,
) -> None:
    with pytest.raises(ConfigError, match=r"scaling\.max is 7; expected 2.*autoScalingSpec"):
        add_stacks(new_app(UNSTAGED), replace(reference_deployment, serving="operator"))


def test_with_the_operator_the_same_manifest_is_aws_s_to_run(reference_deployment: Deployment) -> None:
    app = new_app(UNSTAGED)
    deployment = replace(reference_deployment, serving="operator", scaling=Scaling(min=7, max=7))
    add_stacks(app, deployment)

    assembly = read_assembly(app.synth().directory)

    (endpoint,) = of_kind(objects_of(assembly), "InferenceEndpointConfig")
    addons = {addon.get("AddonName") for addon in assembly.of_type("AWS::EKS::Addon")}
    assert endpoint["spec"]["replicas"] == 7
    assert "amazon-sagemaker-hyperpod-inference" in addons
    assert assembly.of_type("AWS::ElastiCache::ReplicationGroup") == ()


def test_the_operator_s_gateway_is_on_where_an_endpoint_joins_it(reference_deployment: Deployment) -> None:
    (endpoint,) = reference_deployment.endpoints
    spec = replace(
        endpoint.spec, intelligent_routing_spec=None, inference_gateway=InferenceGateway(enabled=True)
    )
    app = new_app(UNSTAGED)
    deployment = replace(
        reference_deployment,
        serving="operator",
        scaling=Scaling(min=7, max=7),
        endpoints=(replace(endpoint, spec=spec),),
    )
    add_stacks(app, deployment)

    assembly = read_assembly(app.synth().directory)

    values = [
        json.dumps(addon.get("ConfigurationValues"))
        for addon in assembly.of_type("AWS::EKS::Addon")
        if addon.get("AddonName") == "amazon-sagemaker-hyperpod-inference"
    ]
    assert len(values) == 1
    assert '\\"inferenceGateway\\":{\\"enabled\\":true' in values[0]


def test_an_endpoint_that_never_grows_has_no_hook(reference_deployment: Deployment) -> None:
    app = new_app(UNSTAGED)
    add_stacks(app, replace(reference_deployment, scaling=Scaling(min=7, max=7)))

    serving = app.node.find_child("reference-serving")

    assert not any(serving.scalings.values())  # type: ignore[attr-defined]


@pytest.mark.parametrize("argument", AS_TYPED)
def test_every_argument_that_is_renamed_has_a_key_in_the_file(argument: str) -> None:
    hint: Any = DeploymentFile
    for key in AS_TYPED[argument].split("."):
        known = codec.fields_by_name(hint)
        assert key in known
        hint = inner(known[key][1])


def inner(hint: Any) -> Any:
    """The dataclass inside an optional one, or a tuple of them."""
    options = [option for option in typing.get_args(hint) if option not in (type(None), Ellipsis)]
    return inner(options[0]) if options else hint


def test_an_amount_of_tiered_storage_reaches_the_cluster_as_the_percentage_that_aws_takes() -> None:
    file = ROOT / "tests" / "manifests" / "deployments" / "tiered-storage" / "deployment.yaml"
    deployment = load_deployment(file)
    l2 = replace(deployment.cache.l2, memory="48Gi")

    made = read_assembly(synthesized(replace(deployment, cache=replace(deployment.cache, l2=l2))))

    (cluster,) = made.of_type("AWS::SageMaker::Cluster")
    config = cluster.properties["TieredStorageConfig"]
    assert config == {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 25}
