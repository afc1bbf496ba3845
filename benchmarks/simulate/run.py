"""How fast the simulation is: `make bench NAME=simulate`.

Requests of the `agent` workload through `prefixaware` on 8 replicas, per second of CPU, the best of three
passes; and the most memory that the process had. The last line is one JSON object.
"""

from __future__ import annotations

import json
import resource
import time

from hypertier.simulation.catalog import policy
from hypertier.simulation.cluster import ClusterSpec, simulate
from hypertier.simulation.trace import with_load
from hypertier.simulation.workloads import BUSY_LOAD, WORKLOADS

NUM_REQUESTS = 5000
NUM_PASSES = 3


def main() -> None:
    """Print the JSON."""
    spec = ClusterSpec(num_replicas=8)
    load = BUSY_LOAD["agent"] * spec.num_replicas
    trace = with_load(WORKLOADS["agent"](1, NUM_REQUESTS), load, spec.profile.prefill_seconds)
    seconds = []
    for _ in range(NUM_PASSES):
        began = time.process_time()
        simulate(trace, spec, policy("prefixaware"))
        seconds.append(time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps({"requests_per_second": round(NUM_REQUESTS / min(seconds)), "peak_rss_mib": round(peak)})
    )


if __name__ == "__main__":
    main()
