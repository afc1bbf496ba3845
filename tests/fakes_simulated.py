"""A simulated engine of `hypertier lab` that takes no time, behind its own HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hypertier.lab.simulated.engine import SimulatedEngine
from hypertier.lab.simulated.metrics import EngineMetrics
from hypertier.lab.simulated.server import EngineServer
from hypertier.lab.simulated.settings import EngineSettings
from hypertier.tier.metrics import Counters


@contextmanager
def simulated_engine() -> Iterator[str]:
    """The URL of an engine that serves the model `m` without L2."""
    settings = EngineSettings(
        model="m",
        port=0,
        kv_cache_bytes=32 * 2**20,
        l1_bytes=32 * 2**20,
        prefill_seconds_per_token=0,
        decode_seconds_per_token=0,
    )
    engine = SimulatedEngine(settings, None)
    server = EngineServer(engine, EngineMetrics(engine, Counters()))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        engine.close()
