"""`python -m hypertier.lab.simulated serve MODEL [vLLM's arguments]`: a simulated engine until SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from hypertier.errors import HypertierError
from hypertier.lab.simulated.engine import SimulatedEngine
from hypertier.lab.simulated.l2 import build_l2
from hypertier.lab.simulated.metrics import EngineMetrics
from hypertier.lab.simulated.server import EngineServer
from hypertier.lab.simulated.settings import read_engine_settings
from hypertier.tier.backends.resp import RespBackend
from hypertier.tier.credentials import credential_source
from hypertier.tier.metrics import Counters

USAGE = "usage: python -m hypertier.lab.simulated serve MODEL [arguments of `vllm serve`]"


def main(arguments: Sequence[str]) -> int:
    """Serve, and return when SIGTERM or SIGINT has come."""
    if arguments[:1] != ["serve"]:
        print(USAGE, file=sys.stderr)
        return 2
    counters = Counters()
    try:
        settings = read_engine_settings(arguments[1:], os.environ)
        l2 = None
        if settings.tier is not None:
            address = settings.tier.address
            backend = RespBackend(address, credential_source(os.environ, address.host), settings.tier.ca_file)
            l2 = build_l2(settings, settings.tier, backend, counters)
    except HypertierError as error:
        print(f"hypertier: {error}", file=sys.stderr)
        return 1
    engine = SimulatedEngine(settings, l2)
    server = EngineServer(engine, EngineMetrics(engine, counters))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"hypertier: SIMULATED engine on port {server.server_port}: no model computes here", flush=True)
    server.serve_forever()
    server.server_close()
    engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
