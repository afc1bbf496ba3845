"""Scaling by cache utilisation, or by what waits: alarm -> Lambda -> one replica more or less."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from hypertier.errors import ConfigError
from hypertier.exporter.metrics import (
    DIMENSION,
    HELD_REQUESTS,
    IDLE_REPLICAS,
    KV_CACHE_USAGE_RATIO,
    L1_USAGE_RATIO,
    NAMESPACE,
    PREFILL,
    QUEUED_REQUESTS,
    REPLICAS_SCRAPED,
)
from hypertier.spec.schedules import ScalingSchedule, check_schedules
from hypertier_cdk.arguments import checked
from hypertier_cdk.assets import package_asset
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.forms import AlarmMinutes, Namespace, ObjectName, Replicas
from hypertier_cdk.hook_access import hook_objects
from hypertier_cdk.metrics import MINUTE, ROLES, endpoint_metric
from hypertier_cdk.nag import INTO_A_NETWORK, VPC_POLICY, accept, accept_managed_policies, accept_wildcards
from hypertier_cdk.plain import resource
from hypertier_cdk.roles import WRITE_LOGS, allow, policies
from hypertier_cdk.runbooks import with_runbook
from hypertier_cdk.schedules import BoundsSchedules
from hypertier_cdk.security_groups import carry_group_of

# High and low. What waits for each replica: numbers that NVIDIA's Dynamo has for its one queue of all prefill
# workers, in components/planner/src/dynamo/planner/defaults.py of
# https://github.com/ai-dynamo/dynamo/tree/fa6702c831ef34f9b9169bce262b90567fb73432 (read 2026-12-02)
THRESHOLDS = {
    KV_CACHE_USAGE_RATIO.name: (0.9, 0.4),
    L1_USAGE_RATIO.name: (0.9, 0.4),
    QUEUED_REQUESTS.name: (5.0, 0.2),
}
QUEUE_EXPRESSION, QUEUED_EACH = "queued / replicas", " for each replica"
ALARM_PRINCIPAL = "lambda.alarms.cloudwatch.amazonaws.com"
WAKE_PERIOD = cdk.Duration.seconds(10)
FUNCTION_TIMEOUT = cdk.Duration.seconds(60)
BLIND_STEPS = "BlindSteps"
"""Counted from the function's log: steps down that could not tell which replicas are coldest."""


