"""Where the weights come from, and what nodes keep of them."""

from dataclasses import dataclass, field

from hypertier.spec.about import about, optional
from hypertier.spec.endpoint.manifest import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Storage(Part):
    """The bucket of the weights."""

    bucket_name: str = field(metadata=about("The bucket."))
    region: str = field(metadata=about("The bucket's region."))


@dataclass(frozen=True, slots=True, kw_only=True)
class FsxStorage(Part):
    """The FSx for Lustre file system of the weights."""

    file_system_id: str = field(metadata=about("The file system, fs-…."))
    dns_name: str | None = optional("Its DNS name.")
    mount_name: str | None = optional("Its mount name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef(Part):
    """A key of a Kubernetes Secret in the endpoint's namespace."""

    name: str | None = optional("The Secret.")
    key: str = field(metadata=about("The key inside it."))
    optional: bool | None = optional("Whether the Secret may be missing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceModel(Part):
    """A repository on Hugging Face, pinned to a commit of 40 hex digits."""

    model_id: str = field(
        metadata=about(
            "The repository, org/model.",
            pattern="^[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+$",
            like="org/model, such as meta-llama/Llama-3.1-8B-Instruct",
        )
    )
    commit_sha: str | None = optional(
        "The commit, 40 hex digits; main where none is written.",
        manifest="commitSHA",
        pattern="^[0-9a-f]{40}$",
        like="a commit of 40 lower-case hex digits",
    )
    token_secret_ref: SecretRef | None = optional("The Secret with the token.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSourceConfig(Part):
    """Where the weights come from: `model_source_type` is s3, fsx, huggingface or kubernetesVolume."""

    model_source_type: str = field(
        metadata=about(
            "Where the weights come from.", choices=["fsx", "s3", "huggingface", "kubernetesVolume"]
        )
    )
    model_location: str | None = optional("Folder of the weights in the bucket or file system.")
    prefetch_enabled: bool | None = optional(
        "Whether the weights are copied to host memory first; off by default."
    )
    s3_storage: S3Storage | None = optional("The bucket, for s3.")
    fsx_storage: FsxStorage | None = optional("The file system, for fsx.")
    hugging_face_model: HuggingFaceModel | None = optional("The repository, for huggingface.", alpha=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsCache(Part):
    """Weights kept on the node's disks."""

    enabled: bool | None = optional("Whether weights are kept.")
    host_path: str | None = optional("Where; /opt/dlami/nvme by default.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCache(Part):
    """Images kept on the node."""

    enabled: bool | None = optional("Whether images are kept.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCacheConfig(Part):
    """What nodes keep for the next start."""

    weights_cache: WeightsCache | None = optional("Weights.")
    image_cache: ImageCache | None = optional("Images.")
