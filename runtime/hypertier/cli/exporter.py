"""`hypertier exporter`: the engines' metrics into CloudWatch, where alarms can watch them."""

from __future__ import annotations

import logging
import re
import signal
import threading
from typing import TYPE_CHECKING

import click

from hypertier.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypertier.exporter.discovery import Discover
    from hypertier.router.http.tls import EngineTls

MAX_INTERVAL_SECONDS = 86_400
ENDPOINT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html (read 2026-12-01)
NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/#:-]{0,254}")


@click.command(
    "exporter",
    epilog="Example: hypertier exporter --endpoint contracts --region us-west-2 "
    "--discover dns://contracts-engine-headless.inference.svc:8000",
)
@click.option(
    "--endpoint", required=True, metavar="NAME", help="The endpoint's name, a dimension of every series."
)
@click.option(
    "--discover",
    metavar="dns://HOST:PORT",
    help="Every address of HOST is an engine on PORT (headless Service).",
)
@click.option(
    "--replica", "replicas", multiple=True, metavar="URL", help="http://HOST:PORT of an engine; repeatable."
)
@click.option(
    "--prefill-discover",
    metavar="dns://HOST:PORT",
    help="Engines that prefill for those others, which then have series apart.",
)
@click.option(
    "--prefill-replica",
    "prefill_replicas",
    multiple=True,
    metavar="URL",
    help="Such an engine, in place of --prefill-discover; repeatable.",
)
@click.option(
    "--router-discover",
    metavar="dns://HOST:PORT",
    help="Routers' metrics: whether requests wait, whether anybody asks, what was not captured.",
)
@click.option(
    "--router",
    "routers",
    multiple=True,
    metavar="URL",
    help="A router's metrics, in place of --router-discover; repeatable.",
)
@click.option("--replica-ca", metavar="FILE", help="Ask engines by TLS; one of these CAs signed for them.")
@click.option("--replica-cert", metavar="FILE", help="What engines are shown: the chain, in PEM.")
@click.option("--replica-key", metavar="FILE", help="And its key.")
@click.option("--replica-server-name", metavar="NAME", help="What stands in engines' certificates.")
@click.option("--region", required=True, envvar="AWS_REGION", show_envvar=True, help="CloudWatch's region.")
@click.option("--namespace", default="Hypertier", show_default=True, help="CloudWatch's namespace.")
@click.option("--interval", default=60.0, show_default=True, help="Seconds from one data point to the next.")
@click.option("--timeout", default=5.0, show_default=True, help="Seconds that one replica gets to answer.")
@click.option(
    "--l1/--no-l1",
    default=True,
    show_default=True,
    help="Whether the engines have an L1; without one, its metric is not missed.",
)
@click.option(
    "--per-replica", is_flag=True, help="Also publish WarmTokens: a metric for each replica, by its address."
)
@click.option(
    "--listen", default="0.0.0.0:9400", show_default=True, help="HOST:PORT of /health; port 0 is a free one."
)
def command(
    endpoint: str,
    discover: str | None,
    replicas: tuple[str, ...],
    prefill_discover: str | None,
    prefill_replicas: tuple[str, ...],
    router_discover: str | None,
    routers: tuple[str, ...],
    replica_ca: str | None,
    replica_cert: str | None,
    replica_key: str | None,
    replica_server_name: str | None,
    region: str,
    namespace: str,
    interval: float,
    timeout: float,
    l1: bool,
    per_replica: bool,
    listen: str,
) -> None:
    """Read every replica's /metrics each interval and publish the endpoint's series to CloudWatch.

    Ends with 0 on SIGTERM. Credentials come from the environment, as for every AWS client.
    """
    from hypertier.catalog.zones import REGION
    from hypertier.exporter.cloudwatch import CloudWatch
    from hypertier.exporter.exporter import Exporter
    from hypertier.exporter.metrics import NEEDS_L1
    from hypertier.exporter.probe import health_server

    if not ENDPOINT.fullmatch(endpoint):
        raise ConfigError("--endpoint", endpoint, "the endpoint's name: 1 to 253 letters, digits, . and -")
    if not REGION.fullmatch(region):
        raise ConfigError("--region", region, "a Region of AWS, such as us-west-2")
    if not NAMESPACE.fullmatch(namespace) or namespace.startswith("AWS/"):
        raise ConfigError(
            "--namespace", namespace, "1 to 255 letters, digits and .-_/#:, not AWS/, which is AWS's own"
        )
    if not 1 <= interval <= MAX_INTERVAL_SECONDS:
        raise ConfigError(
            "--interval",
            interval,
            f"1 to {MAX_INTERVAL_SECONDS} seconds; CloudWatch keeps one value a second at most",
        )
    if not 0 < timeout <= interval:
        raise ConfigError("--timeout", timeout, f"more than 0 and at most --interval {interval:g}")
    tls = engine_tls(replica_ca, replica_cert, replica_key, replica_server_name)
    scheme = "https" if tls else "http"
    find = found_by("--discover", discover, "--replica", replicas, scheme)
    prefill = None
    if prefill_discover is not None or prefill_replicas:
        prefill = found_by(
            "--prefill-discover", prefill_discover, "--prefill-replica", prefill_replicas, scheme
        )
    find_routers = None
    if router_discover is not None or routers:
        find_routers = found_by("--router-discover", router_discover, "--router", routers, "http")
    address = parse_listen(listen)

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    exporter = Exporter(
        find,
        CloudWatch(endpoint, namespace, region),
        prefill=prefill,
        routers=find_routers,
        interval_seconds=interval,
        timeout_seconds=timeout,
        ignore=frozenset() if l1 else NEEDS_L1,
        tls=tls,
        per_replica=per_replica,
    )
    with health_server(address, exporter.health) as port:
        logging.getLogger("hypertier.exporter").info(
            "publishing %s to CloudWatch %s in %s every %g s; /health on port %d",
            endpoint,
            namespace,
            region,
            interval,
            port,
        )
        exporter.run(stop)


def found_by(
    discover_option: str, target: str | None, replica_option: str, urls: Sequence[str], scheme: str
) -> Discover:
    """How engines are found: by a Service's name, or as they are listed.

    Raises:
        ConfigError: neither or both are given, or one that nothing could be reached under.
    """
    from hypertier.exporter.discovery import by_dns, fixed

    if bool(target) == bool(urls):
        got = f"{target} and {len(urls)} {replica_option}" if target else target
        expected = f"either {discover_option} dns://HOST:PORT or {replica_option} URL, not both"
        raise ConfigError(discover_option, got, expected)
    return by_dns(target, scheme, discover_option) if target else fixed(urls, replica_option)


def engine_tls(
    ca: str | None, cert: str | None, key: str | None, server_name: str | None
) -> EngineTls | None:
    """How engines are spoken to; None for plain HTTP.

    Raises:
        ConfigError: a file that can't be used, half a pair, or something beside no --replica-ca.
    """
    from hypertier.router.http.tls import EngineTls
    from hypertier.router.settings import check_engine_tls

    check_engine_tls(ca, cert, key, server_name)
    return None if ca is None else EngineTls(ca, cert=cert, key=key, server_name=server_name)


def parse_listen(text: str) -> tuple[str, int]:
    """Read HOST:PORT, an IPv6 host in brackets.

    Raises:
        ConfigError: `text` has another form.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError("--listen", text, "HOST:PORT, such as 0.0.0.0:9400; port 0 takes a free one")
    return host.strip("[]"), int(port)
