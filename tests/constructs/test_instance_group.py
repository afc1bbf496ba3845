"""What may be said of an instance group, and what CloudFormation gets of it."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import aws_iam as iam
from fakes_templates import new_stack, permissions, properties, statements, synthesize, the

from hypertier.errors import ConfigError
from hypertier.planning.addresses import addresses_by_zone
from hypertier.spec import instance_group as spec
from hypertier.spec.instance_group import GPU_TAINT, PatchSchedule, Taint, Volume
from hypertier.spec.lifecycle import LifecycleScript
from hypertier_cdk import HyperPodCluster, InstanceGroup, Network, TieredStorage
from hypertier_cdk.plain import resource

KEY = "arn:aws:kms:us-west-2:123456789012:key/0a1b2c3d"
PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/p5-november"
GPU = {"name": "gpu", "instance_type": "ml.p5.48xlarge", "count": 2}
GPU_KEPT = {"Key": GPU_TAINT, "Value": "present", "Effect": "NoSchedule"}
CPU = {"name": "cpu", "instance_type": "ml.m5.4xlarge", "count": 2}


def rendered(**settings: Any) -> dict[str, Any]:
    """The group as it stands in a template."""

    def build(stack: Any) -> None:
        role = iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::123456789012:role/nodes")
        group = InstanceGroup(**settings)
        written = group.to_property(execution_role=role, subnet=None, security_group_ids=[])
        resource(stack, "Cluster", "AWS::SageMaker::Cluster", InstanceGroups=[written])

    (found,) = the(synthesize(build), "AWS::SageMaker::Cluster")["InstanceGroups"]
    return dict(found)


def test_several_types_are_tried_in_their_order() -> None:
    group = rendered(**GPU, instance_types=("ml.p5en.48xlarge", "ml.p5e.48xlarge"))

    assert group["InstanceRequirements"]["InstanceTypes"] == [
        "ml.p5.48xlarge",
        "ml.p5en.48xlarge",
        "ml.p5e.48xlarge",
    ]
    assert "InstanceType" not in group


@pytest.mark.parametrize(
    ("settings", "taints"),
    [
        pytest.param(GPU, [GPU_KEPT], id="GPUs by default"),
        pytest.param(CPU, None, id="no GPUs by default"),
        pytest.param(GPU | {"taints": ()}, None, id="GPUs, none wanted"),
        pytest.param(GPU | {"deep_health_checks": ("InstanceStress",)}, None, id="GPUs with checks"),
        pytest.param(
            CPU | {"taints": (Taint(key="team", value="a", effect="NoExecute"),)},
            [{"Key": "team", "Value": "a", "Effect": "NoExecute"}],
            id="of the user's own",
        ),
    ],
)
def test_nodes_with_gpus_are_kept_for_those_who_tolerate_it(
    settings: dict[str, Any], taints: list[dict[str, str]] | None
) -> None:
    assert rendered(**settings).get("KubernetesConfig", {}).get("Taints") == taints


def test_every_option_reaches_the_template_under_its_name() -> None:
    group = rendered(
        **GPU,
        min_count=1,
        spot=True,
        volume=Volume(size="500Gi", kms_key_arn=KEY),
        root_volume_kms_key_arn=KEY,
        labels={"purpose": "inference"},
        taints=(),
        deep_health_checks=("InstanceStress", "InstanceConnectivity"),
        lifecycle=LifecycleScript(source="s3://sagemaker-mine/scripts", file="extend.sh"),
        patch_schedule=PatchSchedule(cron="cron(0 3 ? * SUN *)", rollback_alarm_names=("down",)),
        efa_only=True,
    )

    batch = {"Type": "CAPACITY_PERCENTAGE", "Value": 25}
    assert group == {
        "InstanceGroupName": "gpu",
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 2,
        "MinInstanceCount": 1,
        "ExecutionRole": "arn:aws:iam::123456789012:role/nodes",
        "CapacityRequirements": {"Spot": {}},
        "InstanceStorageConfigs": [
            {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": KEY}},
            {"EbsVolumeConfig": {"VolumeSizeInGB": 500, "VolumeKmsKeyId": KEY}},
        ],
        "KubernetesConfig": {"Labels": {"purpose": "inference"}},
        "OnStartDeepHealthChecks": ["InstanceStress", "InstanceConnectivity"],
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-mine/scripts", "OnInitComplete": "extend.sh"},
        "ScheduledUpdateConfig": {
            "ScheduleExpression": "cron(0 3 ? * SUN *)",
            "DeploymentConfig": {
                "RollingUpdatePolicy": {"MaximumBatchSize": batch, "RollbackMaximumBatchSize": batch},
                "AutoRollbackConfiguration": [{"AlarmName": "down"}],
            },
        },
        "NetworkInterface": {"InterfaceType": "efa-only"},
    }


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        pytest.param({"name": "gpu-"}, "name", id="a name that ends in a hyphen"),
        pytest.param({"instance_type": "p5.48xlarge"}, "instance_type", id="a type of EC2"),
        pytest.param({"instance_types": ("p5.48xlarge",)}, "instance_types", id="a second type of EC2"),
        pytest.param(
            {"instance_types": tuple(f"ml.g{n}.large" for n in range(20))}, "instance_types", id="21 types"
        ),
        pytest.param({"count": -1}, "count", id="fewer than no nodes"),
        pytest.param({"count": 6759}, "count", id="more nodes than HyperPod takes"),
        pytest.param({"min_count": 3}, "min_count", id="at least more than there are"),
        pytest.param({"volume": Volume(size="0")}, "volume.size", id="an empty volume"),
        pytest.param({"volume": 500}, "volume", id="a volume that is a number"),
        pytest.param({"volume": Volume(size=5)}, "volume.size", id="a number"),  # type: ignore[arg-type]
        pytest.param({"training_plan_arn": "p5-november"}, "training_plan_arn", id="a plan's name"),
        pytest.param({"training_plan_arn": PLAN}, "availability_zone_id", id="a plan in no zone"),
        pytest.param(
            {"training_plan_arn": PLAN, "availability_zone_id": "usw2-az2", "spot": True},
            "spot",
            id="a plan on spot",
        ),
        pytest.param({"labels": {str(n): "a" for n in range(51)}}, "labels", id="51 labels"),
        pytest.param({"taints": tuple(Taint(key=str(n)) for n in range(51))}, "taints", id="51 taints"),
        pytest.param({"deep_health_checks": ("Gut",)}, "deep_health_checks", id="a check that is none"),
        pytest.param(
            {"deep_health_checks": ("InstanceStress",), "taints": (Taint(key="a"),)},
            "deep_health_checks",
            id="checks beside taints",
        ),
        pytest.param(
            {"instance_type": "ml.m5.xlarge", "efa_only": True}, "efa_only", id="EFA on a type without"
        ),
    ],
)
def test_a_group_that_cannot_be_is_refused_with_the_setting(changed: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        InstanceGroup(**(GPU | changed))

    assert refused.value.setting == f"instance_groups.{(GPU | changed)['name']}.{setting}"


@pytest.mark.parametrize(
    ("part", "setting"),
    [
        pytest.param(
            {"taints": (Taint(key="a", effect="Never"),)}, "taints.0.effect", id="an effect of no taint"
        ),
        pytest.param(
            {"lifecycle": LifecycleScript(source="s3://mine/x", file="a.sh")},
            "lifecycle.source",
            id="a bucket that nodes may not read",
        ),
        pytest.param(
            {"patch_schedule": PatchSchedule(cron="weekly")}, "patch_schedule.cron", id="no schedule"
        ),
        pytest.param(
            {"patch_schedule": PatchSchedule(cron=7)},  # type: ignore[arg-type]
            "patch_schedule.cron",
            id="a schedule that is a number",
        ),
    ],
)
def test_a_part_that_cannot_be_is_refused_with_its_group(part: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        InstanceGroup(**GPU, **part)

    assert refused.value.setting == f"instance_groups.gpu.{setting}"


def test_a_group_of_the_deployment_file_keeps_all_that_the_file_says() -> None:
    said: dict[str, Any] = {
        **GPU,
        "instance_types": ("ml.p5en.48xlarge",),
        "min_count": 1,
        "availability_zone_id": "usw2-az2",
        "training_plan_arn": PLAN,
        "volume": Volume(size="1Ti"),
        "root_volume_kms_key_arn": KEY,
        "labels": {"team": "search"},
        "taints": (Taint(key="team"),),
        "patch_schedule": PatchSchedule(cron="cron(0 3 ? * SUN *)"),
        "efa_only": True,
    }

    assert InstanceGroup.of(spec.InstanceGroup(**said)) == InstanceGroup(**said)


def test_tiered_storage_s_daemon_is_kept_off_no_node() -> None:
    template = synthesize(
        lambda stack: cluster_with(
            stack, InstanceGroup(**GPU), InstanceGroup(**CPU), tiered_storage=TieredStorage()
        )
    )

    groups = the(template, "AWS::SageMaker::Cluster")["InstanceGroups"]
    assert not any("KubernetesConfig" in group for group in groups)


@pytest.mark.parametrize(
    ("groups", "got"),
    [
        pytest.param([], [], id="none"),
        pytest.param([InstanceGroup(**CPU, taints=(Taint(key="a"),))], ["cpu: a"], id="all tainted"),
        pytest.param([InstanceGroup(**GPU | {"name": f"g{n}"}) for n in range(101)], "101 groups", id="101"),
        pytest.param([InstanceGroup(**GPU)] * 2, ["gpu", "gpu"], id="two of a name"),
    ],
)
def test_groups_that_cannot_be_together_are_refused(groups: list[InstanceGroup], got: object) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster_with(new_stack(), *groups)

    assert refused.value.setting == "instance_groups"
    assert refused.value.got == got


def test_addresses_are_counted_where_the_nodes_are() -> None:
    groups = [
        InstanceGroup(**GPU, availability_zone_id="usw2-az2"),
        InstanceGroup(**GPU | {"name": "slim"}, availability_zone_id="usw2-az2", efa_only=True),
        InstanceGroup(**CPU),
    ]

    assert addresses_by_zone(groups) == {"usw2-az2": 2 * (32 + 50) + 2 * (1 + 50), None: 2 * (1 + 50)}


def cluster_with(stack: Any, *groups: InstanceGroup, **settings: Any) -> HyperPodCluster:
    return HyperPodCluster(
        stack,
        "Cluster",
        network=Network(stack, "Network"),
        kubernetes_version="1.35",
        instance_groups=groups,
        name="test",
        **settings,
    )


def test_volumes_are_encrypted_with_a_key_of_the_cluster_s_own() -> None:
    template = synthesize(
        lambda stack: cluster_with(stack, InstanceGroup(**CPU, volume=Volume(size="100Gi")))
    )

    (made,) = the(template, "AWS::SageMaker::Cluster")["InstanceGroups"]
    key = made["InstanceStorageConfigs"][0]["EbsVolumeConfig"]["VolumeKmsKeyId"]["Fn::GetAtt"][0]
    assert template["Resources"][key]["Properties"]["EnableKeyRotation"] is True


def test_volumes_under_a_key_of_others_make_none_and_karpenter_may_lend_it() -> None:
    group = InstanceGroup(**CPU, volume=Volume(size="100Gi", kms_key_arn=KEY))

    template = synthesize(lambda stack: cluster_with(stack, group, autoscaling=True))

    made = [key["Description"] for key in properties(template, "AWS::KMS::Key")]
    lent = [entry for entry in statements(template) if entry.get("Sid") in ("LendKey", "DescribeKey")]
    assert made == ["Kubernetes secrets of the EKS cluster"]
    assert [entry["Resource"] for entry in lent] == [KEY, KEY]


def test_more_nodes_than_the_network_has_addresses_for_are_refused() -> None:
    with pytest.raises(ConfigError, match="addresses in all zones"):
        cluster_with(new_stack(), InstanceGroup(**GPU | {"count": 600}))


def test_karpenter_scales_its_own_cluster_alone() -> None:
    template = synthesize(lambda stack: cluster_with(stack, InstanceGroup(**CPU), autoscaling=True))

    cluster = the(template, "AWS::SageMaker::Cluster")
    role = cluster["ClusterRole"]["Fn::GetAtt"][0]
    (statement,) = permissions(template, role)
    assert cluster["AutoScaling"] == {"Mode": "Enable", "AutoScalerType": "Karpenter"}
    assert statement["Condition"] == {"StringEquals": {"aws:ResourceTag/hypertier:cluster": "test"}}
    assert {"Key": "hypertier:cluster", "Value": "test"} in cluster["Tags"]
