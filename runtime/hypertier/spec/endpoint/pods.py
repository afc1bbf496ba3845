"""What is added to the engine's pod, and the separate pods of disaggregated serving."""

from dataclasses import dataclass, field

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint.manifest import Part, Raw
from hypertier.spec.endpoint.scaling import AutoScalingSpec
from hypertier.spec.endpoint.worker import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes(Part):
    """What is added to the pod; subtrees are Kubernetes' own."""

    init_containers: tuple[Raw, ...] | None = optional("Containers that run before the engine.")
    scheduler_name: str | None = optional(
        "Scheduler of the pod.",
        max_length=253,
        pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        like="a DNS name in lower case",
    )
    service_account_name: str | None = optional(
        "Service account of the pod.",
        max_length=253,
        pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        like="a DNS name in lower case",
    )
    volumes: tuple[Raw, ...] | None = optional("Volumes of the pod.")
    pod_template_annotations: Raw | None = optional("Annotations of the pod.", since="3.6")
    tolerations: tuple[Raw, ...] | None = optional("Tolerations of the pod.", since="3.7")


@dataclass(frozen=True, slots=True, kw_only=True)
class PdRole(Part):
    """One side of disaggregated serving: its pods."""

    replicas: int | None = optional("Pods; 1 by default.", minimum=1)
    args: tuple[str, ...] | None = optional("Arguments of the engine.")
    node_selector: Raw | None = optional("Labels of the nodes.")
    resources: Resources | None = optional("What each pod asks for.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PdAutoScaling(Part):
    """How the two sides scale."""

    prefill_auto_scaling: AutoScalingSpec | None = optional("Of the prefill pods.")
    decoding_auto_scaling: AutoScalingSpec | None = optional("Of the decode pods.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PdTopology(Part):
    """Where the two sides stand."""

    same_az: bool | None = optional("Whether both stand in one zone; true by default.", manifest="sameAZ")
    availability_zone: str | None = optional("The zone.")
    placement_group: str | None = optional("The placement group.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PdSpec(Part):
    """Disaggregated prefill and decode: separate pods for each."""

    prefill_spec: PdRole = field(metadata=about("The pods that read prompts."))
    decoding_spec: PdRole = field(metadata=about("The pods that write answers."))
    auto_scaling_spec: PdAutoScaling | None = optional("How the two sides scale.")
    routing_threshold: int | None = optional(
        "Prompts of as many tokens go through prefill pods; 4096 by default.", minimum=0
    )
    topology_spec: PdTopology | None = optional("Where the pods stand.")
