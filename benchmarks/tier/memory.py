"""What the tier keeps in memory as L2 fills: it must not grow with what is stored."""

from __future__ import annotations

import json

from support import Setting, valkey


def measure(setting: Setting) -> dict[str, float]:
    """Print what the engine's and the mover's process hold after ever more chunks."""
    with valkey() as port:
        printed = setting.run("footprint.py", [f"redis://127.0.0.1:{port}"])
    rows = json.loads(printed.splitlines()[-1])
    print("| chunks stored or looked up | tier in the engine's process, MiB | mover process, MiB |")
    print("|---|---|---|")
    for row in rows:
        print(f"| {row['chunks']:,} | {row['engine_mib']:.1f} | {row['mover_mib']:.1f} |")
    middle, last = rows[-2], rows[-1]
    return {
        "memory_engine_mib": last["engine_mib"],
        "memory_mover_mib": last["mover_mib"],
        "memory_growth_ratio": (last["engine_mib"] + last["mover_mib"])
        / (middle["engine_mib"] + middle["mover_mib"]),
    }
