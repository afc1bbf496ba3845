"""From an endpoint's cache settings to a running vLLM: the values of its flags, and `serve`, which checks and
starts it.

    python -m hypertier.tier.launch serve MODEL [vLLM's own arguments]

Imports neither vLLM nor torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hypertier.errors import ConfigError, HypertierError
from hypertier.tier.address import parse_l2_url
from hypertier.tier.certificates import hand_on
from hypertier.tier.gate import MODES, GateMode
from hypertier.tier.preflight import CONNECTOR, Host, check_engine
from hypertier.tier.settings import LARGEST, TierSettings, check_range
from hypertier.tier.tenants import Terms, read_tenants
from hypertier.tier.transfer import Transfer, nixl_config

USAGE = "usage: python -m hypertier.tier.launch serve MODEL [arguments of `vllm serve`]"
SERVER = "vllm.entrypoints.openai.api_server"


SMALLEST = {
    "l1_bytes": 1,
    "ttl_seconds": 1,
    "connections": 1,
    "lookup_deadline_ms": 1,
    "epoch": 0,
    "prior_l2_bytes_per_second": 0,
    "prior_prefill_tokens_per_second": 0,
}


# of the tier's settings, those that are written where they differ from its own
OPTIONAL = (
    "connections",
    "namespace",
    "epoch",
    "gate",
    "prior_l2_bytes_per_second",
    "prior_prefill_tokens_per_second",
)


@dataclass(frozen=True)
class CacheSettings:
    """What an endpoint asks of its cache. Without `l1_bytes` there is no L1, without `l2_url` no L2.

    `l1_bytes` is for all workers of an engine together. `blocks_per_chunk` blocks of vLLM make one chunk of
    L1 and L2; None leaves it to vLLM, one. Raise `epoch` when weights change under an unchanged name.
    `gate` and the priors are the tier's: when to ask L2, and what to believe before it is measured. `tenants`
    are terms by a tenant's name, `*` for all others. With `l2_events` the engine's KV events tell of L2, too.
    With `transfer` prompts are prefilled by other engines than those that decode.
    """

    l1_bytes: int | None = None
    l2_url: str | None = None
    ttl_seconds: int = TierSettings.ttl_seconds
    blocks_per_chunk: int | None = None
    connections: int = TierSettings.connections
    lookup_deadline_ms: int = TierSettings.lookup_deadline_ms
    namespace: str = ""
    epoch: int = 0
    gate: GateMode = TierSettings.gate
    prior_l2_bytes_per_second: int = 0
    prior_prefill_tokens_per_second: int = 0
    tenants: Mapping[str, Terms] = field(default_factory=dict)
    l2_events: bool = False
    transfer: Transfer | None = None


def kv_transfer_config(settings: CacheSettings) -> dict[str, Any]:
    """Return the value of vLLM's `--kv-transfer-config`; empty when no cache is asked for.

    The URL of L2 is checked but not repeated: the tier reads it from `HYPERTIER_L2_URL`.

    Raises:
        ConfigError: L2 without L1, a size or time below one, or a URL that cannot work.
    """
    offloading = _offloading(settings)
    if settings.transfer is None:
        return offloading
    nixl = nixl_config(settings.transfer)
    if not offloading:
        return nixl
    # of its connectors vLLM loads from the first that has anything: what was prefilled for this request
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"connectors": [nixl, offloading]},
    }


def _offloading(settings: CacheSettings) -> dict[str, Any]:
    if settings.l1_bytes is None and settings.l2_url is None:
        return {}
    if settings.l1_bytes is None:
        raise ConfigError(
            "l1_bytes", None, "a size in bytes beside l2_url: what L2 holds reaches the GPU through L1"
        )
    for name, smallest in SMALLEST.items():
        check_range(name, getattr(settings, name), smallest, LARGEST.get(name))
    if settings.blocks_per_chunk is not None and settings.blocks_per_chunk < 1:
        raise ConfigError(
            "blocks_per_chunk", settings.blocks_per_chunk, "1 or more, or nothing for vLLM's default"
        )
    extra: dict[str, Any] = {
        "spec_name": "PortableTieringSpec",
        "spec_module_path": "hypertier.tier.spec",
        "cpu_bytes_to_use": settings.l1_bytes,
        "self_describing_kv_events": True,
    }
    if settings.blocks_per_chunk is not None:
        extra["blocks_per_chunk"] = settings.blocks_per_chunk
    if settings.l2_url is not None:
        parse_l2_url(settings.l2_url, "l2_url")
        if settings.gate not in MODES:
            raise ConfigError("gate", settings.gate, f"one of {', '.join(MODES)}")
        extra["secondary_tiers"] = [secondary_tier(settings)]
    is_ours = settings.l2_url is not None or settings.transfer is not None
    connector = {"kv_connector_module_path": CONNECTOR} if is_ours else {}
    return {
        "kv_connector": "OffloadingConnector",
        **connector,
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": extra,
    }


def secondary_tier(settings: CacheSettings) -> dict[str, Any]:
    """Return the tier's entry in vLLM's `secondary_tiers`."""
    tier: dict[str, Any] = {
        "type": "HypertierTier",
        "module_path": "hypertier.tier.tier",
        "ttl_seconds": settings.ttl_seconds,
        "lookup_deadline_ms": settings.lookup_deadline_ms,
    }
    for name in OPTIONAL:
        if getattr(settings, name) != getattr(TierSettings, name):
            tier[name] = getattr(settings, name)
    if settings.tenants:
        written = {name: written_terms(terms) for name, terms in sorted(settings.tenants.items())}
        read_tenants(written, "tenants")
        tier["tenants"] = written
    if settings.l2_events:
        tier["enable_kv_events"] = True
    return tier


def written_terms(terms: Terms) -> dict[str, int]:
    """The terms as the tier reads them."""
    return {name: value for name, value in asdict(terms).items() if value is not None}


def kv_events_config(port: int = 5557, replay_port: int | None = None, topic: str = "") -> dict[str, Any]:
    """Return the value of vLLM's `--kv-events-config`: the engine binds `port` and publishes what its tiers
    hold.

    `*` makes it bind; an address would make it connect. A data-parallel rank adds its number to the port.
    """
    config: dict[str, Any] = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{port}",
        "topic": topic,
    }
    if replay_port is not None:
        config["replay_endpoint"] = f"tcp://*:{replay_port}"
    return config


def server_arguments(arguments: Sequence[str]) -> list[str]:
    """Turn the arguments of `vllm serve` into those of the server's module: MODEL becomes `--model`."""
    if arguments and not arguments[0].startswith("-"):
        return ["--model", *arguments]
    return list(arguments)


def server_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Fix the hash seed, so that every engine names a block alike whatever the hash algorithm."""
    return {"PYTHONHASHSEED": "0", **environ}


def main(arguments: Sequence[str] | None = None) -> int:
    """Check what can be checked before the model loads, print one line, and become vLLM's server."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] != "serve" or arguments[1:2] in ([], ["--help"], ["-h"]):
        print(f"{USAGE}\n\n{__doc__}", file=sys.stderr)
        return 0 if arguments[-1:] in (["--help"], ["-h"]) else 2
    environ = server_environment(os.environ)
    server, host = server_arguments(arguments[1:]), Host()
    try:
        plan = check_engine(server, environ, host)
        server = hand_on(server, host.shm)
    except HypertierError as error:
        print(f"hypertier: {error}", file=sys.stderr)
        return 1
    print(f"hypertier: {plan}", file=sys.stderr, flush=True)
    return os.execve(sys.executable, [sys.executable, "-m", SERVER, *server], environ)


if __name__ == "__main__":
    sys.exit(main())
