"""TLS in front of a Valkey, for `step_time.py`: python tls_relay.py PORT DIRECTORY. Prints its own port."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fakes_tier import TlsRelay


def main() -> None:
    """Relay until killed."""
    print(TlsRelay(int(sys.argv[1]), Path(sys.argv[2])).port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
