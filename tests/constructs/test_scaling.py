"""The way from an alarm to one replica more, and what the function on it may do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import kubernetes_validate
import pytest
from fakes_scaling import gpu_cluster, scaling_on, scalings_of_roles
from fakes_templates import depends_on, new_stack, permissions, properties, resources, template_of

from hypertier.errors import ConfigError
from hypertier_cdk import HyperPodCluster, hook_access
from hypertier_cdk.review.templates import text_of
from hypertier_cdk.scaling import ALARM_PRINCIPAL, CacheUtilizationScaling
from hypertier_lambdas.replicas.coldest import DELETION_COST, WORTH
from hypertier_lambdas.replicas.settings import VARIABLES, read_settings

HANDLER = "replicas.handler.handler"
MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"


def scaled(stack: cdk.Stack, *, closed: bool = False, **options: Any) -> CacheUtilizationScaling:
    return scaling_on(stack, cluster_in(stack, closed=closed), **options)


def cluster_in(stack: cdk.Stack, *, closed: bool = False) -> HyperPodCluster:
    plugin = "123456789012.dkr.ecr.us-west-2.amazonaws.com/k8s-device-plugin:v0.16.1"
    return gpu_cluster(stack, closed=closed, nvidia_plugin_image=plugin)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = new_stack("Scaled")
    scaled(stack, low=0.3, high=0.8)
    return template_of(stack)


@pytest.fixture(scope="module")
def function(template: dict[str, Any]) -> dict[str, Any]:
    (found,) = [
        entry for entry in properties(template, "AWS::Lambda::Function") if entry["Handler"] == HANDLER
    ]
    return found


def step_alarms(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The alarms whose action is the function, by name."""
    return {
        alarm["AlarmName"]: alarm
        for alarm in properties(template, "AWS::CloudWatch::Alarm")
        if "AlarmName" in alarm
    }


def test_the_function_s_own_settings_read_its_environment(function: dict[str, Any]) -> None:
    environment = {name: text_of(value) for name, value in function["Environment"]["Variables"].items()}

    settings = read_settings(environment)

    assert set(environment) == set(VARIABLES) - {"SCHEDULES", "SLEEP_ALARM", "WAKE_ALARM"}
    assert (settings.limits.min_replicas, settings.limits.max_replicas) == (1, 3)
    assert (settings.namespace, settings.deployment) == ("inference", "llama-engine")


def test_the_alarms_have_the_names_that_the_function_knows(
    template: dict[str, Any], function: dict[str, Any]
) -> None:
    variables = function["Environment"]["Variables"]

    alarms = step_alarms(template)

    assert alarms[variables["HIGH_ALARM"]]["Threshold"] == 0.8
    assert alarms[variables["LOW_ALARM"]]["Threshold"] == 0.3


def test_both_alarms_watch_the_exporter_s_series_of_this_endpoint(template: dict[str, Any]) -> None:
    for alarm in step_alarms(template).values():
        assert (alarm["Namespace"], alarm["MetricName"]) == ("Hypertier", "KvCacheUsageRatio")
        assert alarm["Dimensions"] == [{"Name": "Endpoint", "Value": "llama"}]


@pytest.fixture(scope="module")
def of_roles() -> dict[str, Any]:
    """Both roles of one endpoint, each with a scaling of its own by its defaults."""
    stack = new_stack("Roles")
    scalings_of_roles(stack, cluster_in(stack), decode=(3, 5))
    return template_of(stack)


def variables_of(template: dict[str, Any], deployment: str) -> dict[str, Any]:
    """The environment of the function that steps a Deployment."""
    (found,) = [
        entry["Environment"]["Variables"]
        for entry in properties(template, "AWS::Lambda::Function")
        if entry["Handler"] == HANDLER and entry["Environment"]["Variables"]["DEPLOYMENT"] == deployment
    ]
    return found


