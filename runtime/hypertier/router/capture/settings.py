"""What is captured, and how much of it: values alone."""

from __future__ import annotations

from dataclasses import dataclass

from hypertier.errors import ConfigError

INPUT, OUTPUT = "Input", "Output"
MODES = (INPUT, OUTPUT)
MIB = 1024 * 1024
MOST_PAYLOAD_KB = 10_240


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """Names and bounds are those of the `dataCapture` of AWS's manifest, but for `spool` and what it takes.

    A payload of more than `max_payload_kb` is captured so far; 0 is all of it. `redacts` leaves out what
    people and models said.
    """

    spool: str
    sampling_percentage: int = 100
    modes: tuple[str, ...] = MODES
    max_payload_kb: int = 0
    batch_size: int = 10
    flush_seconds: int = 60
    spool_bytes: int = 256 * MIB
    redacts: bool = False

    def __post_init__(self) -> None:
        if not set(self.modes) <= set(MODES) or not self.modes:
            raise ConfigError("--capture-mode", list(self.modes), " and ".join(MODES) + ", or one of them")
        for flag, got, least, most in (
            ("--capture-sampling-percentage", self.sampling_percentage, 0, 100),
            ("--capture-max-payload-kb", self.max_payload_kb, 0, MOST_PAYLOAD_KB),
            ("--capture-batch-size", self.batch_size, 1, 1000),
            ("--capture-flush-seconds", self.flush_seconds, 10, 300),
        ):
            if not least <= got <= most:
                raise ConfigError(flag, got, f"{least} to {most}")
        if self.spool_bytes < MIB:
            raise ConfigError("--capture-spool-bytes", self.spool_bytes, f"{MIB} or more")

    @property
    def max_payload_bytes(self) -> int:
        """What is captured of one payload at most."""
        return (self.max_payload_kb or MOST_PAYLOAD_KB) * 1024
