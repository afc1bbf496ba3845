"""How many pods, by which signal."""

from dataclasses import dataclass, field

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint.manifest import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudWatchDimension(Part):
    """One name and value of a CloudWatch metric's dimensions."""

    name: str = field(metadata=about("Name of the dimension, such as EndpointName."))
    value: str = field(metadata=about("Value of the dimension."))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudWatchTrigger(Part):
    """KEDA's CloudWatch trigger. Periods in seconds."""

    name: str | None = optional("Name of the trigger.")
    namespace: str | None = optional("CloudWatch namespace of the metric.")
    metric_name: str | None = optional("The metric.")
    dimensions: tuple[CloudWatchDimension, ...] | None = optional("Dimensions that select the series.")
    metric_stat: str | None = optional("Statistic of the metric; Average by default.")
    metric_type: str | None = optional(
        "Value, or Average a pod, which is the default.", choices=["Value", "Average"]
    )
    metric_collection_period: int | None = optional("Period of the query in seconds; 300 by default.")
    metric_collection_start_time: int | None = optional(
        "How far the query looks back, in seconds; 300 by default."
    )
    min_value: float | None = optional("Value taken where CloudWatch returns none; 0 by default.")
    target_value: float | None = optional("Value that the autoscaler steers to.")
    activation_target_value: float | None = optional(
        "Value that wakes an endpoint of zero pods; 0 by default."
    )
    use_cached_metrics: bool | None = optional(
        "Whether values are kept for a polling interval; true by default."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusTrigger(Part):
    """KEDA's Prometheus trigger, against Amazon Managed Service for Prometheus alone."""

    name: str | None = optional("Name of the trigger.")
    server_address: str | None = optional(
        "Address of the AMP workspace.",
        pattern="^https:\\/\\/aps-workspaces\\.[a-zA-Z0-9-]+(?:\\.[a-zA-Z0-9-]+)*\\.amazonaws\\.com\\/workspaces\\/ws-[a-zA-Z0-9-]+$|^$",
        like="https://aps-workspaces.REGION.amazonaws.com/workspaces/ws-ID",
    )
    query: str | None = optional("PromQL query of the metric.")
    target_value: float | None = optional("Value that the autoscaler steers to.")
    metric_type: str | None = optional(
        "Value, or Average a pod, which is the default.", choices=["Value", "Average"]
    )
    namespace: str | None = optional("Namespace of the query.")
    custom_headers: str | None = optional("Headers of the query.")
    activation_target_value: float | None = optional(
        "Value that wakes an endpoint of zero pods; 0 by default."
    )
    use_cached_metrics: bool | None = optional(
        "Whether values are kept for a polling interval; true by default."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoScalingSpec(Part):
    """How many pods, by which signal. Periods in seconds."""

    min_replica_count: int | None = optional("Least pods; 1 by default.", minimum=0)
    max_replica_count: int | None = optional("Most pods; 5 by default.", minimum=0)
    polling_interval: int | None = optional("Seconds between reads of a trigger; 30 by default.", minimum=0)
    cooldown_period: int | None = optional(
        "Seconds from the last active trigger to zero pods; 300 by default.", minimum=0
    )
    initial_cooldown_period: int | None = optional(
        "Seconds before the first cooldown; 300 by default.", minimum=0
    )
    scale_down_stabilization_time: int | None = optional(
        "Seconds a lower need must last; 300 by default.", minimum=0
    )
    scale_up_stabilization_time: int | None = optional(
        "Seconds a higher need must last; 0 by default.", minimum=0
    )
    cloud_watch_trigger: CloudWatchTrigger | None = optional("One CloudWatch metric.")
    cloud_watch_trigger_list: tuple[CloudWatchTrigger, ...] | None = optional(
        "Several CloudWatch metrics; wins over the single one.", alpha=False, max_items=100
    )
    prometheus_trigger: PrometheusTrigger | None = optional("One query to AMP.")
    prometheus_trigger_list: tuple[PrometheusTrigger, ...] | None = optional(
        "Several queries to AMP; wins over the single one.", alpha=False, max_items=100
    )
