"""Instance groups of a deployment file: what each key means, what cannot be, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_manifests import changed, deployment, endpoint

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.deployment import Deployment, DeploymentFile, load_deployment
from hypertier.spec.groups_together import settled
from hypertier.spec.instance_group import InstanceGroup
from hypertier.spec.lint import lint_files

KEY = "arn:aws:kms:us-west-2:123456789012:key/0a1b2c3d"
PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/g5-november"
SUNDAYS = "cron(0 3 ? * SUN *)"
WHOLE: dict[str, Any] = {
    "name": "gpu",
    "instanceType": "ml.g5.12xlarge",
    "count": 3,
    "instanceTypes": ["ml.g5.24xlarge"],
    "minCount": 1,
    "availabilityZoneId": "usw2-az2",
    "trainingPlanArn": PLAN,
    "volume": {"size": "500Gi", "kmsKeyArn": KEY},
    "rootVolumeKmsKeyArn": KEY,
    "labels": {"team": "search", "example.com/tier": "a_b.c"},
    "taints": [
        {"key": "team", "value": "search", "effect": "NoExecute"},
        {"key": "example.com/x", "effect": "NoSchedule"},
    ],
    "lifecycle": {"source": "s3://sagemaker-ours/scripts", "file": "on_create.sh"},
    "patchSchedule": {"cron": SUNDAYS, "batchPercent": 10, "rollbackAlarmNames": ["down", "slow"]},
}


def load(folder: Path, changes: dict[str, Any]) -> Deployment:
    (folder / "endpoint.yaml").write_text(yaml.safe_dump(endpoint()), encoding="utf-8")
    file = folder / "deployment.yaml"
    file.write_text(yaml.safe_dump(changed(deployment(), changes)), encoding="utf-8")
    return load_deployment(file)


def test_every_key_of_a_group_is_read(tmp_path: Path) -> None:
    group = load(tmp_path, {"instanceGroups.1": WHOLE}).instance_groups[1]

    assert group.all_instance_types == ("ml.g5.12xlarge", "ml.g5.24xlarge")
    assert (group.min_count, group.training_plan_arn) == (1, PLAN)
    assert group.volume is not None
    assert (group.volume.gib, group.volume.kms_key_arn, group.root_volume_kms_key_arn) == (500, KEY, KEY)
    assert dict(group.labels) == WHOLE["labels"]
    assert [(taint.key, taint.value, taint.effect) for taint in group.taints or ()] == [
        ("team", "search", "NoExecute"),
        ("example.com/x", None, "NoSchedule"),
    ]
    assert group.patch_schedule is not None
    assert group.patch_schedule.rollback_alarm_names == ("down", "slow")


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(WHOLE, id="all-keys"),
        pytest.param(
            {
                "name": "gpu",
                "instanceType": "ml.p5.48xlarge",
                "count": 2,
                "spot": True,
                "taints": [],
                "deepHealthChecks": ["InstanceConnectivity"],
                "efaOnly": True,
            },
            id="the-others",
        ),
    ],
)
def test_a_group_is_written_as_it_was_read(group: dict[str, Any]) -> None:
    written = changed(deployment(), {"instanceGroups.1": group})

    again = codec.encode(codec.decode_or_raise(DeploymentFile, written))

    assert codec.decode_or_raise(DeploymentFile, again) == codec.decode_or_raise(DeploymentFile, written)
    assert {key: again["instanceGroups"][1][key] for key in group} == group


@pytest.mark.parametrize(
    ("changes", "setting", "where"),
    [
        pytest.param({"instanceTypes": ["g5.24xlarge"]}, "instanceTypes", "", id="a-type-of-EC2"),
        pytest.param({"instanceTypes": ["ml.g5.4xlarge"]}, "instanceTypes", "", id="a-smaller-type"),
        pytest.param({"minCount": 4}, "minCount", "", id="at-least-more-than-there-are"),
        pytest.param({"trainingPlanArn": PLAN}, "availabilityZoneId", "", id="a-plan-in-no-zone"),
        pytest.param(
            {"trainingPlanArn": PLAN, "availabilityZoneId": "usw2-az2", "spot": True},
            "spot",
            "",
            id="a-plan-on-spot",
        ),
        pytest.param({"volume": {"size": "0"}}, "volume.size", "", id="an-empty-volume"),
        pytest.param({"volume": {"size": "20Ti"}}, "volume.size", "", id="a-volume-larger-than-EBS-has"),
        pytest.param({"volume": {"size": "large"}}, "volume.size", "", id="a-size-in-words"),
        pytest.param(
            {"volume": {"size": "1Gi", "kmsKeyArn": "alias/ours"}}, "volume.kmsKeyArn", "", id="an-alias"
        ),
        pytest.param({"rootVolumeKmsKeyArn": "0a1b"}, "rootVolumeKmsKeyArn", "", id="a-key-s-id"),
        pytest.param({"labels": {"te am": "a"}}, "labels", "", id="a-label-with-a-space"),
        pytest.param({"labels": {"team": 7}}, "labels", "", id="a-label-that-is-a-number"),
        pytest.param({"labels": {"team": ""}}, "labels", "", id="an-empty-label"),
        pytest.param(
            {"labels": {"sagemaker.amazonaws.com/instance-group-name": "other"}},
            "labels",
            "",
            id="the-label-by-which-pods-find-the-group",
        ),
        pytest.param(
            {"taints": [{"key": "a", "value": "b"}, {"key": "a", "value": "c"}]},
            "taints",
            "",
            id="a-key-and-effect-twice",
        ),
        pytest.param({"taints": [{"key": "/"}]}, "taints.0.key", "taints[0].key", id="a-taint-without-a-key"),
        pytest.param(
            {"taints": [{"key": "a"}, {"key": "b", "effect": "Never"}]},
            "taints.1.effect",
            "taints[1].effect",
            id="an-effect-of-no-taint",
        ),
        pytest.param({"deepHealthChecks": ["Gut"]}, "deepHealthChecks", "", id="a-check-that-is-none"),
        pytest.param(
            {"deepHealthChecks": ["InstanceStress"] * 2}, "deepHealthChecks", "", id="a-check-twice"
        ),
        pytest.param(
            {"deepHealthChecks": ["InstanceStress"], "taints": [{"key": "a"}]},
            "deepHealthChecks",
            "",
            id="checks-beside-taints",
        ),
        pytest.param({"patchSchedule": {"cron": "weekly"}}, "patchSchedule.cron", "", id="no-schedule"),
        pytest.param(
            {"patchSchedule": {"cron": "cron(0 3 * * SUN)"}}, "patchSchedule.cron", "", id="a-crontab-of-five"
        ),
        pytest.param(
            {"patchSchedule": {"cron": SUNDAYS, "batchPercent": 0}},
            "patchSchedule.batchPercent",
            "",
            id="no-node-at-a-time",
        ),
        pytest.param(
            {"patchSchedule": {"cron": SUNDAYS, "rollbackAlarmNames": ["a"] * 11}},
            "patchSchedule.rollbackAlarmNames",
            "",
            id="eleven-alarms",
        ),
        pytest.param(
            {"efaOnly": True, "instanceType": "ml.g5.xlarge"}, "efaOnly", "", id="a-type-without-EFA"
        ),
    ],
)
def test_a_group_that_cannot_be_is_refused_by_its_key_and_found_by_lint(
    tmp_path: Path, changes: dict[str, Any], setting: str, where: str
) -> None:
    group = {"name": "gpu", "instanceType": "ml.g5.12xlarge", "count": 3, **changes}

    with pytest.raises(ConfigError) as refused:
        load(tmp_path, {"instanceGroups.1": group})

    found = lint_files([str(tmp_path / "deployment.yaml")]).findings
    assert refused.value.setting == f"instanceGroups.gpu.{setting}"
    assert f"instanceGroups[1].{where or setting}" in [finding.path for finding in found]


@pytest.mark.parametrize(
    ("system", "tiered", "is_refused"),
    [
        pytest.param({}, False, False, id="one-open-group"),
        pytest.param({"taints": [{"key": "a"}]}, False, True, id="none"),
        pytest.param({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, False, False, id="preferred"),
        pytest.param({"taints": [{"key": "a"}]}, True, False, id="GPU-nodes-are-open-with-tiered-storage"),
        pytest.param({"taints": [{"key": "a"}], "count": 0}, False, False, id="all-nodes-have-GPUs"),
    ],
)
def test_a_new_cluster_needs_a_group_that_takes_any_pod(
    tmp_path: Path, system: dict[str, Any], tiered: bool, is_refused: bool
) -> None:
    changes = {f"instanceGroups.0.{key}": value for key, value in system.items()}
    changes |= {"cache": {"l2": {"backend": "tieredstorage"}}} if tiered else {}

    if is_refused:
        with pytest.raises(ConfigError, match="CoreDNS"):
            load(tmp_path, changes)
    else:
        load(tmp_path, changes)


def test_gpu_groups_are_kept_for_those_who_tolerate_it_unless_all_have_gpus() -> None:
    gpu = InstanceGroup(name="gpu", instance_type="ml.p5.48xlarge", count=2)
    cpu = InstanceGroup(name="cpu", instance_type="ml.m5.4xlarge", count=2)

    taints = [
        [len(group.applied_taints) for group in settled(groups, tiered_storage=tiered)]
        for groups, tiered in (([cpu, gpu], False), ([cpu, gpu], True), ([gpu], False))
    ]

    assert taints == [[0, 1], [0, 0], [0]]