@pytest.mark.parametrize(("role", "bounds"), [("prefill", ("1", "2")), ("decode", ("3", "5"))])
def test_each_role_has_a_function_that_knows_its_deployment_its_bounds_and_its_alarms(
    of_roles: dict[str, Any], role: str, bounds: tuple[str, str]
) -> None:
    variables = variables_of(of_roles, f"llama-{role}")

    alarms = step_alarms(of_roles)

    assert (variables["MIN_REPLICAS"], variables["MAX_REPLICAS"]) == bounds
    for name in (variables["HIGH_ALARM"], variables["LOW_ALARM"]):
        assert alarms[name]["AlarmDescription"].startswith(f"llama {role}: ")
    assert len(alarms) == 4


def test_engines_that_prefill_step_by_what_waits_for_each_of_them(of_roles: dict[str, Any]) -> None:
    alarms, variables = step_alarms(of_roles), variables_of(of_roles, "llama-prefill")

    for name, threshold in ((variables["HIGH_ALARM"], 5), (variables["LOW_ALARM"], 0.2)):
        (told,) = [entry for entry in alarms[name]["Metrics"] if entry.get("Expression")]
        parts = {
            entry["Id"]: entry["MetricStat"]["Metric"] for entry in alarms[name]["Metrics"] if entry != told
        }
        assert (told["Expression"], alarms[name]["Threshold"]) == ("queued / replicas", threshold)
        assert {key: part["MetricName"] for key, part in parts.items()} == {
            "queued": "QueuedRequests",
            "replicas": "ReplicasScraped",
        }
        assert all(part["Dimensions"] == dimensions("prefill") for part in parts.values())


def test_engines_that_decode_step_by_the_kv_cache_in_use(of_roles: dict[str, Any]) -> None:
    alarms, variables = step_alarms(of_roles), variables_of(of_roles, "llama-decode")

    for name, threshold in ((variables["HIGH_ALARM"], 0.9), (variables["LOW_ALARM"], 0.4)):
        alarm = alarms[name]
        assert (alarm["MetricName"], alarm["Statistic"]) == ("KvCacheUsageRatio", "Average")
        assert (alarm["Dimensions"], alarm["Threshold"]) == (dimensions("decode"), threshold)


def test_the_function_of_a_role_may_touch_that_role_s_deployment_alone(of_roles: dict[str, Any]) -> None:
    manifests = [json.loads(text_of(entry["Manifest"])) for entry in properties(of_roles, MANIFEST)]
    rules = {
        objects[0]["metadata"]["name"]: objects[0]["rules"]
        for objects in manifests
        if objects[0]["metadata"]["name"].startswith("hypertier-replicas")
    }

    groups = [
        group
        for entry in properties(of_roles, "AWS::EKS::AccessEntry")
        for group in entry.get("KubernetesGroups", [])
        if group.startswith("hypertier-replicas")
    ]

    assert sorted(groups) == ["hypertier-replicas-llama-decode", "hypertier-replicas-llama-prefill"]
    for role in ("prefill", "decode"):
        of_deployment, _ = rules[f"hypertier-replicas-llama-{role}"]
        assert of_deployment["resourceNames"] == [f"llama-{role}"]


def dimensions(role: str) -> list[dict[str, str]]:
    return [{"Name": "Endpoint", "Value": "llama"}, {"Name": "Role", "Value": role}]


def test_silence_of_the_exporter_steps_nothing(template: dict[str, Any]) -> None:
    assert {alarm["TreatMissingData"] for alarm in step_alarms(template).values()} == {"ignore"}


def test_each_alarm_may_invoke_the_function_and_nobody_else_may(template: dict[str, Any]) -> None:
    alarm_ids = {
        logical_id
        for logical_id, alarm in resources(template, "AWS::CloudWatch::Alarm").items()
        if "AlarmName" in alarm["Properties"]
    }

    permissions = properties(template, "AWS::Lambda::Permission")

    assert {permission["Principal"] for permission in permissions} == {ALARM_PRINCIPAL}
    assert {permission["SourceArn"]["Fn::GetAtt"][0] for permission in permissions} == alarm_ids
    assert all(permission["SourceAccount"] == {"Ref": "AWS::AccountId"} for permission in permissions)


def test_the_alarm_s_action_is_the_function(template: dict[str, Any]) -> None:
    (function_id,) = [
        logical_id
        for logical_id, entry in resources(template, "AWS::Lambda::Function").items()
        if entry["Properties"]["Handler"] == HANDLER
    ]

    for alarm in step_alarms(template).values():
        assert alarm["AlarmActions"] == [{"Fn::GetAtt": [function_id, "Arn"]}]


