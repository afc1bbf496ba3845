"""What every kind of endpoint manifest is: a Kubernetes object whose parts lose nothing that was written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.about import about, optional

API_GROUP = "inference.sagemaker.aws.amazon.com"
API_VERSION = f"{API_GROUP}/v1"

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A mapping of a manifest; keys that its type does not have are kept in `unknown`."""

    unknown: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata(Part):
    """The Kubernetes object's name and place."""

    name: str = field(metadata=about("The object's name, unique in its namespace."))
    namespace: str | None = optional("The namespace; default where none is written.")
    labels: Raw | None = optional("Labels of the object.")
    annotations: Raw | None = optional("Annotations of the object.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointManifest(Part):
    """A Kubernetes object; the class is named as its kind, and adds `kind` and `spec`."""

    metadata: Metadata = field(metadata=about("Name and place of the object.", open_ended=True))
    api_version: str = field(default=API_VERSION, metadata=about("Version of the kind."))
    status: Raw | None = optional("What the operator reports; not written by hand.")

    @classmethod
    def from_manifest(cls, manifest: Any) -> Self:
        """Read a manifest of this kind.

        Raises:
            ConfigError: for another kind, or the first field of a wrong type, by its path.
        """
        kind = manifest.get("kind") if isinstance(manifest, Mapping) else None
        if kind != cls.__name__:
            raise ConfigError("kind", kind, f"{cls.__name__}, the kind of manifest that belongs here")
        return codec.decode_or_raise(cls, manifest)

    def to_manifest(self) -> dict[str, Any]:
        """The manifest that this value was read from, or would be written as."""
        encoded: dict[str, Any] = codec.encode(self)
        return {"apiVersion": encoded.pop("apiVersion"), "kind": encoded.pop("kind")} | encoded

    @property
    def name(self) -> str:
        """The endpoint's Kubernetes name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The endpoint's Kubernetes namespace."""
        return self.metadata.namespace or "default"
