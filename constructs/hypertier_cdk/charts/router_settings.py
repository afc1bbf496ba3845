"""What the routers of an endpoint are told: manifest and deployment file as settings, and as flags."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hypertier.errors import ConfigError
from hypertier.planning.engine import plan_engine
from hypertier.router.settings import BY_PROMPT, STRATEGIES, RouterSettings
from hypertier.spec.arguments import option_name, option_value
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.roles import PREFILL, pd_spec_of, roles_of, sleeps, threshold_of
from hypertier_cdk.charts.access import ACCESS_FILE, KEYS_FILE, SALT_KEY_FILE, has_secret
from hypertier_cdk.charts.captures import capture_settings
from hypertier_cdk.charts.engine_tls import client_files
from hypertier_cdk.charts.ingress import balancer_idle_seconds
from hypertier_cdk.charts.inputs import refuse
from hypertier_cdk.charts.names import (
    KV_EVENTS_PORT,
    ROUTER_METRICS_PORT,
    ROUTER_PEER_PORT,
    ROUTER_PORT,
    Names,
)

ROUTES_FOLDER = "/etc/hypertier/routes"
TLS_FOLDER = "/etc/hypertier/tls"
SESSION_KEY = "x-session-id"  # where the manifest names no other in SESSION_KEY, as AWS's samples do
PLAIN_STRATEGY = "roundrobin"  # what stands for intelligent routing that is off
IDLE_MARGIN = 60  # seconds for which a router keeps a connection longer than the load balancer
LAMEDUCK_SECONDS = 15  # until a load balancer's health checks have noticed

# Flags that no key sets, and why; a test holds this to `hypertier router --help`.
NOT_SET: Mapping[str, str] = {
    "--replica": "engines are found by their EndpointSlices",
    "--prefill-replica": "engines are found by their EndpointSlices",
    "--peer": "routers are found by their EndpointSlices",
    "--kv-events": "every engine has an address of its own, and the same port",
    "--gather-seconds": "1 or 2 ms for many streams of over 500 pieces a second, which no reader sees",
    "--explain": "it would tell every client; routing.explainOnRequest tells those that ask",
    "--capture-spool-bytes": "half of the volume that captures wait in",
}
# written whatever they are: a pod's memory follows from the sizes, and the rest is what one looks for first
_ALWAYS = (
    "listen",
    "metrics_port",
    "strategy",
    "discover",
    "routes",
    "index_bytes",
    "max_buffered_bytes",
    "drain_seconds",
    "lameduck_seconds",
)
_FLAGS = {
    "capture_modes": "--capture-mode",
    "replicas": "--replica",
    "prefill_replicas": "--prefill-replica",
    "connect_timeout_seconds": "--connect-timeout",
    "response_timeout_seconds": "--response-timeout",
    "stream_idle_timeout_seconds": "--stream-idle-timeout",
    "read_timeout_seconds": "--read-timeout",
    "idle_timeout_seconds": "--idle-timeout",
    "health_interval_seconds": "--health-interval",
    "health_timeout_seconds": "--health-timeout",
}


def routers_share(deployment: Deployment, endpoint: InferenceEndpointConfig) -> bool:
    """Its routers tell one another what they have in flight: every strategy but turns counts that.

    Limits of tenants and the queue are divided by how many they are.
    """
    strategy = endpoint.routing_strategy or PLAIN_STRATEGY
    return strategy != "roundrobin" or deployment.access is not None


def router_settings(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names
) -> RouterSettings:
    """The settings that the container's arguments spell out.

    Raises:
        ConfigError: a strategy that the router does not have, or an alias of a model that nobody serves.
    """
    strategy = endpoint.routing_strategy or PLAIN_STRATEGY
    if strategy not in STRATEGIES:
        raise refuse(
            endpoint,
            "spec.intelligentRoutingSpec.routingStrategy",
            strategy,
            f"one of {', '.join(STRATEGIES)}; prefixaware keeps requests with a common prefix together",
        )
    port = endpoint.spec.worker.model_invocation_port.container_port
    shares = routers_share(deployment, endpoint)
    served = roles_of(deployment, endpoint)[-1]
    routing, sizes, timeouts = deployment.routing, deployment.routing.sizes, deployment.routing.timeouts
    return RouterSettings(
        listen=f"0.0.0.0:{ROUTER_PORT}",
        metrics_port=ROUTER_METRICS_PORT,
        strategy=strategy,
        discover=names.slices(served.component, port),
        **_split(endpoint, names, port),
        peers=names.slices("peers", ROUTER_PEER_PORT) if shares else None,
        peer_listen=f"0.0.0.0:{ROUTER_PEER_PORT}" if shares else None,
        workers=routing.cpus if routing.cpus > 1 else None,
        busy_polling=routing.busy_polling,
        routes=f"{ROUTES_FOLDER}/routes.yaml",
        kv_events_port=KV_EVENTS_PORT,
        session_key=_session_key(endpoint, strategy),
        access=ACCESS_FILE if deployment.access is not None else None,
        api_keys=KEYS_FILE if has_secret(deployment) else None,
        salt_key=SALT_KEY_FILE if has_secret(deployment) else None,
        tls_cert=f"{TLS_FOLDER}/tls.crt" if routing.tls else None,
        tls_key=f"{TLS_FOLDER}/tls.key" if routing.tls else None,
        **(client_files(routing.engine_tls, names) if routing.engine_tls else {}),
        otlp_endpoint=routing.tracing.endpoint if routing.tracing else None,
        trace_sample_ratio=routing.tracing.sample_ratio if routing.tracing else None,
        model_alias=tuple(f"{name}={model}" for name, model in aliases_of(deployment, endpoint).items()),
        explain_on_request=routing.explain_on_request,
        **_guardrail(deployment),
        **capture_settings(deployment, endpoint),
        **_holding(deployment, endpoint),
        retries=routing.retries.per_request,
        retry_budget=routing.retries.budget,
        migration_limit=routing.retries.migrations,
        max_body_bytes=sizes.bytes_of("maxBody"),
        max_head_bytes=sizes.bytes_of("maxHead"),
        max_buffered_bytes=sizes.bytes_of("maxBuffered"),
        index_bytes=sizes.bytes_of("index"),
        l1_tokens=(plan_engine(deployment, served.endpoint).l1_tokens or 0) if strategy in BY_PROMPT else 0,
        drain_seconds=timeouts.seconds("drain"),
        lameduck_seconds=LAMEDUCK_SECONDS,
        connect_timeout_seconds=timeouts.seconds("connect"),
        response_timeout_seconds=timeouts.seconds("response"),
        stall_timeout_seconds=timeouts.seconds("stall"),
        stream_idle_timeout_seconds=timeouts.seconds("streamIdle"),
        slow_start_seconds=timeouts.seconds("slowStart"),
        read_timeout_seconds=timeouts.seconds("read"),
        idle_timeout_seconds=_idle_seconds(deployment, endpoint),
        health_timeout_seconds=timeouts.seconds("health"),
        health_interval_seconds=timeouts.seconds("healthInterval"),
    )


def router_arguments(settings: RouterSettings) -> list[str]:
    """The settings as arguments of `hypertier router`: what is not the router's own default, and sizes."""
    always = (*_ALWAYS, *(("kv_events_port",) if settings.strategy == "kvaware" else ()))
    arguments: list[str] = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name not in always and value == field.default:
            continue
        flag = _FLAGS.get(field.name, "--" + field.name.replace("_", "-"))
        if value is True:
            arguments.append(flag)
            continue
        for each in value if isinstance(value, tuple) else (value,):
            arguments += [flag, f"{each:g}" if isinstance(each, float) else str(each)]
    return arguments