class CacheUtilizationScaling(Construct):
    """Steps a Deployment's replicas when an endpoint's cache stays full or stays empty, or its queue does.

    Where some engines prefill and others decode, each `role` has a scaling of its own. `metric` is one of the
    exporter's ratios, or `QueuedRequests` for each replica: by default that for `prefill`, else
    `KvCacheUsageRatio`. High for `high_minutes` on end means one replica more, low for `low_minutes` one
    less, never outside `min_replicas` to `max_replicas`, and never two steps within `cooldown`. `schedules`
    set other bounds, each until the next one. Where 0 is the least in force, none is left after
    `idle_minutes` in which nobody asked, and one comes back once a router holds a request. The replicas
    whose caches are worth least go first, where the exporter tells; a step for which nobody could tell counts
    in `metric_blind_steps`. The function may read and patch this one Deployment, mark its pods, and nothing
    else. A step that fails three times lands in `failures`; `EndpointAlarms` rings for it.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: ClusterBase,
        endpoint: ObjectName,
        namespace: Namespace,
        deployment: ObjectName,
        min_replicas: Replicas,
        max_replicas: Replicas,
        role: str | None = None,
        metric: str | None = None,
        high: float | None = None,
        low: float | None = None,
        high_minutes: AlarmMinutes = 3,
        low_minutes: AlarmMinutes = 30,
        idle_minutes: AlarmMinutes = 30,
        cooldown: cdk.Duration | None = None,
        schedules: Sequence[ScalingSchedule] = (),
        dry_run: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        metric = metric or (QUEUED_REQUESTS if role == PREFILL else KV_CACHE_USAGE_RATIO).name
        usual_high, usual_low = THRESHOLDS.get(metric, (0.0, 0.0))
        high = usual_high if high is None else high
        low = usual_low if low is None else low
        _check(min_replicas, max_replicas, role, metric, high, low)
        check_schedules(schedules, min_replicas, max_replicas)
        self.endpoint, self.role, self.metric, self.high, self.low = endpoint, role, metric, high, low
        self.sleeps = min_replicas == 0 or any(schedule.min_replicas == 0 for schedule in schedules)
        if self.sleeps and role is not None:
            expected = "1 or more of a role: requests are held for engines that do both"
            raise ConfigError("min_replicas", 0, expected)
        stack = cdk.Stack.of(self)
        cooldown_seconds = cooldown.to_seconds(integral=False) if cooldown else 600
        if not float(cooldown_seconds).is_integer():
            raise ConfigError("cooldown", f"{cooldown_seconds:g} seconds", "whole seconds")

        # Known before the alarms exist: the function must know their names, and they the function.
        prefix = cdk.Names.unique_resource_name(self, max_length=80, separator="-")
        names = {key: f"{prefix}-{key}" for key in ("high", "low", "sleep", "wake")}
        self.failures = sqs.Queue(
            self,
            "Failures",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        accept(self.failures, "it is the queue that dead letters come to", "SQS3")
        log_group = logs.LogGroup(
            self,
            "Logs",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        function_role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"steps the replicas of {namespace}/{deployment}",
            inline_policies=policies(
                allow("FindCluster", ["eks:DescribeCluster"], [cluster.eks_cluster.cluster_arn]),
                allow("Log", WRITE_LOGS, [log_group.log_group_arn]),
                allow("ReadWhatReplicasAreWorth", ["cloudwatch:GetMetricData"], ["*"]),
            ),
        )
        accept_wildcards(function_role, "CloudWatch's read calls know no resource", "*")
        logs.MetricFilter(
            self,
            "BlindSteps",
            log_group=log_group,
            filter_pattern=logs.FilterPattern.exists("$.coldest_unknown"),
            metric_namespace=NAMESPACE,
            metric_name=BLIND_STEPS,
            dimensions={DIMENSION: "$.endpoint"},
            unit=cw.Unit.COUNT,
        )
        # Only where the Kubernetes API answers nowhere else.
        vpc = cluster.network.vpc if cluster.functions_inside else None
        self.function = lambda_.Function(
            self,
            "Function",
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            handler="replicas.handler.handler",
            code=lambda_.Code.from_asset(**package_asset("hypertier_lambdas")),
            description=f"steps the replicas of {namespace}/{deployment}",
            role=function_role,
            log_group=log_group,
            timeout=FUNCTION_TIMEOUT,
            memory_size=256,
            environment={
                "CLUSTER_NAME": cluster.eks_cluster.cluster_name,
                "NAMESPACE": namespace,
                "DEPLOYMENT": deployment,
                "ENDPOINT": endpoint,
                "MIN_REPLICAS": str(min_replicas),
                "MAX_REPLICAS": str(max_replicas),
                "COOLDOWN_SECONDS": str(int(cooldown_seconds)),
                "HIGH_ALARM": names["high"],
                "LOW_ALARM": names["low"],
                "DRY_RUN": "true" if dry_run else "false",
                **({"SLEEP_ALARM": names["sleep"], "WAKE_ALARM": names["wake"]} if self.sleeps else {}),
                **_bounds(schedules, min_replicas, max_replicas),
            },
            on_failure=destinations.SqsDestination(self.failures),
            retry_attempts=2,
            max_event_age=cdk.Duration.minutes(15),
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=list(cluster.network.private_subnets)) if vpc else None,
            security_groups=[self._inside(vpc, cluster, function_role)] if vpc else None,
        )
        self._admit(cluster, function_role, namespace, deployment)
        signal = _signal(metric, endpoint, role)
        what = f"{endpoint} {role or ''}".rstrip() + f": {metric}{QUEUED_EACH if _is_queue(metric) else ''}"
        self.high_alarm = self._alarm(
            "High", names, f"{what} at {high:g} or more: one replica more", signal, high, high_minutes
        )
        self.low_alarm = self._alarm(
            "Low",
            names,
            f"{what} at {low:g} or less: one replica less",
            signal,
            low,
            low_minutes,
            breaches=cw.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
        )
        alarms = {"High": self.high_alarm, "Low": self.low_alarm}
        if self.sleeps:
            alarms |= self._sleep_and_wake(endpoint, names, idle_minutes)
        function_arn = self.function.function_arn
        for key, alarm in alarms.items():
            inner = alarm.node.default_child
            assert isinstance(inner, cw.CfnAlarm)
            inner.alarm_actions = [function_arn]
            if key == "Sleep" and schedules:  # one may let engines go later, who is to know whether to
                inner.ok_actions = [function_arn]
            # Not cloudwatch_actions.LambdaAction: it would put the permission into the alarm's own scope.
            resource(
                self,
                f"{key}MayInvoke",
                "AWS::Lambda::Permission",
                Action="lambda:InvokeFunction",
                FunctionName=function_arn,
                Principal=ALARM_PRINCIPAL,
                SourceAccount=stack.account,
                SourceArn=alarm.alarm_arn,
            )

        if schedules:
            BoundsSchedules(
                self, "Schedules", schedules=schedules, function=self.function, failures=self.failures
            )

    def metric_failures(self) -> cw.Metric:
        """Steps that failed three times and wait in `failures` to be looked at."""
        return self.failures.metric_approximate_number_of_messages_visible(period=MINUTE, statistic="Maximum")

    def metric_blind_steps(self) -> cw.Metric:
        """Steps down for which nobody could tell the coldest replicas; of both roles together."""
        return endpoint_metric(BLIND_STEPS, self.endpoint, statistic="Sum")

    def _sleep_and_wake(
        self, endpoint: str, names: Mapping[str, str], idle_minutes: int
    ) -> dict[str, cw.Alarm]:
        """One alarm for nobody who asks, and one of 10 s for requests that are held."""
        self.sleep_alarm = self._alarm(
            "Sleep",
            names,
            f"{endpoint}: nobody asks its engines: no replica",
            endpoint_metric(IDLE_REPLICAS.name, endpoint, statistic="Minimum"),
            1,
            idle_minutes,
        )
        held = endpoint_metric(HELD_REQUESTS.name, endpoint, statistic="Maximum")
        self.wake_alarm = self._alarm(
            "Wake",
            names,
            f"{endpoint}: requests wait for a replica: one",
            held.with_(period=WAKE_PERIOD),
            1,
            1,
            no_data=cw.TreatMissingData.NOT_BREACHING,
        )
        return {"Sleep": self.sleep_alarm, "Wake": self.wake_alarm}

    def _alarm(
        self,
        key: str,
        names: Mapping[str, str],
        description: str,
        metric: cw.IMetric,
        threshold: float,
        periods: int,
        *,
        breaches: cw.ComparisonOperator = cw.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        no_data: cw.TreatMissingData = cw.TreatMissingData.IGNORE,
    ) -> cw.Alarm:
        """One that rings after so many `periods` of the metric; `IGNORE` leaves it as it is without data."""
        return cw.Alarm(
            self,
            key,
            alarm_name=names[key.lower()],
            alarm_description=with_runbook(description, f"Scaling{key}"),
            metric=metric,
            threshold=threshold,
            comparison_operator=breaches,
            evaluation_periods=periods,
            treat_missing_data=no_data,
        )

    def _inside(self, vpc: ec2.IVpc, cluster: ClusterBase, role: iam.Role) -> ec2.ISecurityGroup:
        """The function's security group, which may reach the Kubernetes API, and what Lambda needs for it."""
        role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name(VPC_POLICY))
        accept_managed_policies(role, INTO_A_NETWORK, VPC_POLICY)
        if cluster.adopted is not None:
            return carry_group_of(self, cluster.eks_cluster)
        group = ec2.SecurityGroup(self, "SecurityGroup", vpc=vpc, description="hook for replicas")
        # Not `connections`: the rule belongs to this stack, which may come after the cluster's.
        ec2.CfnSecurityGroupIngress(
            self,
            "ReachesKubernetes",
            group_id=cluster.eks_cluster.cluster_security_group_id,
            source_security_group_id=group.security_group_id,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            description="hook for replicas",
        )
        return group

    def _admit(self, cluster: ClusterBase, role: iam.Role, namespace: str, deployment: str) -> None:
        """Let the function's role read and patch this Deployment, mark its pods, and nothing else."""
        name = f"hypertier-replicas-{deployment}"
        resource(
            self,
            "AccessEntry",
            "AWS::EKS::AccessEntry",
            ClusterName=cluster.eks_cluster.cluster_name,
            PrincipalArn=role.role_arn,
            KubernetesGroups=[name],
        )
        self.permissions = cluster.add_manifest(
            "Permissions", hook_objects(name, namespace, deployment), scope=self
        )


