"""Limits of `hypertier lab bench`, whose baseline is what an earlier run printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypertier.errors import ConfigError, ManifestError
from hypertier.lab.bench import QUANTILES
from hypertier.lab.metrics import TIER_NAMES
from hypertier.limits import Limit, flat_numbers, read_limits
from hypertier.spec.source import read_text

FIGURES = (
    "requests",
    "failed",
    "seconds",
    "requests_per_second",
    *(f"{name}_p{ratio * 100:g}_seconds" for name in ("ttft", "e2e") for ratio in QUANTILES),
    "prompt_tokens",
    "cached_ratio",
    *(f"cached_tokens_{name}" for name in TIER_NAMES.values()),
)


def read_bench_limits(
    texts: Sequence[str], baseline: Path | None
) -> tuple[tuple[Limit, ...], Mapping[str, float]]:
    """Read the limits, and the figures of the earlier run that they are of.

    Raises:
        ConfigError: a limit that is none, or one of a baseline that was not given.
        ManifestError: the baseline cannot be read, or is not what `--format json` prints.
    """
    limits = read_limits(texts, FIGURES)
    if baseline is None:
        for limit in limits:
            if limit.of_baseline:
                raise ConfigError(
                    "--baseline",
                    None,
                    f"a file that --format json wrote, since --fail-if {limit.text} is of one",
                )
        return limits, {}
    try:
        numbers = flat_numbers(json.loads(read_text(str(baseline))))
    except json.JSONDecodeError as error:
        raise ManifestError(str(baseline), error.lineno, f"is no JSON: {error.msg}") from error
    if numbers is None or "failed" not in numbers:
        raise ManifestError(str(baseline), None, "is not what `hypertier lab bench --format json` prints")
    return limits, numbers