def aliases_of(deployment: Deployment, endpoint: InferenceEndpointConfig) -> dict[str, str]:
    """The aliases of the endpoint's models; of several endpoints each goes to who serves its model.

    Raises:
        ConfigError: an alias of a model that no endpoint serves.
    """
    written = dict(deployment.routing.model_aliases)
    everybody = {name for each in deployment.endpoints for name in served_names(each)}
    for alias, model in written.items():
        if model not in everybody:
            expected = f"a model of an endpoint: {', '.join(sorted(everybody))}"
            raise ConfigError(f"routing.modelAliases.{alias}", model, expected)
    return {alias: model for alias, model in written.items() if model in served_names(endpoint)}


def served_names(endpoint: InferenceEndpointConfig) -> set[str]:
    """What clients call its models: `--served-model-name`, else the model's name; and its adapters."""
    args = endpoint.spec.worker.args or ()
    names = _values(args, "--served-model-name") or [endpoint.spec.model_name]
    return {*names, *(text.partition("=")[0] for text in _values(args, "--lora-modules"))}


def _values(args: Sequence[str], name: str) -> list[str]:
    """All values of an argument that takes several."""
    places = [index for index, word in enumerate(args) if option_name(word) == name and "=" not in word]
    if not places:
        value = option_value(args, name)
        return [] if value is None else [value]
    values = []
    for word in args[places[-1] + 1 :]:
        if word.startswith("--"):
            break
        values.append(word)
    return values


def _split(endpoint: InferenceEndpointConfig, names: Names, port: int) -> dict[str, Any]:
    """Who prefills which prompts: the router's are those of more tokens, the manifest's of as many."""
    pd_spec = pd_spec_of(endpoint)
    if pd_spec is None:
        return {}
    threshold = max(threshold_of(pd_spec) - 1, 0)
    return {"prefill_discover": names.slices(PREFILL, port), "prefill_threshold": threshold}


def _guardrail(deployment: Deployment) -> dict[str, Any]:
    """The service that routers ask about each request."""
    guardrail = deployment.routing.guardrail
    if guardrail is None:
        return {}
    return {
        "guardrail_url": guardrail.url,
        "guardrail_on_failure": guardrail.on_failure,
        "guardrail_timeout_seconds": float(guardrail.timeout_seconds),
    }


def _holding(deployment: Deployment, endpoint: InferenceEndpointConfig) -> dict[str, Any]:
    """Requests wait for a replica where there may be none."""
    to_zero = sleeps(deployment, endpoint)
    if to_zero is None:
        return {}
    return {"hold_seconds": float(to_zero.hold_seconds), "hold_requests": to_zero.max_held}


def _idle_seconds(deployment: Deployment, endpoint: InferenceEndpointConfig) -> int:
    """How long an idle connection stays: for longer than a load balancer keeps it, or that would get 502.

    It may send a request on a connection that it takes for open, while the router closes it.
    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html
    (read 2026-12-02)
    """
    balancer = balancer_idle_seconds(endpoint)
    return max(deployment.routing.timeouts.seconds("idle"), 0 if balancer is None else balancer + IDLE_MARGIN)


def _session_key(endpoint: InferenceEndpointConfig, strategy: str) -> str:
    written = endpoint.spec.worker.environment_value("SESSION_KEY") if strategy == "session" else None
    return written or SESSION_KEY