def test_the_role_may_describe_one_cluster_write_its_logs_and_report_failures(
    template: dict[str, Any], function: dict[str, Any]
) -> None:
    role_id = function["Role"]["Fn::GetAtt"][0]

    granted = permissions(template, role_id)

    actions = {action for entry in granted for action in _listed(entry["Action"])}
    assert actions == {
        "cloudwatch:GetMetricData",
        "eks:DescribeCluster",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
        "sqs:SendMessage",
    }
    everywhere = [entry["Action"] for entry in granted if entry["Resource"] == "*"]
    assert everywhere == ["cloudwatch:GetMetricData"]  # reads, and knows no resource
    assert "ManagedPolicyArns" not in resources(template, "AWS::IAM::Role")[role_id]["Properties"]


def test_the_cluster_lets_it_read_and_patch_one_deployment_and_mark_pods(template: dict[str, Any]) -> None:
    (entry,) = [
        found
        for found in properties(template, "AWS::EKS::AccessEntry")
        if any(group.startswith("hypertier-replicas") for group in found.get("KubernetesGroups", []))
    ]
    role, binding, *_ = _permissions(template)

    assert role["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments"],
            "resourceNames": ["llama-engine"],
            "verbs": ["get", "patch"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
    ]
    assert [subject["name"] for subject in binding["subjects"]] == entry["KubernetesGroups"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert role["metadata"]["namespace"] == "inference"


def test_a_policy_leaves_it_two_annotations_of_the_pods_of_that_deployment(template: dict[str, Any]) -> None:
    role, _, policy, binding = _permissions(template)

    spec = policy["spec"]

    (condition,) = spec["matchConditions"]
    assert f"'{role['metadata']['name']}' in request.userInfo.groups" in condition["expression"]
    assert spec["matchConstraints"]["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "inference"}
    }
    assert spec["matchConstraints"]["resourceRules"][0]["resources"] == ["pods"]
    told = " ".join(entry["expression"] for entry in spec["validations"])
    assert "matches('^llama-engine-[a-z0-9]+$')" in told
    assert "object.spec == oldObject.spec" in told
    assert f"['{DELETION_COST}', '{WORTH}']" in told
    assert (spec["failurePolicy"], binding["spec"]["validationActions"]) == ("Fail", ["Deny"])
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_kubernetes_knows_every_field_of_what_lets_it_in(template: dict[str, Any]) -> None:
    for entry in _permissions(template):
        kubernetes_validate.validate(entry, "1.30", strict=True)


def test_steps_that_could_not_tell_the_coldest_are_counted_from_its_log(template: dict[str, Any]) -> None:
    (told,) = properties(template, "AWS::Logs::MetricFilter")

    assert told["FilterPattern"] == '{ $.coldest_unknown = "*" }'
    (metric,) = told["MetricTransformations"]
    assert (metric["MetricNamespace"], metric["MetricName"]) == ("Hypertier", "BlindSteps")
    assert metric["Dimensions"] == [{"Key": "Endpoint", "Value": "$.endpoint"}]


def test_the_hook_and_its_policy_mean_the_same_annotations() -> None:
    assert (hook_access.DELETION_COST, hook_access.WORTH) == (DELETION_COST, WORTH)


def test_what_fails_three_times_is_kept(template: dict[str, Any]) -> None:
    (config,) = properties(template, "AWS::Lambda::EventInvokeConfig")

    queue_id = config["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0]

    assert config["MaximumRetryAttempts"] == 2
    assert resources(template, "AWS::SQS::Queue")[queue_id]["Properties"]["SqsManagedSseEnabled"] is True


def test_the_code_that_is_uploaded_runs_alone(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path / "cdk.out"))
    stack = cdk.Stack(app, "Scaled", env=cdk.Environment(region="us-west-2"))
    function = scaled(stack).function
    assembly = app.synth()
    asset = _asset_folder(Path(assembly.directory), stack.resolve(function.node.default_child.code))  # type: ignore[union-attr]

    compiled = list(asset.rglob("*.pyc"))
    module, _, name = HANDLER.rpartition(".")
    code = f"import sys; sys.path.insert(0, {str(asset)!r}); import {module} as m; print(m.{name}.__module__)"
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)

    assert ran.stdout.strip() == module, ran.stderr
    assert compiled == []


