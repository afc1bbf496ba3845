"""`hypertier router`: the router in front of an endpoint's replicas."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from hypertier import held_signals
from hypertier.cli.groups import Group

if TYPE_CHECKING:
    from hypertier.router.app import Router
    from hypertier.router.workers.supervisor import Supervisor

MIB = 1024 * 1024


def _say_version(ctx: click.Context, param: click.Parameter, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    from hypertier.router import compiled

    click.echo(f"hypertier router, version {version('hypertier')}, {compiled.about()}")
    ctx.exit()


@click.group(
    "router",
    cls=Group,
    invoke_without_command=True,
    epilog="Example: hypertier router --listen 0.0.0.0:8000 --replica http://10.0.0.5:8000 "
    "--replica http://10.0.0.6:8000",
)
@click.option(
    "--listen",
    default="127.0.0.1:8000",
    show_default=True,
    help="HOST:PORT for clients; port 0 is a free one.",
)
@click.option("--metrics-port", type=int, help="Serve /metrics on this port instead of the clients' one.")
@click.option(
    "--strategy",
    default="prefixaware",
    show_default=True,
    help="How a replica is chosen: prefixaware, kvaware, session or roundrobin, as in routingStrategy.",
)
@click.option(
    "--replica", "replicas", multiple=True, metavar="URL", help="http://HOST:PORT of an engine; repeatable."
)
@click.option(
    "--discover",
    metavar="k8s://NAMESPACE/SERVICE:PORT",
    help="Every ready pod of the Service is an engine; or dns://HOST:PORT, every address of HOST is.",
)
@click.option(
    "--peers",
    metavar="k8s://NAMESPACE/SERVICE:PORT",
    help="Every ready pod of the Service is a router of this endpoint, or dns://HOST:PORT; they share "
    "what they know.",
)
@click.option(
    "--peer", multiple=True, metavar="HOST:PORT", help="Such a router, in place of --peers; repeatable."
)
@click.option("--peer-listen", metavar="HOST:PORT", help="Where those routers connect to this one.")
@click.option(
    "--kv-events-port",
    default=5557,
    show_default=True,
    help="Where engines publish KV events, and on the port after it replays; for --strategy kvaware.",
)
@click.option(
    "--kv-events",
    multiple=True,
    metavar="HOST:PORT",
    help="An engine's KV events, in place of --kv-events-port; once for each --replica, in the same order.",
)
@click.option(
    "--session-key",
    default="x-session-id",
    show_default=True,
    help="Request header, body field, or jwt:CLAIM, that names a session; for --strategy session.",
)
@click.option(
    "--access",
    metavar="FILE",
    help="YAML with the section access: of a deployment file: JWTs, tenants, their limits, and the queue.",
)
@click.option(
    "--api-keys",
    metavar="FILE",
    help="Hashed API keys, as `hypertier router key new` prints them; all but /health then needs one.",
)
@click.option(
    "--salt-key",
    metavar="FILE",
    help="What tenants' cache_salt is made with, as `hypertier router key salt` prints it.",
)
@click.option("--tls-cert", metavar="FILE", help="Serve clients by TLS: the chain, in PEM.")
@click.option("--tls-key", metavar="FILE", help="The key of --tls-cert, in PEM.")
@click.option(
    "--replica-ca",
    metavar="FILE",
    help="Speak TLS to engines, whose certificates one of these CAs has signed; PEM.",
)
@click.option("--replica-cert", metavar="FILE", help="The certificate that engines are shown, in PEM.")
@click.option("--replica-key", metavar="FILE", help="The key of --replica-cert, in PEM.")
@click.option(
    "--replica-server-name",
    metavar="NAME",
    help="What stands in engines' certificates, if not their address.",
)
@click.option(
    "--workers",
    type=int,
    help="Serve by that many processes on one port, about one for each core, kept going by this one.",
)
@click.option(
    "--busy-polling",
    is_flag=True,
    help="Never sleep while clients are connected: some 50 microseconds less a request, a core a process.",
)
@click.option(
    "--otlp-endpoint",
    metavar="URL",
    help="http://HOST:4318 of an OpenTelemetry collector: spans are sent there by OTLP.",
)
@click.option(
    "--trace-sample-ratio",
    type=float,
    help="Share of requests without a traceparent that are traced, 0.01 unless said; others are as their "
    "client sampled them.",
)
@click.option(
    "--prefill-replica",
    "prefill_replicas",
    multiple=True,
    metavar="URL",
    help="An engine that prefills long prompts, whose KV cache a --replica reads; repeatable.",
)
@click.option(
    "--prefill-discover",
    metavar="k8s://NAMESPACE/SERVICE:PORT",
    help="Where such engines are listed, in place of --prefill-replica; or dns://HOST:PORT.",
)
@click.option(
    "--prefill-threshold",
    type=int,
    help="Prompts of more tokens, by their length, are prefilled there, 4096 unless said; routingThreshold "
    "of pdSpec.",
)
@click.option(
    "--model-alias",
    multiple=True,
    metavar="NAME=MODEL",
    help="Another name by which clients may ask for MODEL; repeatable.",
)
@click.option(
    "--routes",
    type=click.Path(),
    help="File with strategies, splits and shadows by model; what changes there applies without a restart.",
)
@click.option(
    "--explain", is_flag=True, help="Add x-hypertier-replica, -reason and -matched-bytes to answers."
)
@click.option(
    "--explain-on-request",
    is_flag=True,
    help="Add them to the answers of requests with x-hypertier-explain, and keep their candidates.",
)
@click.option(
    "--guardrail-url",
    metavar="URL",
    help="http://HOST:PORT/PATH of a service that is asked about each request before an engine is.",
)
@click.option(
    "--guardrail-on-failure",
    metavar="open|closed",
    help="Whether requests pass or are refused while that service tells nothing; there is no default.",
)
@click.option(
    "--guardrail-timeout-seconds", default=1.0, show_default=True, help="How long it may take to answer."
)
@click.option(
    "--capture-spool",
    metavar="DIR",
    help="Capture requests and answers into files of this folder, as SageMaker does; off without it.",
)
@click.option(
    "--capture-sampling-percentage", default=100, show_default=True, help="Share of requests captured."
)
@click.option(
    "--capture-mode",
    "capture_modes",
    multiple=True,
    metavar="Input|Output",
    help="What is captured: requests or answers; repeatable, both without it.",
)
@click.option(
    "--capture-max-payload-kb",
    default=0,
    show_default=True,
    help="KB of a request or answer that are captured; 0 is up to 10240.",
)
@click.option("--capture-batch-size", default=10, show_default=True, help="Captured requests in a file.")
@click.option(
    "--capture-flush-seconds",
    default=60,
    show_default=True,
    help="How long a captured request may wait for others of its file.",
)
@click.option(
    "--capture-spool-bytes",
    default=256 * MIB,
    show_default=True,
    help="What may wait in the folder; nothing more is captured while it is full.",
)
@click.option(
    "--capture-redact",
    is_flag=True,
    help="Capture lengths in place of what people and models said.",
)
@click.option(
    "--hold-seconds",
    default=0.0,
    show_default=True,
    help="How long a request may wait for a replica where there is none; 0 is never.",
)
@click.option(
    "--hold-requests", default=1024, show_default=True, help="Requests that may wait so; others get 503."
)
@click.option(
    "--retries",
    default=2,
    show_default=True,
    help="Further replicas to try when one takes a request and fails before the first byte of its answer.",
)
@click.option(
    "--retry-budget",
    default=0.2,
    show_default=True,
    help="Retries for each request of the last ten seconds, beside 100 that are always free.",
)
@click.option(
    "--migration-limit",
    default=0,
    show_default=True,
    help="How often a stream that broke off is gone on with on another replica, token by token.",
)
@click.option(
    "--stall-timeout-seconds",
    default=300.0,
    show_default=True,
    help="Silence of an engine with streams waiting after which it is out of the choice; 0 is never.",
)
@click.option(
    "--stream-idle-timeout",
    default=60.0,
    show_default=True,
    help="Seconds without a byte inside a stream after which --migration-limit moves it on; 0 is never.",
)
@click.option(
    "--slow-start-seconds",
    default=10.0,
    show_default=True,
    help="Time over which an engine that is new, or back, comes into its share of the choices.",
)
@click.option(
    "--gather-seconds",
    default=0.002,
    show_default=True,
    help="Most time for which pieces of streams that come one upon the other are gathered; 0 is never.",
)
@click.option(
    "--max-body-bytes", default=64 * MIB, show_default=True, help="Largest request body; larger ones get 413."
)
@click.option(
    "--max-head-bytes",
    default=64 * 1024,
    show_default=True,
    help="Largest request head; larger ones get 431.",
)
@click.option(
    "--max-buffered-bytes",
    default=1024 * MIB,
    show_default=True,
    help="Request bodies held at once, all clients together; beyond it requests get 503.",
)
@click.option("--index-bytes", default=128 * MIB, show_default=True, help="Memory of the prefix index.")
@click.option(
    "--l1-tokens",
    default=0,
    show_default=True,
    help="Tokens that an engine's L1 keeps; what its GPU keeps, it tells itself.",
)
@click.option(
    "--drain-seconds", default=30.0, show_default=True, help="After SIGTERM, time for requests in flight."
)
@click.option(
    "--lameduck-seconds",
    default=0.0,
    show_default=True,
    help="After SIGTERM, time in which /health says 503 and clients may still connect.",
)
@click.option("--connect-timeout", default=3.0, show_default=True, help="Seconds to connect to an engine.")
@click.option(
    "--response-timeout",
    default=1800.0,
    show_default=True,
    help="Seconds an engine may be silent in a request.",
)
@click.option(
    "--read-timeout", default=30.0, show_default=True, help="Seconds a client may take over a request's head."
)
@click.option(
    "--idle-timeout", default=75.0, show_default=True, help="Seconds a client's connection may be idle."
)
@click.option(
    "--health-interval", default=1.0, show_default=True, help="Seconds between health checks of an engine."
)
@click.option("--health-timeout", default=5.0, show_default=True, help="Seconds a health check may take.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Print the version, and whether the hot modules run compiled.",
)
@click.pass_context
def command(
    ctx: click.Context,
    listen: str,
    metrics_port: int | None,
    strategy: str,
    replicas: tuple[str, ...],
    discover: str | None,
    peers: str | None,
    peer: tuple[str, ...],
    peer_listen: str | None,
    kv_events_port: int,
    kv_events: tuple[str, ...],
    session_key: str,
    access: str | None,
    api_keys: str | None,
    salt_key: str | None,
    otlp_endpoint: str | None,
    trace_sample_ratio: float | None,
    prefill_replicas: tuple[str, ...],
    prefill_discover: str | None,
    prefill_threshold: int | None,
    model_alias: tuple[str, ...],
    routes: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    replica_ca: str | None,
    replica_cert: str | None,
    replica_key: str | None,
    replica_server_name: str | None,
    workers: int | None,
    busy_polling: bool,
    explain: bool,
    explain_on_request: bool,
    guardrail_url: str | None,
    guardrail_on_failure: str | None,
    guardrail_timeout_seconds: float,
    capture_spool: str | None,
    capture_sampling_percentage: int,
    capture_modes: tuple[str, ...],
    capture_max_payload_kb: int,
    capture_batch_size: int,
    capture_flush_seconds: int,
    capture_spool_bytes: int,
    capture_redact: bool,
    hold_seconds: float,
    hold_requests: int,
    retries: int,
    retry_budget: float,
    migration_limit: int,
    stall_timeout_seconds: float,
    stream_idle_timeout: float,
    slow_start_seconds: float,
    gather_seconds: float,
    max_body_bytes: int,
    max_head_bytes: int,
    max_buffered_bytes: int,
    index_bytes: int,
    l1_tokens: int,
    drain_seconds: float,
    lameduck_seconds: float,
    connect_timeout: float,
    response_timeout: float,
    read_timeout: float,
    idle_timeout: float,
    health_interval: float,
    health_timeout: float,
) -> None:
    """Serve OpenAI's API in front of engines, each request sent where its prefix is cached.

    Drains on SIGTERM: /health says 503, no new connections, requests in flight finish, exit 0. With
    --workers, SIGHUP replaces them one by one, and no client notices.
    """
    if ctx.invoked_subcommand is not None:
        held_signals.release()
        return
    from hypertier.router.settings import RouterSettings

    settings = RouterSettings(
        listen=listen,
        metrics_port=metrics_port,
        strategy=strategy,
        replicas=replicas,
        discover=discover,
        peers=peers,
        peer=peer,
        peer_listen=peer_listen,
        kv_events_port=kv_events_port,
        kv_events=kv_events,
        session_key=session_key,
        access=access,
        api_keys=api_keys,
        salt_key=salt_key,
        otlp_endpoint=otlp_endpoint,
        trace_sample_ratio=trace_sample_ratio,
        prefill_replicas=prefill_replicas,
        prefill_discover=prefill_discover,
        prefill_threshold=prefill_threshold,
        model_alias=model_alias,
        routes=routes,
        tls_cert=tls_cert,
        tls_key=tls_key,
        replica_ca=replica_ca,
        replica_cert=replica_cert,
        replica_key=replica_key,
        replica_server_name=replica_server_name,
        workers=workers,
        busy_polling=busy_polling,
        explain=explain,
        explain_on_request=explain_on_request,
        guardrail_url=guardrail_url,
        guardrail_on_failure=guardrail_on_failure,
        guardrail_timeout_seconds=guardrail_timeout_seconds,
        capture_spool=capture_spool,
        capture_sampling_percentage=capture_sampling_percentage,
        capture_modes=capture_modes,
        capture_max_payload_kb=capture_max_payload_kb,
        capture_batch_size=capture_batch_size,
        capture_flush_seconds=capture_flush_seconds,
        capture_spool_bytes=capture_spool_bytes,
        capture_redact=capture_redact,
        hold_seconds=hold_seconds,
        hold_requests=hold_requests,
        retries=retries,
        retry_budget=retry_budget,
        migration_limit=migration_limit,
        stall_timeout_seconds=stall_timeout_seconds,
        stream_idle_timeout_seconds=stream_idle_timeout,
        slow_start_seconds=slow_start_seconds,
        gather_seconds=gather_seconds,
        max_body_bytes=max_body_bytes,
        max_head_bytes=max_head_bytes,
        max_buffered_bytes=max_buffered_bytes,
        index_bytes=index_bytes,
        l1_tokens=l1_tokens,
        drain_seconds=drain_seconds,
        lameduck_seconds=lameduck_seconds,
        connect_timeout_seconds=connect_timeout,
        response_timeout_seconds=response_timeout,
        read_timeout_seconds=read_timeout,
        idle_timeout_seconds=idle_timeout,
        health_interval_seconds=health_interval,
        health_timeout_seconds=health_timeout,
    )
    try:
        from hypertier.router.process.running import run
        from hypertier.router.workers.supervisor import run as run_workers
    except ModuleNotFoundError as error:
        from hypertier.errors import MissingPackageError

        raise MissingPackageError("hypertier router", str(error.name), "router") from error
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    if settings.workers is None:
        run(settings, started=lambda router: _say_plan(router, len(router.replicas.healthy)))
    else:
        run_workers(settings, started=lambda supervisor: _say_plan(supervisor, supervisor.num_healthy))


def _say_plan(router: Router | Supervisor, num_healthy: int) -> None:
    settings = router.settings
    scheme = "http" if settings.tls_cert is None else "https"
    where = f"{scheme}://{settings.address.host}:{router.port}"
    metrics = "" if settings.metrics_port is None else f"; metrics on {router.metrics_port}"
    click.echo(f"router on {where}: {settings.plan()}{metrics}; {num_healthy} healthy now")


@command.group("key", cls=Group, epilog="Example: hypertier router key new --tenant acme >> keys")
def key() -> None:
    """Make what --api-keys and --salt-key want."""


@key.command(epilog="Example: hypertier router key new --tenant acme --until 2027-12-31 >> keys")
@click.option("--tenant", required=True, help="Whose key it is.")
@click.option("--until", metavar="DATE", help="When it ends, such as 2027-12-31; without it, it does not.")
def new(tenant: str, until: str | None) -> None:
    """Print a new API key on stderr, once, and on stdout its line for the file of --api-keys."""
    from hypertier.router.access import keys

    made = keys.new_key()
    line = keys.line(made, tenant, until)
    click.echo(f"the key, which is not kept and can't be shown again: {made}", err=True)
    click.echo(line)


@key.command(epilog="Example: hypertier router key salt > salt-key")
def salt() -> None:
    """Print 32 random bytes in base64, for the file of --salt-key: the same for all routers."""
    import base64
    import secrets

    click.echo(base64.b64encode(secrets.token_bytes(32)).decode())
