"""What it costs an engine to keep alive in L2 what its GPU and L1 hold, next to looking a prompt up."""

from __future__ import annotations

import json

from support import Setting, valkey


def measure(setting: Setting) -> dict[str, float]:
    """Print a table, and return the ratio of the scheduler's costs."""
    with valkey() as port:
        printed = setting.run("keeping.py", [str(port), str(setting.rounds)])
    costs: dict[str, float] = json.loads(printed.splitlines()[-1])
    for name, microseconds in costs.items():
        print(f"| {name.replace('_', ' ')} | {microseconds:,.2f} |")
    return {"upkeep_vs_lookup_in_scheduler": costs["note_a_prompt"] / costs["look_a_prompt_up"]}
