"""What of a manifest's `dataCapture` our routers do: its tier `modelPod`, in front of the engines."""

from __future__ import annotations

from dataclasses import dataclass

from hypertier.errors import ConfigError
from hypertier.spec import codec
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.endpoint.capture import CaptureBuffer, CapturePayload, DataCapture
from hypertier.spec.instance_group import KMS_KEY

SERVED = frozenset(
    {
        "spec.dataCapture.s3Uri",
        *(
            f"spec.dataCapture.modelPod.{field}"
            for field in (
                "enabled",
                "initialSamplingPercentage",
                "captureOptions",
                "kmsKeyId",
                "bufferConfig.batchSize",
                "bufferConfig.flushIntervalSeconds",
                "payloadConfig.maxPayloadSizeKB",
            )
        ),
    }
)
"""The other tiers are SageMaker's and the load balancer's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterCapture:
    """What routers capture: files go below `bucket` and `prefix`, which ends with the endpoint's name."""

    bucket: str
    prefix: str
    kms_key_arn: str | None
    sampling_percentage: int
    modes: tuple[str, ...]
    max_payload_kb: int
    batch_size: int
    flush_seconds: int

    @property
    def destination(self) -> str:
        """Where the files go, as S3 names it."""
        return f"s3://{self.bucket}/{self.prefix}"


def router_capture(endpoint: InferenceEndpointConfig) -> RouterCapture | None:
    """What the endpoint's routers capture; None where the manifest does not turn it on.

    Raises:
        ConfigError: it says not where to, or names a key by which nobody can be let use it.
    """
    written = endpoint.spec.data_capture
    if not written:
        return None
    setting = f"{endpoint.name}: spec.dataCapture"
    capture = codec.decode_or_raise(DataCapture, written, setting)
    tier = capture.model_pod
    if tier is None or not tier.enabled:
        return None
    if capture.s3_uri is None:
        expected = "s3://BUCKET/PREFIX: with serving: selfhosted there is no bucket of its own"
        raise ConfigError(f"{setting}.s3Uri", None, expected)
    if tier.kms_key_id is not None and not KMS_KEY.fullmatch(tier.kms_key_id):
        expected = "the key's whole ARN, arn:aws:kms:REGION:ACCOUNT:key/ID, for a role to be let use it"
        raise ConfigError(f"{setting}.modelPod.kmsKeyId", tier.kms_key_id, expected)
    bucket, _, prefix = capture.s3_uri.removeprefix("s3://").partition("/")
    buffer, payload = tier.buffer_config or CaptureBuffer(), tier.payload_config or CapturePayload()
    percentage = tier.initial_sampling_percentage
    return RouterCapture(
        bucket=bucket,
        prefix="/".join(part for part in (prefix.strip("/"), endpoint.name) if part),
        kms_key_arn=tier.kms_key_id,
        sampling_percentage=100 if percentage is None else percentage,
        modes=tuple(dict.fromkeys(option.capture_mode for option in tier.capture_options or ())),
        max_payload_kb=payload.max_payload_size_kb or 0,
        batch_size=10 if buffer.batch_size is None else buffer.batch_size,
        flush_seconds=60 if buffer.flush_interval_seconds is None else buffer.flush_interval_seconds,
    )
