"""What is checked before an engine loads its model:

settings, memory, and what a killed engine left behind.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.tier.address import URL_VARIABLE, parse_l2_url
from hypertier.tier.cipher import read_cipher
from hypertier.tier.credentials import IAM_VARIABLE, PASSWORD_VARIABLE, SECRET_VARIABLE, credential_source
from hypertier.tier.encryption_key import VARIABLES as KEY_VARIABLES
from hypertier.tier.settings import TierSettings, read_settings

REGION_PATTERN = "vllm_offload_*.mmap"
OUR_TIERS = ("HypertierTier", "hypertier")
CONNECTOR = "hypertier.tier.connector"
OFFLOADING, NIXL, SEVERAL = "OffloadingConnector", "NixlConnector", "MultiConnector"
VLLM_TIER_KEYS = ("type", "module_path", "locality", "backpressure")


@dataclass(frozen=True)
class Host:
    """Where the machine tells about itself."""

    shm: Path = Path("/dev/shm")
    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")


def check_engine(arguments: Sequence[str], environ: Mapping[str, str], host: Host) -> str:
    """Check an engine's arguments against the machine; remove memory regions that nobody uses any more.

    Returns:
        The plan, in one line.

    Raises:
        ConfigError: a setting that cannot work here.
        MissingPackageError: L2's secret needs boto3.
    """
    model = option(arguments, "--model") or "vLLM's default model"
    config = transfer_config(option(arguments, "--kv-transfer-config"))
    num_nodes = option(arguments, "--nnodes")
    if config and num_nodes not in (None, "1"):
        raise ConfigError(
            "--nnodes", num_nodes, "1: L1 lies in one node's memory, and engines on several corrupt it"
        )
    if connector_in(config, NIXL) and importlib.util.find_spec("nixl") is None:
        raise ConfigError(
            f"--kv-transfer-config {NIXL}", "no package nixl", "an image with NIXL, for pdSpec to move KV by"
        )
    num_swept, swept_bytes = sweep_regions(host)
    moves = " and moves KV by NIXL" if connector_in(config, NIXL) else ""
    offloading = connector_in(config, OFFLOADING)
    extra = offloading.get("kv_connector_extra_config", {})
    l1_bytes = int(extra.get("cpu_bytes_to_use", 0))
    if l1_bytes:
        check_memory(l1_bytes, host)
    if l1_bytes and config.get("kv_load_failure_policy") != "recompute":
        raise ConfigError(
            "kv_load_failure_policy",
            config.get("kv_load_failure_policy", "fail"),
            "recompute: with vLLM's default a request fails when a block cannot be loaded",
        )
    ours = [
        check_tier(tier, environ)
        for tier in extra.get("secondary_tiers", [])
        if tier.get("type") in OUR_TIERS
    ]
    module = offloading.get("kv_connector_module_path")
    if offloading and connector_in(config, NIXL) and module != CONNECTOR:
        raise ConfigError(
            "kv_connector_module_path",
            module,
            f"{CONNECTOR}: before 0.33 vLLM's own connector may store, under the name of other blocks, what "
            f"{NIXL} has written over them",
        )
    if any(tier.tenants for tier in ours) and module != CONNECTOR:
        raise ConfigError(
            "kv_connector_module_path",
            module,
            f"{CONNECTOR}: vLLM's own connector does not tell a tier whose a request is, and there are terms "
            "for tenants",
        )
    parts = [
        f"serves {model}{moves}",
        f"L1 {l1_bytes / 2**30:.1f} GiB" if l1_bytes else "no L1",
        *(describe_tier(tier, environ) for tier in ours),
        *(() if ours else ("no L2",)),
        f"hash seed {environ.get('PYTHONHASHSEED')}",
    ]
    if num_swept:
        parts.append(f"removed {num_swept} stale L1 regions ({swept_bytes / 2**30:.1f} GiB)")
    return ", ".join(parts)


def option(arguments: Sequence[str], name: str) -> str | None:
    """Return the last value of `--name VALUE` or `--name=VALUE`; vLLM reads `_` in a name as `-`."""
    value: str | None = None
    for i, argument in enumerate(arguments):
        given, equals, rest = argument.partition("=")
        if given.replace("_", "-") != name:
            continue
        if equals:
            value = rest
        elif i + 1 < len(arguments):
            value = arguments[i + 1]
    return value


def transfer_config(text: str | None) -> dict[str, Any]:
    """Read the JSON of `--kv-transfer-config`; empty when it is not given."""
    if text is None:
        return {}
    try:
        config = json.loads(text)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise ConfigError("--kv-transfer-config", text, "a JSON object")
    return config


def connector_in(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One connector's settings, where it stands alone or in a MultiConnector; empty where it does not."""
    extra = config.get("kv_connector_extra_config", {})
    among = extra.get("connectors", []) if config.get("kv_connector") == SEVERAL else [config]
    return next((dict(each) for each in among if each.get("kv_connector") == name), {})


