"""Scaling by cache utilisation: alarm -> Lambda -> one replica more or less."""

from __future__ import annotations

import json
from collections.abc import Sequence

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
from hypertier.spec.schedules import ScalingSchedule, check_schedules
from hypertier_cdk.arguments import checked
from hypertier_cdk.assets import package_asset
from hypertier_cdk.cluster_base import ClusterBase
from hypertier_cdk.metrics import MINUTE, endpoint_metric
from hypertier_cdk.nag import INTO_A_NETWORK, VPC_POLICY, accept, accept_managed_policies
from hypertier_cdk.plain import resource
from hypertier_cdk.roles import WRITE_LOGS, allow, policies
from hypertier_cdk.schedules import BoundsSchedules
from hypertier_cdk.security_groups import carry_group_of

METRICS = ("KvCacheUsageRatio", "L1UsageRatio")
ALARM_PRINCIPAL = "lambda.alarms.cloudwatch.amazonaws.com"
FUNCTION_TIMEOUT = cdk.Duration.seconds(60)


class CacheUtilizationScaling(Construct):
    """Steps a Deployment's replicas when an endpoint's cache stays full or stays empty.

    `metric` is one of the exporter's ratios. High for `high_minutes` on end means one replica more, low for
    `low_minutes` one less, never outside `min_replicas` to `max_replicas`, and never two steps within
    `cooldown`. `schedules` set other bounds, each until the next one. The function may read and patch this
    one Deployment and nothing else. A step that fails three times lands in `failures`; `EndpointAlarms` rings
    for it.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: ClusterBase,
        endpoint: str,
        namespace: str,
        deployment: str,
        min_replicas: int,
        max_replicas: int,
        metric: str = "KvCacheUsageRatio",
        high: float = 0.9,
        low: float = 0.4,
        high_minutes: int = 3,
        low_minutes: int = 30,
        cooldown: cdk.Duration | None = None,
        schedules: Sequence[ScalingSchedule] = (),
        dry_run: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        _check(min_replicas, max_replicas, metric, high, low)
        check_schedules(schedules, min_replicas, max_replicas)
        self.high, self.low = high, low
        stack = cdk.Stack.of(self)
        cooldown = cooldown or cdk.Duration.minutes(10)

        # Known before the alarms exist: the function must know their names, and they the function.
        prefix = cdk.Names.unique_resource_name(self, max_length=80, separator="-")
        names = {"high": f"{prefix}-high", "low": f"{prefix}-low"}
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
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"steps the replicas of {namespace}/{deployment}",
            inline_policies=policies(
                allow("FindCluster", ["eks:DescribeCluster"], [cluster.eks_cluster.cluster_arn]),
                allow("Log", WRITE_LOGS, [log_group.log_group_arn]),
            ),
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
            role=role,
            log_group=log_group,
            timeout=FUNCTION_TIMEOUT,
            memory_size=256,
            environment={
                "CLUSTER_NAME": cluster.eks_cluster.cluster_name,
                "NAMESPACE": namespace,
                "DEPLOYMENT": deployment,
                "MIN_REPLICAS": str(min_replicas),
                "MAX_REPLICAS": str(max_replicas),
                "COOLDOWN_SECONDS": str(cooldown.to_seconds()),
                "HIGH_ALARM": names["high"],
                "LOW_ALARM": names["low"],
                "DRY_RUN": "true" if dry_run else "false",
                **_bounds(schedules, min_replicas, max_replicas),
            },
            on_failure=destinations.SqsDestination(self.failures),
            retry_attempts=2,
            max_event_age=cdk.Duration.minutes(15),
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=list(cluster.network.private_subnets)) if vpc else None,
            security_groups=[self._inside(vpc, cluster, role)] if vpc else None,
        )
        self._admit(cluster, role, namespace, deployment)
        series = endpoint_metric(metric, endpoint)
        self.high_alarm = cw.Alarm(
            self,
            "High",
            alarm_name=names["high"],
            alarm_description=f"{endpoint}: {metric} at {high:g} or more: one replica more",
            metric=series,
            threshold=high,
            comparison_operator=cw.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=high_minutes,
            treat_missing_data=cw.TreatMissingData.IGNORE,
        )
        self.low_alarm = cw.Alarm(
            self,
            "Low",
            alarm_name=names["low"],
            alarm_description=f"{endpoint}: {metric} at {low:g} or less: one replica less",
            metric=series,
            threshold=low,
            comparison_operator=cw.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=low_minutes,
            treat_missing_data=cw.TreatMissingData.IGNORE,
        )
        function_arn = self.function.function_arn
        for key, alarm in (("High", self.high_alarm), ("Low", self.low_alarm)):
            inner = alarm.node.default_child
            assert isinstance(inner, cw.CfnAlarm)
            inner.alarm_actions = [function_arn]
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
        """Let the function's role read and patch this Deployment, and nothing else in the cluster."""
        name = f"hypertier-replicas-{deployment}"
        resource(
            self,
            "AccessEntry",
            "AWS::EKS::AccessEntry",
            ClusterName=cluster.eks_cluster.cluster_name,
            PrincipalArn=role.role_arn,
            KubernetesGroups=[name],
        )
        metadata = {"name": name, "namespace": namespace}
        rules = [
            {
                "apiGroups": ["apps"],
                "resources": ["deployments"],
                "resourceNames": [deployment],
                "verbs": ["get", "patch"],
            }
        ]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}
        self.permissions = cluster.add_manifest(
            "Permissions",
            [
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "Role",
                    "metadata": metadata,
                    "rules": rules,
                },
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": metadata,
                    "roleRef": reference,
                    "subjects": [subject],
                },
            ],
            scope=self,
        )


def _bounds(schedules: Sequence[ScalingSchedule], least: int, most: int) -> dict[str, str]:
    """The function's variable that says what each schedule sets; none without schedules."""
    if not schedules:
        return {}
    named = [(schedule.name, *schedule.bounds(least, most)) for schedule in schedules]
    bounds = [{"name": name, "min": low, "max": high} for name, low, high in named]
    return {"SCHEDULES": json.dumps(bounds, separators=(",", ":"))}


def _check(min_replicas: int, max_replicas: int, metric: str, high: float, low: float) -> None:
    if min_replicas < 1:
        raise ConfigError("min_replicas", min_replicas, "1 or more: the last replica is never taken away")
    if max_replicas < min_replicas:
        raise ConfigError("max_replicas", max_replicas, f"at least min_replicas, which is {min_replicas}")
    if metric not in METRICS:
        raise ConfigError("metric", metric, f"a ratio of the exporter's: {' or '.join(METRICS)}")
    if not 0 <= low < high <= 1:
        raise ConfigError("high, low", (high, low), "0 <= low < high <= 1, a gap between them to settle in")
