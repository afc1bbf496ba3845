"""The engine's container."""

from dataclasses import dataclass, field

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint.manifest import Part, Raw

GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable(Part):
    """One variable of the engine: a value, or where it comes from."""

    name: str = field(metadata=about("Name of the variable."))
    value: str | None = optional("Its value, as text.")
    value_from: Raw | None = optional("Where it comes from: a Secret, a ConfigMap, a field.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInvocationPort(Part):
    """The port that the engine listens on."""

    container_port: int = field(
        metadata=about("Port that the engine listens on; 8000 for vLLM.", minimum=1, maximum=65535)
    )
    name: str | None = optional("http, the default, or grpc.", choices=["http", "grpc"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVolumeMount(Part):
    """Where the weights appear inside the container; /opt/ml/model by default."""

    name: str = field(metadata=about("Name of the volume."))
    mount_path: str | None = optional("Where it is mounted; /opt/ml/model by default.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources(Part):
    """What the engine's container asks for, as Kubernetes quantities."""

    requests: Raw | None = optional("What the scheduler sets aside.")
    limits: Raw | None = optional("What the container may take; GPUs stand here.")
    claims: tuple[Raw, ...] | None = optional("Claims on dynamic resources.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits(Part):
    """How much the pod's proxy lets in before it answers `overflow_status_code`."""

    max_concurrent_requests: int | None = optional("Requests at once.", minimum=1)
    max_queue_size: int | None = optional("Requests that wait.", minimum=0)
    overflow_status_code: int | None = optional(
        "What the rest is told; 429 by default.", minimum=400, maximum=599
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes(Part):
    """Kubernetes probes of the engine's container."""

    liveness_probe: Raw | None = optional("Restarts the container when it fails.")
    readiness_probe: Raw | None = optional("Takes the pod out of the load balancer when it fails.")
    startup_probe: Raw | None = optional("Holds the other probes back until it succeeds.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(Part):
    """The engine's container."""

    image: str = field(metadata=about("The engine's image."))
    model_invocation_port: ModelInvocationPort = field(metadata=about("The port that the engine listens on."))
    model_volume_mount: ModelVolumeMount = field(metadata=about("Where the weights appear."))
    resources: Resources = field(metadata=about("What the container asks for."))
    args: tuple[str, ...] | None = optional("Arguments of the container.", alpha=False)
    command: tuple[str, ...] | None = optional("Entry point of the container.", alpha=False)
    working_dir: str | None = optional("Working directory of the container.", alpha=False)
    environment_variables: tuple[EnvironmentVariable, ...] | None = optional("Environment of the container.")
    probes: Probes | None = optional("Probes of the container.", alpha=False)
    request_limits: RequestLimits | None = optional("How much is let in at once.", alpha=False)

    def environment_value(self, name: str) -> str | None:
        """The plain value of an environment variable, or None."""
        return next((entry.value for entry in self.environment_variables or () if entry.name == name), None)
