"""Whether the engine in this container is well, asked as routers ask it: for engines that ask who calls.

    python3 -m hypertier.tier.probe https://127.0.0.1:8000/health --folder FOLDER --server-name NAME

FOLDER has the engine's own `tls.crt`, `tls.key` and `ca.crt`, which it shows and goes by. Ends with 0 for an
answer of 200. Kubernetes' own probes show no certificate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from hypertier import http_client
from hypertier.errors import ConfigError, HttpError
from hypertier.router.http.tls import EngineTls, connection

TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask once."""
    parser = argparse.ArgumentParser(prog="python3 -m hypertier.tier.probe", description=__doc__)
    parser.add_argument("url", help="https://HOST:PORT/PATH")
    parser.add_argument("--folder", type=Path, required=True, help="where the certificates are")
    parser.add_argument("--server-name", required=True, help="what stands in the engine's certificate")
    options = parser.parse_args(arguments)
    url, folder = urlsplit(options.url), options.folder
    try:
        tls = EngineTls(
            str(folder / "ca.crt"),
            cert=str(folder / "tls.crt"),
            key=str(folder / "tls.key"),
            server_name=options.server_name,
        )
        reply = http_client.exchange(
            connection(url.hostname or "", url.port or 443, tls),
            url.path or "/",
            timeout_seconds=TIMEOUT_SECONDS,
            max_bytes=MAX_ANSWER_BYTES,
        )
    except (ConfigError, HttpError) as error:
        print(f"{options.url} {error}", file=sys.stderr)
        return 1
    if reply.status != 200:
        print(f"{options.url} answered {reply.status}", file=sys.stderr)
    return 0 if reply.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
