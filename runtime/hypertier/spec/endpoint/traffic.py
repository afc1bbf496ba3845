"""How requests reach the engines: router or gateway, load balancer, certificate and domain."""

from dataclasses import dataclass, field

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint.manifest import Part
from hypertier.spec.endpoint.scaling import AutoScalingSpec

ROUTING_STRATEGIES = ("prefixaware", "kvaware", "roundrobin", "session")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelligentRoutingSpec(Part):
    """Whether a router stands in front, and how it chooses a replica."""

    enabled: bool | None = optional(
        "Whether a router stands in front; off by default and fixed once deployed."
    )
    routing_strategy: str | None = optional(
        "How a replica is chosen; prefixaware by default.", choices=ROUTING_STRATEGIES
    )
    auto_scaling_spec: AutoScalingSpec | None = optional("How the router itself scales.")

    @property
    def strategy(self) -> str | None:
        """The strategy in force: `prefixaware` unless another is named, None while routing is off."""
        return (self.routing_strategy or "prefixaware") if self.enabled else None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceGateway(Part):
    """Whether the endpoint joins the inference gateway, instead of intelligent routing."""

    enabled: bool | None = optional("Whether it joins.")
    name: str | None = optional(
        "The gateway that it joins; AWS's operator makes one for an endpoint without."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancer(Part):
    """The load balancer's health check (default `/ping`) and algorithm."""

    health_check_path: str | None = optional(
        "Path that the load balancer asks; /ping by default.",
        pattern="^/.*",
        like="a path that begins with /",
    )
    routing_algorithm: str | None = optional(
        "How the load balancer chooses; least_outstanding_requests by default.",
        choices=["least_outstanding_requests", "round_robin"],
    )
    idle_timeout_seconds: int | None = optional(
        "Silence in seconds after which a connection is cut; 60 by default.",
        since="3.3",
        minimum=1,
        maximum=4000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCertificateConfig(Part):
    """A certificate of one's own."""

    acm_arn: str = field(
        metadata=about(
            "ARN of the certificate in ACM.",
            pattern="^arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+$",
            like="arn:aws:acm:REGION:ACCOUNT:certificate/ID",
        )
    )
    domain_name: str = field(
        metadata=about(
            "A domain of the certificate, in lower case and no wildcard.",
            max_length=253,
            pattern="^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
            like="a domain in lower case, without a wildcard",
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig(Part):
    """Where the operator's certificate is written, or which one is used instead."""

    tls_certificate_output_s3_uri: str | None = optional(
        "Where the operator writes its certificate.",
        manifest="tlsCertificateOutputS3Uri",
        pattern="^s3://([^/]+)/?(.*)$",
        like="s3://BUCKET/PREFIX",
    )
    custom_certificate_config: CustomCertificateConfig | None = optional(
        "A certificate of one's own, instead.", alpha=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsConfig(Part):
    """The Route 53 zone for the endpoint's domain."""

    hosted_zone_id: str = field(
        metadata=about(
            "ID of the hosted zone.", pattern="^Z[A-Z0-9]+$", like="a zone ID such as Z0123456789ABC"
        )
    )