def test_in_a_closed_network_the_function_stands_inside_and_reaches_the_kubernetes_api() -> None:
    stack = new_stack("Closed")
    scaled(stack, closed=True)
    template = template_of(stack)
    (function_id,) = [
        logical_id
        for logical_id, entry in resources(template, "AWS::Lambda::Function").items()
        if entry["Properties"]["Handler"] == HANDLER
    ]

    config = template["Resources"][function_id]["Properties"]["VpcConfig"]

    group_id = config["SecurityGroupIds"][0]["Fn::GetAtt"][0]
    peers = [
        rule["SourceSecurityGroupId"]["Fn::GetAtt"][0]
        for rule in properties(template, "AWS::EC2::SecurityGroupIngress")
        if rule.get("FromPort") == 443
    ]
    assert group_id in peers
    assert len(config["SubnetIds"]) == 3
    assert depends_on(template, function_id)


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        pytest.param({"max_replicas": 0}, "max_replicas", id="a ceiling below the floor"),
        pytest.param({"metric": "ReplicasFailed"}, "metric", id="a metric that tells no load"),
        pytest.param({"role": "engine"}, "role", id="a role that no exporter writes"),
        pytest.param({"role": "prefill", "low": 5.0}, "high, low", id="no gap in what waits"),
        pytest.param({"role": "prefill", "low": -1.0}, "high, low", id="less than nobody waits"),
        pytest.param({"role": "decode", "high": 5.0}, "high, low", id="a queue's threshold for a ratio"),
        pytest.param({"low": 0.9, "high": 0.9}, "high, low", id="no gap"),
        pytest.param({"high": 90}, "high, low", id="percent"),
        pytest.param({"cooldown": cdk.Duration.millis(5)}, "cooldown", id="less than a second"),
    ],
)
def test_what_cannot_work_is_refused_by_name(options: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        scaled(new_stack(), **options)

    assert refused.value.setting == setting


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _permissions(template: dict[str, Any]) -> list[dict[str, Any]]:
    for manifest in properties(template, MANIFEST):
        objects = json.loads(text_of(manifest["Manifest"]))
        if objects[0]["kind"] == "Role":
            return objects
    raise AssertionError("no manifest with a Role")


def _asset_folder(assembly: Path, code: Any) -> Path:
    key = code["s3Key"].removesuffix(".zip")
    return assembly / f"asset.{key}"


def test_to_zero_and_back_are_two_more_alarms_whose_names_the_function_knows() -> None:
    stack = new_stack("ToZero")
    scaled(stack, min_replicas=0, idle_minutes=20)
    made = template_of(stack)
    (function,) = [f for f in properties(made, "AWS::Lambda::Function") if f["Handler"] == HANDLER]
    environment = {name: text_of(value) for name, value in function["Environment"]["Variables"].items()}

    limits = read_settings(environment).limits
    alarms = step_alarms(made)
    sleep, wake = alarms[limits.sleep_alarm], alarms[limits.wake_alarm]

    assert (limits.min_replicas, limits.max_replicas) == (0, 3)
    assert (sleep["MetricName"], sleep["EvaluationPeriods"], sleep["TreatMissingData"]) == (
        "IdleReplicas",
        20,
        "ignore",
    )
    assert (wake["MetricName"], wake["Period"], wake["TreatMissingData"]) == (
        "HeldRequests",
        10,
        "notBreaching",
    )
    invokers = [p for p in properties(made, "AWS::Lambda::Permission") if p["Principal"] == ALARM_PRINCIPAL]
    assert len(invokers) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_replicas": 0, "role": "decode"}, "min_replicas is 0; expected 1 or more of a role"),
        ({"min_replicas": 0, "max_replicas": 0}, "max_replicas is 0; expected 1 or more"),
    ],
    ids=["a role", "never any"],
)
def test_zero_is_refused_where_nobody_would_wake(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scaled(new_stack("Refused"), **options)