def check_tier(tier: Mapping[str, Any], environ: Mapping[str, str]) -> TierSettings:
    """Check the settings of L2, and that the credentials can be had."""
    settings = read_settings({k: v for k, v in tier.items() if k not in VLLM_TIER_KEYS}, environ)
    credential_source(environ)
    read_cipher(environ)
    from_aws = next((name for name in (IAM_VARIABLE, SECRET_VARIABLE) if environ.get(name)), None)
    if from_aws and not environ.get(PASSWORD_VARIABLE) and importlib.util.find_spec("boto3") is None:
        raise MissingPackageError(from_aws, "boto3", "engine")
    if from_aws == IAM_VARIABLE and not settings.address.tls:
        raise ConfigError(
            URL_VARIABLE, settings.url, "rediss://HOST:PORT: ElastiCache takes tokens of IAM by TLS alone"
        )
    if settings.ca_file and not Path(settings.ca_file).is_file():
        raise ConfigError("secondary_tiers.ca_file", settings.ca_file, "a file of certificates in PEM form")
    return settings


def describe_tier(settings: TierSettings, environ: Mapping[str, str]) -> str:
    """Describe L2 in a few words, without a secret."""
    address = parse_l2_url(settings.url)
    if address.is_daemon:
        return f"L2 HyperPod's daemon at {address.host}:{address.port} (memory {settings.segment_path})"
    if environ.get(PASSWORD_VARIABLE):
        access = "a password"
    elif environ.get(IAM_VARIABLE):
        access = "a token of IAM"
    else:
        access = "a secret" if environ.get(SECRET_VARIABLE) else "no password"
    encrypted = "TLS" if address.tls else "no TLS"
    if any(environ.get(name) for name in KEY_VARIABLES):
        encrypted += ", AES-GCM"
    life = f"ttl {settings.ttl_seconds} s"
    if settings.tenants:
        life += f", terms for {', '.join(sorted(settings.tenants))}"
    return f"L2 {address.host}:{address.port} ({encrypted}, {access}, {life})"


def check_memory(l1_bytes: int, host: Host) -> None:
    """Refuse an L1 that does not fit into shared memory, or into what the container may use."""
    shm = os.statvfs(host.shm)
    free = shm.f_bavail * shm.f_frsize
    if l1_bytes > free:
        raise ConfigError(
            "cpu_bytes_to_use",
            l1_bytes,
            f"at most {free}, what is free in {host.shm}: L1 lies there; enlarge it or L1",
        )
    limit = memory_limit(host)
    if limit is not None and l1_bytes >= limit:
        raise ConfigError(
            "cpu_bytes_to_use",
            l1_bytes,
            f"less than {limit}, the container's memory limit, which L1 counts against",
        )
    available = memory_available(host)
    if available is not None and l1_bytes > available:
        raise ConfigError(
            "cpu_bytes_to_use", l1_bytes, f"at most {available}, the memory that this machine has left"
        )


def memory_limit(host: Host) -> int | None:
    """Return the container's memory limit in bytes, None where there is none (cgroup v2, then v1)."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = read_text(host.cgroup / name)
        if text is not None and text.strip().isdecimal():
            limit = int(text)
            return None if limit >= 2**60 else limit
    return None


def memory_available(host: Host) -> int | None:
    """Return what the kernel deems available, in bytes."""
    for line in (read_text(host.proc / "meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def sweep_regions(host: Host) -> tuple[int, int]:
    """Remove the L1 regions of engines that are gone; returns how many, and their bytes.

    vLLM's tiering leaves its region behind when it is killed, and a container's shared memory outlives the
    container. A region is in use while a process of this container has it mapped or open. Other users'
    regions are left alone.
    """
    found = sorted(host.shm.glob(REGION_PATTERN))  # first: what is made after this look is nobody's leftover
    used = set(paths_in_use(host.proc))
    num_swept = num_bytes = 0
    for path in found:
        try:
            status = path.stat()
            if str(path) in used or status.st_uid != os.geteuid():
                continue
            path.unlink()
        except FileNotFoundError:
            continue  # another engine that starts now swept it
        num_swept += 1
        num_bytes += status.st_blocks * 512
    return num_swept, num_bytes


def paths_in_use(proc: Path) -> Iterator[str]:
    """Yield the path of every L1 region that a process has mapped or open."""
    for process in proc.iterdir():
        if not process.name.isdecimal():
            continue
        for line in (read_text(process / "maps") or "").splitlines():
            if "vllm_offload_" in line:
                yield line[line.index("/") :]
        try:
            yield from (os.readlink(descriptor) for descriptor in (process / "fd").iterdir())
        except OSError:
            continue  # it ended meanwhile, or is another user's, whose regions are left alone


def read_text(path: Path) -> str | None:
    """Return a file's text, None if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return None