def _bounds(schedules: Sequence[ScalingSchedule], least: int, most: int) -> dict[str, str]:
    """The function's variable that says what each schedule sets; none without schedules."""
    if not schedules:
        return {}
    named = [(schedule.name, *schedule.bounds(least, most)) for schedule in schedules]
    bounds = [{"name": name, "min": low, "max": high} for name, low, high in named]
    return {"SCHEDULES": json.dumps(bounds, separators=(",", ":"))}


def _is_queue(metric: str) -> bool:
    return metric == QUEUED_REQUESTS.name


def _signal(metric: str, endpoint: str, role: str | None) -> cw.IMetric:
    """The mean over replicas; without one that answers it has no data."""
    if not _is_queue(metric):
        return endpoint_metric(metric, endpoint, role=role)
    parts = {
        name: endpoint_metric(series.name, endpoint, role=role)
        for name, series in (("queued", QUEUED_REQUESTS), ("replicas", REPLICAS_SCRAPED))
    }
    return cw.MathExpression(expression=QUEUE_EXPRESSION, using_metrics=parts, period=MINUTE)


def _check(
    min_replicas: int, max_replicas: int, role: str | None, metric: str, high: float, low: float
) -> None:
    if max_replicas < max(1, min_replicas):
        raise ConfigError(
            "max_replicas", max_replicas, f"1 or more, and at least min_replicas, which is {min_replicas}"
        )
    if role is not None and role not in ROLES:
        raise ConfigError("role", role, f"{' or '.join(ROLES)}, or none where engines do both")
    if metric not in THRESHOLDS:
        raise ConfigError("metric", metric, f"a series of the exporter's: {' or '.join(THRESHOLDS)}")
    most = float("inf") if _is_queue(metric) else 1
    if not 0 <= low < high <= most:
        expected = "0 <= low < high" if _is_queue(metric) else "0 <= low < high <= 1"
        raise ConfigError("high, low", (high, low), f"{expected}, a gap between them to settle in")
