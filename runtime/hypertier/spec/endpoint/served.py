"""What every endpoint has, wherever its model comes from: replicas, cache tiers, routing, scaling."""

from dataclasses import dataclass

from hypertier.spec.about import optional
from hypertier.spec.endpoint.capture import DataCapture
from hypertier.spec.endpoint.kv_cache import KvCacheSpec
from hypertier.spec.endpoint.manifest import Part, Raw
from hypertier.spec.endpoint.metrics import Metrics
from hypertier.spec.endpoint.scaling import AutoScalingSpec
from hypertier.spec.endpoint.traffic import (
    DnsConfig,
    InferenceGateway,
    IntelligentRoutingSpec,
    LoadBalancer,
    TlsConfig,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSpec(Part):
    """Fields that `spec` of an InferenceEndpointConfig and of a JumpStartModel share."""

    replicas: int | None = optional("Engine pods; 1 by default.")
    kv_cache_spec: KvCacheSpec | None = optional("Tiers of KV cache beside the GPU's own.", alpha=False)
    intelligent_routing_spec: IntelligentRoutingSpec | None = optional(
        "The router in front; cannot be added later.", alpha=False
    )
    auto_scaling_spec: AutoScalingSpec | None = optional("How the engine pods scale.")
    metrics: Metrics | None = optional("Scraping of metrics.")
    load_balancer: LoadBalancer | None = optional("The load balancer in front.")
    tls_config: TlsConfig | None = optional("Certificates.")
    dns_config: DnsConfig | None = optional(
        "The Route 53 zone; needs a certificate of one's own.", alpha=False
    )
    data_capture: Raw | None = optional(
        "What is kept of requests and responses.", alpha=False, shape=DataCapture
    )
    inference_gateway: InferenceGateway | None = optional(
        "The inference gateway, instead of intelligent routing.", since="3.6", alpha=False
    )
