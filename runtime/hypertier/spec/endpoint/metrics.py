"""How the engine's metrics are read."""

from dataclasses import dataclass

from hypertier.spec.about import optional
from hypertier.spec.endpoint.manifest import Part, Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetrics(Part):
    """Where the engine serves its Prometheus metrics."""

    path: str | None = optional(
        "Path of the metrics; /metrics by default.",
        pattern="^/[a-zA-Z0-9\\-_.\\/]*$",
        like="a path such as /metrics",
    )
    port: int | None = optional(
        "Port of the metrics; 8080 by default, which vLLM does not listen on.", minimum=1024, maximum=65535
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics(Part):
    """Scraping of the engine's metrics; on by default, every 15 seconds, port 8080."""

    enabled: bool | None = optional("Whether metrics are collected; true by default.")
    metrics_scrape_interval_seconds: int | None = optional(
        "Seconds between two reads; 15 by default.", minimum=5, maximum=300
    )
    model_metrics: ModelMetrics | None = optional("Where the engine serves its metrics.")
    metrics_sidecar_resources: Raw | None = optional(
        "Requests and limits of the metrics sidecar.", since="3.4"
    )
    metrics_collector_resources: Raw | None = optional(
        "Requests and limits of the metrics collector.", since="3.4"
    )
