"""The router's hot modules in compiled form: which they are, and whether one that fits is there.

The sources are what counts: compiled modules are used where they were made of exactly these sources, for this
Python, and else the sources run as they are, about half as fast. `python -m hypertier.router.compile` makes
them; `HYPERTIER_COMPILED=0` leaves them aside.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

HOT = (
    "access.counts",
    "access.gate",
    "access.identity",
    "access.keys",
    "access.limits",
    "access.names",
    "access.paths",
    "access.pool",
    "access.pools",
    "access.queue",
    "access.salt",
    "access.tenants",
    "admission",
    "api.openai",
    "api.responses",
    "asking",
    "exchange",
    "front",
    "http.chunks",
    "http.connection",
    "http.event_stream",
    "http.gathering",
    "http.heads",
    "http.plain",
    "http.sides",
    "http.tunnel",
    "http.upstream",
    "http.wire",
    "kv.holders",
    "kv.kv_index",
    "kv.tokens",
    "migration.continuation",
    "migration.migratable",
    "migration.migration",
    "migration.token_ids",
    "own_answers",
    "peers.news",
    "peers.sharing",
    "picking",
    "prefill.prefill",
    "proxy",
    "replicas.cache_sizes",
    "replicas.models",
    "replicas.outliers",
    "replicas.replicas",
    "routes.shadow",
    "strategies.by_load",
    "strategies.kvaware",
    "strategies.loads",
    "strategies.prefill_times",
    "strategies.prefixaware",
    "strategies.prefixes",
    "strategies.ring",
    "strategies.roundrobin",
    "strategies.scoring",
    "strategies.session",
    "strategies.strategy",
    "strategies.switching",
    "telemetry.counts",
    "telemetry.decisions",
)
"""What a request passes, and what shares classes with that: below `hypertier.router`."""
SWITCH = "HYPERTIER_COMPILED"
ROUTER = Path(__file__).parent
FOLDER = ROUTER / "_compiled"
STAMP = "stamp"


def stamp() -> str:
    """Names the sources and the Python that compiled modules are made of and for."""
    digest = sha256(str(sysconfig.get_config_var("EXT_SUFFIX")).encode())
    for source in sorted(ROUTER.rglob("*.py")):
        digest.update(source.relative_to(ROUTER).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


def fits() -> bool:
    """Compiled modules are there, and made of these sources."""
    try:
        return (FOLDER / STAMP).read_bytes() == stamp().encode("ascii")
    except OSError:
        return False


def about() -> str:
    """Which of the two runs, and why it is the sources where it is they."""
    if IN_USE:
        return "compiled"
    if os.environ.get(SWITCH, "1") == "0":
        return f"sources: {SWITCH}=0 leaves compiled modules aside"
    if (FOLDER / STAMP).is_file():
        why = "compiled modules are there, made of other sources or for another Python"
    else:
        why = "no compiled modules are there"
    return f"sources: {why}; python3 -m hypertier.router.compile makes them"


def path(own: Iterable[str], package: str = "") -> list[str]:
    """Where a package's modules are looked for: among the compiled ones first, where those are in use."""
    return [str(FOLDER / package), *own] if IN_USE else list(own)


IN_USE = os.environ.get(SWITCH, "1") != "0" and fits()
