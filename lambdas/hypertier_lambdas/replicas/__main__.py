"""What would the hook do? `python -m hypertier_lambdas.replicas < event.json` says so and writes nothing.

With --replicas N nothing is asked of AWS: the decision for a Deployment at N that no step was made on yet.
Without it, the Deployment is read from the cluster that the environment names, as the function would.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from .decision import ReplicaState, decide
from .eks import connect
from .errors import EventError, HookError
from .event import parse_event
from .handler import apply, countdown, told
from .settings import read_limits, read_settings


def main(arguments: list[str] | None = None) -> int:
    """Print one line of JSON; return 0, or 1 where the hook would raise."""
    parser = argparse.ArgumentParser(prog="python -m hypertier_lambdas.replicas", description=__doc__)
    parser.add_argument(
        "--replicas", type=int, help="decide for a Deployment at this many, without a cluster"
    )
    options = parser.parse_args(arguments)
    line: dict[str, Any] = {"hook": "replicas", "dry_run": True}
    try:
        event = _read_event()
        now = datetime.now(UTC)
        if options.replicas is None:
            settings = replace(read_settings(os.environ), dry_run=True)
            apply(event, settings, connect, now, countdown(None), line)
        else:
            parsed = parse_event(event)
            decision = decide(parsed, ReplicaState(options.replicas, read_limits(os.environ)), now)
            line |= told(parsed) | {
                "action": decision.action.value,
                "replicas_before": options.replicas,
                "replicas": decision.replicas,
                "reason": decision.reason,
            }
    except HookError as error:
        line["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(line))
    return 1 if "error" in line else 0


def _read_event() -> object:
    try:
        return json.load(sys.stdin)
    except ValueError as error:
        raise EventError(f"standard input is no JSON ({error}); expected an event") from None


if __name__ == "__main__":
    sys.exit(main())
