"""The routers that are measured: how each is started, and from where."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 1m; keepalive_requests 1000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream engines {{ {servers} keepalive 512; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096{tls}; tcp_nodelay on;
    location / {{
      proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Peer:
    """One router; `command(port, engine_urls, folder)` starts it. A slow one gets a `share` of requests.

    With `tls` it is spoken to by TLS.
    """

    name: str
    command: Callable[[int, Sequence[str], Path], Sequence[str]]
    share: float = 1.0
    tls: bool = False


def nginx(port: int, engines: Sequence[str], folder: Path) -> Sequence[str]:
    """One worker, round robin, keep-alive both ways, no buffering of answers."""
    return _nginx(port, engines, folder, "")


def nginx_tls(cert: str, key: str) -> Callable[[int, Sequence[str], Path], Sequence[str]]:
    """The same for clients by TLS."""
    return partial(_nginx, tls=f" ssl; ssl_certificate {cert}; ssl_certificate_key {key}")


def _nginx(port: int, engines: Sequence[str], folder: Path, tls: str) -> Sequence[str]:
    servers = " ".join(f"server {url.removeprefix('http://')};" for url in engines)
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, servers=servers, port=port, tls=tls))
    return ["nginx", "-p", str(folder), "-c", str(config)]


def hypertier(strategy: str, *more: str) -> Callable[[int, Sequence[str], Path], Sequence[str]]:
    """This router."""

    def command(port: int, engines: Sequence[str], folder: Path) -> Sequence[str]:
        replicas = [argument for url in engines for argument in ("--replica", url)]
        start = [sys.executable, "-c", "from hypertier.cli.main import main; main()", "router"]
        return [*start, "--listen", f"127.0.0.1:{port}", "--strategy", strategy, *more, *replicas]

    return command


def rust(executable: Path, *arguments: str) -> Callable[[int, Sequence[str], Path], Sequence[str]]:
    """A router of the SGLang family; its metrics on a port of its own, its logs quiet."""

    def command(port: int, engines: Sequence[str], folder: Path) -> Sequence[str]:
        where = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(port + 1000)]
        return [str(executable), *arguments, *where, "--log-level", "error", "--worker-urls", *engines]

    return command


def peers(folder: Path, *, install: bool = True) -> list[Peer]:
    """All that can be run here. `vllm-router` and `sglang-router` are installed below `folder`, once."""
    found = [Peer("hypertier", hypertier("prefixaware", "--explain"))]
    if shutil.which("nginx"):
        found.append(Peer("nginx", nginx))
    for package, arguments, share in (
        ("vllm-router", ("--policy", "cache_aware"), 0.1),
        ("sglang-router", ("launch", "--policy", "cache_aware"), 1.0),
    ):
        executable = folder / package / "bin" / package
        if install and not executable.exists():
            _install(package, folder / package)
        if executable.exists():
            found.append(Peer(package, rust(executable, *arguments), share))
    return found


def _install(package: str, environment: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    quiet = {**os.environ, "UV_NO_PROGRESS": "1"}
    subprocess.run([uv, "venv", "-q", "--clear", environment], check=True, env=quiet)
    subprocess.run(
        [uv, "pip", "install", "-q", "-p", environment / "bin" / "python", package], check=True, env=quiet
    )
