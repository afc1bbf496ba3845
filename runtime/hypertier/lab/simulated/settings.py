"""What the simulated engine reads of vLLM's arguments; the others are vLLM's alone and are passed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypertier.errors import ConfigError
from hypertier.lab.arguments import Option, parse_engine_options
from hypertier.lab.model import ModelShape
from hypertier.tier.preflight import OUR_TIERS, VLLM_TIER_KEYS, transfer_config
from hypertier.tier.settings import TierSettings, read_settings

KV_BYTES_PER_TOKEN = ModelShape().kv_bytes_per_token


@dataclass(frozen=True)
class EngineSettings:
    """One simulated engine. Without `l1_bytes` it has no L1, without `tier` no L2."""

    model: str
    port: int
    host: str = "127.0.0.1"
    served_model_name: str = ""
    block_size: int = 128
    max_model_len: int = 8192
    kv_cache_bytes: int = 128 * 2**20
    l1_bytes: int = 0
    tier: TierSettings | None = field(default=None)
    prefill_seconds_per_token: float = 0.0005
    decode_seconds_per_token: float = 0.005

    @property
    def name(self) -> str:
        """The name that clients use."""
        return self.served_model_name or self.model

    @property
    def block_bytes(self) -> int:
        """Keys and values of one block."""
        return self.block_size * KV_BYTES_PER_TOKEN


def read_engine_settings(arguments: Sequence[str], environ: Mapping[str, str]) -> EngineSettings:
    """Read `MODEL --port N ...`, what follows `serve`.

    Raises:
        ConfigError: no model, or a value that cannot work.
    """
    positional, options = parse_engine_options(arguments)
    if not positional:
        raise ConfigError("MODEL", None, "a name or path before the options")
    config = transfer_config(text(options, "--kv-transfer-config"))
    extra = config.get("kv_connector_extra_config", {})
    blocks_per_chunk = extra.get("blocks_per_chunk", 1)
    if blocks_per_chunk != 1:
        raise ConfigError(
            "blocks_per_chunk", blocks_per_chunk, "1: the simulated engine knows no larger ones"
        )
    tiers = [tier for tier in extra.get("secondary_tiers", ()) if tier.get("type") in OUR_TIERS]
    settings = EngineSettings(
        model=positional[0],
        port=whole_number(options, "--port", 8000, smallest=0),
        host=text(options, "--host") or "127.0.0.1",
        served_model_name=text(options, "--served-model-name") or "",
        block_size=whole_number(options, "--block-size", EngineSettings.block_size),
        max_model_len=whole_number(options, "--max-model-len", EngineSettings.max_model_len),
        kv_cache_bytes=whole_number(options, "--kv-cache-memory-bytes", EngineSettings.kv_cache_bytes),
        l1_bytes=int(extra.get("cpu_bytes_to_use", 0)),
        tier=read_settings({k: v for k, v in tiers[0].items() if k not in VLLM_TIER_KEYS}, environ)
        if tiers
        else None,
    )
    if settings.kv_cache_bytes < settings.max_model_len * KV_BYTES_PER_TOKEN:
        raise ConfigError(
            "--kv-cache-memory-bytes",
            settings.kv_cache_bytes,
            f"{settings.max_model_len * KV_BYTES_PER_TOKEN} or more, to hold --max-model-len tokens",
        )
    return settings


def text(options: Sequence[Option], name: str) -> str | None:
    """The last value of an option, None when it is not given."""
    values = [option.text for option in options if option.name == name]
    return values[-1] if values else None


def whole_number(options: Sequence[Option], name: str, default: int, smallest: int = 1) -> int:
    """The last value of an option as a number.

    Raises:
        ConfigError: it is none, or too small.
    """
    given = text(options, name)
    if given is None:
        return default
    if not (given.isascii() and given.isdecimal()) or int(given) < smallest:
        raise ConfigError(name, given, f"a whole number, {smallest} or more")
    return int(given)
