"""The alarm of each part: what tells that it stopped working, and how long it may be so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cw
from constructs import Construct

from hypertier.errors import ConfigError
from hypertier.exporter.metrics import DECODE
from hypertier_cdk.arguments import checked
from hypertier_cdk.forms import ObjectName, Replicas
from hypertier_cdk.metrics import ROLES, endpoint_metric
from hypertier_cdk.runbooks import with_runbook
from hypertier_cdk.scaling import CacheUtilizationScaling

# An alarm looks back a day at most, and these at three verifications:
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html (read 2026-12-02)
MAX_VERIFY_MINUTES = 480
FULL_RATIO = 0.95  # of the GPU's KV cache
HOUR, DAY_MINUTES = cdk.Duration.hours(1), 24 * 60


class EndpointAlarms(Construct):
    """One alarm for each way in which an endpoint's parts can stop working without a word.

    `replicas` must answer at least; with 0 nobody is missed. Where some engines prefill and others decode it
    is a number for each: `{"prefill": 2, "decode": 5}`. `cached` says that L1 or L2 is on. `verify_minutes`
    is how often the endpoint is verified; without it nobody misses that. `captured` says that routers capture
    requests.

    Attributes:
        alarms: all of them; `notify` sends their transitions somewhere.
    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ObjectName,
        replicas: Replicas | Mapping[str, Replicas],
        cached: bool,
        scalings: Sequence[CacheUtilizationScaling] = (),
        verify_minutes: int | None = None,
        captured: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        if verify_minutes is not None and not 1 <= verify_minutes <= MAX_VERIFY_MINUTES:
            raise ConfigError("verify_minutes", verify_minutes, f"1 to {MAX_VERIFY_MINUTES}")
        self._endpoint = endpoint
        self.alarms: list[cw.Alarm] = []
        by_role: list[tuple[str | None, int]] = [(None, replicas)] if isinstance(replicas, int) else []
        if not isinstance(replicas, int):
            if set(replicas) != set(ROLES):
                raise ConfigError("replicas", replicas, f"a number, or one for each of {' and '.join(ROLES)}")
            by_role = [(role, replicas[role]) for role in ROLES]
        # No data at all is the exporter's failure, and only this alarm's: the others would all ring with it.
        self._alarm(
            "ExporterSilent",
            endpoint_metric("ReplicasScraped", endpoint, role=by_role[-1][0], statistic="SampleCount"),
            "no data from the exporter: neither scaling nor the other alarms can see anything",
            below=1,
            minutes=5,
            missing=cw.TreatMissingData.BREACHING,
        )
        for role, least in by_role:
            self._add_engines(role, least, cached=cached)

        if verify_minutes is not None:
            self._alarm(
                "VerifySilent",
                endpoint_metric("VerifyFailed", endpoint, statistic="SampleCount"),
                "three verifications in a row told nothing: whether the cache works is not known",
                below=1,
                minutes=3 * verify_minutes,
                missing=cw.TreatMissingData.BREACHING,
            )
            self._alarm(
                "VerifyFailing",
                endpoint_metric("VerifyFailed", endpoint, statistic="Maximum"),
                "two of three verifications failed: a prompt sent twice did not come from the cache, its "
                "answer changed, or none came; the job's log says which",
                above=0,
                minutes=3 * verify_minutes,
                datapoints=2,
            )
        if captured:
            self._alarm(
                "CapturesLost",
                endpoint_metric("CapturesLost", endpoint, statistic="Maximum"),
                "requests that were to be captured were not kept: what is captured has gaps",
                above=0,
                minutes=5,
                datapoints=1,
            )
        for scaling in scalings:
            self._alarm(
                "ScalingFailing",
                scaling.metric_failures(),
                "a step of the replicas failed three times; its event is in the queue",
                role=scaling.role,
                above=0,
                minutes=1,
            )
        if scalings:
            # One step may meet an engine too new to have a figure; two hours of a day are no accident.
            self._alarm(
                "BlindSteps",
                scalings[0].metric_blind_steps().with_(period=HOUR),  # of all roles together
                "replicas were taken away and nobody could tell which are worth least, in two hours of a day",
                above=0,
                minutes=DAY_MINUTES,
                period_minutes=60,
                datapoints=2,
            )

    def notify(self, *actions: cw.IAlarmAction) -> None:
        """Send every alarm's ALARM and OK to `actions`, such as an SNS topic."""
        for alarm in self.alarms:
            alarm.add_alarm_action(*actions)
            alarm.add_ok_action(*actions)

    def _add_engines(self, role: str | None, replicas: int, *, cached: bool) -> None:
        """The alarms of the engines of a role; of all of them where they are of one kind."""

        def metric(name: str, statistic: str) -> cw.Metric:
            return endpoint_metric(name, self._endpoint, role=role, statistic=statistic)

        if replicas:
            self._alarm(
                "ReplicasMissing",
                metric("ReplicasScraped", "Minimum"),
                f"fewer than {replicas} replicas answer",
                role=role,
                below=replicas,
                minutes=15,
            )
        self._alarm(
            "ReplicasUnreadable",
            metric("ReplicasFailed", "Maximum"),
            "a replica's /metrics cannot be read",
            role=role,
            above=0,
            minutes=10,
        )
        self._alarm(
            "MetricsMissing",
            metric("MetricsMissing", "Maximum"),
            "an engine lacks a metric that scaling reads: another version, or a switch that is off",
            role=role,
            above=0,
            minutes=10,
        )
        if role == DECODE:
            # Not its queue: there vLLM counts requests whose KV cache is on its way, and some always are.
            self._alarm(
                "KvCacheFull",
                metric("KvCacheUsageRatio", "Minimum"),
                "the KV cache of every replica is full all the time: more replicas are needed",
                role=role,
                above=FULL_RATIO,
                minutes=15,
            )
        else:
            self._alarm(
                "QueueLong",
                metric("QueuedRequests", "Minimum"),
                "requests wait all the time: more replicas are needed",
                role=role,
                above=0,
                minutes=15,
            )
        if cached:
            self._alarm(
                "CacheUseless",
                metric("ExternalHitRatio", "Maximum"),
                "nothing was found in L1 or L2 for half an hour: a tier is off, or every namespace changed",
                role=role,
                below=0.001,
                minutes=30,
            )

    def _alarm(
        self,
        alarm_id: str,
        metric: cw.IMetric,
        meaning: str,
        *,
        role: str | None = None,
        minutes: int,
        below: float | None = None,
        above: float | None = None,
        datapoints: int | None = None,
        period_minutes: int = 1,
        missing: cw.TreatMissingData = cw.TreatMissingData.NOT_BREACHING,
    ) -> None:
        threshold = below if below is not None else above
        assert threshold is not None
        self.alarms.append(
            cw.Alarm(
                self,
                f"{alarm_id}{(role or '').capitalize()}",
                metric=metric,
                alarm_description=with_runbook(
                    f"{self._endpoint}{f' {role}' if role else ''}: {meaning}", alarm_id
                ),
                threshold=threshold,
                comparison_operator=cw.ComparisonOperator.LESS_THAN_THRESHOLD
                if below is not None
                else cw.ComparisonOperator.GREATER_THAN_THRESHOLD,
                evaluation_periods=minutes // period_minutes,
                datapoints_to_alarm=datapoints or minutes // period_minutes,
                treat_missing_data=missing,
            )
        )
