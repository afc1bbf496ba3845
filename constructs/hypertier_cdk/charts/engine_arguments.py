"""What the engine's container is told: vLLM's arguments and the environment."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import cast

from hypertier.planning.engine import EnginePlan
from hypertier.planning.plan import l2_bytes_per_second_of_one_engine
from hypertier.spec.arguments import option_name, option_value
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.roles import EngineRole
from hypertier.tier.encryption_key import KEY_SECRET_VARIABLE, KEY_VARIABLE
from hypertier.tier.gate import GateMode
from hypertier.tier.launch import CacheSettings, kv_events_config, kv_transfer_config
from hypertier.tier.preflight import OFFLOADING, connector_in
from hypertier.tier.tenants import Terms
from hypertier_cdk.charts.disaggregation import (
    SIDE_CHANNEL_HOST,
    SIDE_CHANNEL_PORT,
    moves_kv,
    nixl_environment,
    transfer_of,
)
from hypertier_cdk.charts.engine_tls import engine_tls_arguments
from hypertier_cdk.charts.inputs import PLACEHOLDER_L2_URL, ChartInputs, l2_url, refuse
from hypertier_cdk.charts.names import KV_EVENTS_PORT, KV_REPLAY_PORT
from hypertier_cdk.charts.pods import Object
from hypertier_cdk.charts.tiered_storage import NODE_IP, SEGMENT_PATH, node_ip, uses_tiered_storage

ENGINE_COMMAND = ("python3", "-m", "hypertier.tier.launch", "serve")
SERVE_COMMANDS = (
    ("vllm", "serve"),
    ("python3", "-m", "vllm.entrypoints.openai.api_server"),
    ("python", "-m", "vllm.entrypoints.openai.api_server"),
    ENGINE_COMMAND,
)
DRAIN_SECONDS = 120  # what requests in flight get after SIGTERM
RESERVED_PREFIXES = ("HYPERTIER_",)
ENCRYPTION_KEY = "key"  # of the Secret
LMCACHE_PREFIX = "LMCACHE_"


def check_command(endpoint: InferenceEndpointConfig) -> None:
    """Refuse a command that the engine would not start with.

    Raises:
        ConfigError: the manifest starts something other than vLLM's server.
    """
    command = endpoint.spec.worker.command
    if command and tuple(command) not in SERVE_COMMANDS:
        raise refuse(
            endpoint,
            "spec.worker.command",
            list(command),
            "no command, or ['vllm', 'serve']: engines start through hypertier.tier.launch, which checks the "
            "node first; put vLLM's arguments into spec.worker.args",
        )


def engine_arguments(
    deployment: Deployment, role: EngineRole, plan: EnginePlan, mount_path: str
) -> list[str]:
    """The manifest's own arguments, and those that follow from the rest of it where they are not written.

    Raises:
        ConfigError: an argument that contradicts the manifest.
    """
    endpoint = role.endpoint
    args = list(endpoint.spec.worker.args or ())
    port = endpoint.spec.worker.model_invocation_port.container_port
    written_port = option_value(args, "--port")
    if written_port is not None and written_port != str(port):
        raise refuse(
            endpoint,
            "spec.worker.args --port",
            written_port,
            f"{port}, which is spec.worker.modelInvocationPort.containerPort",
        )
    nodes = option_value(args, "--nnodes", "-n")
    if nodes not in (None, "1"):
        raise refuse(
            endpoint,
            "spec.worker.args --nnodes",
            nodes,
            "1: a replica is one pod on one node, so the engine would wait for the others for ever",
        )
    for name in dict.fromkeys(map(option_name, args)):
        if name.partition(".")[0] == "--kv-transfer-config":  # whole, or a key of it behind a dot
            raise refuse(
                endpoint,
                f"spec.worker.args {name}",
                option_value(args, name),
                "no such argument: it follows from spec.kvCacheSpec",
            )
    if (not args or args[0].startswith("-")) and option_value(args, "--model") is None:
        args = [mount_path, *args]
    if option_value(args, "--served-model-name") is None:
        args += ["--served-model-name", endpoint.spec.model_name]
    if plan.tensor_parallel_size > 1 and option_value(args, "--tensor-parallel-size", "-tp") is None:
        args += ["--tensor-parallel-size", str(plan.tensor_parallel_size)]
    if written_port is None:
        args += ["--port", str(port)]
    drain = option_value(args, "--shutdown-timeout")
    if drain is not None and not re.fullmatch(r"[0-9]{1,5}", drain):
        raise refuse(endpoint, "spec.worker.args --shutdown-timeout", drain, "a whole number of seconds")
    if drain is None:
        args += ["--shutdown-timeout", str(DRAIN_SECONDS)]
    if role.decodes:
        args += _kv_events(endpoint, args)
    args += engine_tls_arguments(deployment.routing.engine_tls)
    args += _details(deployment, role.endpoint, args)
    tracing = deployment.routing.tracing
    if tracing is not None and option_value(args, "--otlp-traces-endpoint") is None:
        args += ["--otlp-traces-endpoint", f"{tracing.endpoint.rstrip('/')}/v1/traces"]
    config = kv_transfer_config(cache_settings(deployment, role, plan))
    if uses_tiered_storage(endpoint):
        tiers = connector_in(config, OFFLOADING)["kv_connector_extra_config"]["secondary_tiers"]
        tiers[0]["segment_path"] = SEGMENT_PATH
    return [*args, "--kv-transfer-config", json.dumps(config)] if config else args


def _details(deployment: Deployment, endpoint: InferenceEndpointConfig, args: Sequence[str]) -> list[str]:
    """Answers tell cached tokens where `verify` looks at them."""
    if deployment.verify is None:
        return []
    if any(option_name(word) == "--no-enable-prompt-tokens-details" for word in args):
        raise refuse(
            endpoint,
            "spec.worker.args --no-enable-prompt-tokens-details",
            True,
            "no such argument with verify, which looks at what --enable-prompt-tokens-details tells",
        )
    return ["--enable-prompt-tokens-details"]


def publishes_kv_events(endpoint: InferenceEndpointConfig) -> bool:
    """Its routers ask what its engines hold."""
    return endpoint.routing_strategy == "kvaware"


def _kv_events(endpoint: InferenceEndpointConfig, args: Sequence[str]) -> list[str]:
    if not publishes_kv_events(endpoint):
        return []
    port = endpoint.spec.worker.model_invocation_port.container_port
    if port in (KV_EVENTS_PORT, KV_REPLAY_PORT):
        raise refuse(
            endpoint,
            "spec.worker.modelInvocationPort.containerPort",
            port,
            f"another port: with routingStrategy kvaware the engine publishes KV events on {KV_EVENTS_PORT} "
            f"and {KV_REPLAY_PORT}",
        )
    ranks = option_value(args, "--data-parallel-size", "-dp")
    if ranks is not None and ranks != "1":
        raise refuse(
            endpoint,
            "spec.worker.args --data-parallel-size",
            ranks,
            "1 with routingStrategy kvaware: of ranks behind one address the first one's KV events alone are "
            "heard; replicas, or prefixaware, do without",
        )
    written = option_value(args, "--kv-events-config")
    if written is not None:
        raise refuse(
            endpoint,
            "spec.worker.args --kv-events-config",
            written,
            "no such argument: it follows from spec.intelligentRoutingSpec.routingStrategy kvaware",
        )
    return ["--kv-events-config", json.dumps(kv_events_config(KV_EVENTS_PORT, KV_REPLAY_PORT))]


def drain_seconds(arguments: Sequence[str]) -> int:
    """How long vLLM lets requests in flight finish."""
    return int(option_value(arguments, "--shutdown-timeout") or 0)


def cache_settings(deployment: Deployment, role: EngineRole, plan: EnginePlan) -> CacheSettings:
    """The cache that the manifest asks for, in the tier's terms."""
    endpoint = role.endpoint
    return CacheSettings(
        l1_bytes=plan.l1_bytes or None,
        # the tier reads the URL from the environment; here it only says that there is an L2
        l2_url=PLACEHOLDER_L2_URL if endpoint.kv_cache.l2_enabled else None,
        ttl_seconds=deployment.cache.l2.ttl_seconds,
        blocks_per_chunk=plan.blocks_per_chunk,
        prior_l2_bytes_per_second=l2_bytes_per_second_of_one_engine(deployment, endpoint),
        prior_prefill_tokens_per_second=round(plan.prefill_tokens_per_second or 0),
        tenants={
            tenant.name: Terms(tenant.ttl_seconds, tenant.quota_bytes)
            for tenant in deployment.cache.l2.tenants
        },
        l2_events=deployment.cache.l2.kv_events and publishes_kv_events(endpoint) and role.decodes,
        transfer=transfer_of(deployment, role),
        epoch=deployment.cache.l2.epoch,
        gate=cast(GateMode, deployment.cache.l2.gate),  # one of them, which the file is held to
        lookup_deadline_ms=deployment.cache.l2.lookup_deadline_ms,
        connections=deployment.cache.l2.connections,
    )


def engine_environment(deployment: Deployment, role: EngineRole, inputs: ChartInputs) -> list[Object]:
    """The manifest's variables, and ours.

    Raises:
        ConfigError: a variable that would be without effect, or would undo what the manifest says.
    """
    endpoint = role.endpoint
    tiered = uses_tiered_storage(endpoint)
    entries: list[Object] = [node_ip()] if tiered else []
    taken = {NODE_IP} if tiered else set()
    if moves_kv(role):
        taken |= {SIDE_CHANNEL_HOST, SIDE_CHANNEL_PORT}
    for variable in endpoint.spec.worker.environment_variables or ():
        path = f"spec.worker.environmentVariables.{variable.name}"
        if variable.name.startswith(RESERVED_PREFIXES) or variable.name in taken:
            set_for_you = ", ".join(sorted(f"{prefix}*" for prefix in RESERVED_PREFIXES) + sorted(taken))
            raise refuse(endpoint, path, variable.value, f"another name: {set_for_you} are set for you")
        if variable.name.startswith(LMCACHE_PREFIX):
            raise refuse(
                endpoint,
                path,
                variable.value,
                "no such variable: with serving: selfhosted no LMCache runs, and it would be without effect",
            )
        entry: Object = {"name": variable.name}
        if variable.value_from is not None:
            entry["valueFrom"] = variable.value_from
        else:
            entry["value"] = variable.value or ""
        entries.append(entry)
    ours = {
        "AWS_REGION": deployment.region,
        "HOME": "/tmp",  # the one place that can be written: the root file system is read-only
        "PYTHONHASHSEED": "0",  # blocks are named alike by all engines
        "VLLM_NO_USAGE_STATS": "1",
    }
    if deployment.routing.tracing is not None:
        # a span of what the router traces, below its own; nothing else
        ours["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
        ours["OTEL_SERVICE_NAME"] = f"{endpoint.name}-{role.component}"
        ours["OTEL_TRACES_SAMPLER"] = "parentbased_always_off"
    if endpoint.kv_cache.l2_enabled:
        ours["HYPERTIER_L2_URL"] = l2_url(endpoint, inputs).value
        if inputs.l2_secret_arn is not None and not tiered:
            ours["HYPERTIER_L2_SECRET_ARN"] = inputs.l2_secret_arn
    secret, secret_arn = deployment.cache.l2.encryption_secret, deployment.cache.l2.encryption_secret_arn
    if endpoint.kv_cache.l2_enabled and secret_arn is not None:
        ours[KEY_SECRET_VARIABLE] = secret_arn
    elif endpoint.kv_cache.l2_enabled and secret is not None:
        reference = {"secretKeyRef": {"name": secret, "key": ENCRYPTION_KEY}}
        entries.append({"name": KEY_VARIABLE, "valueFrom": reference})
    written = {entry["name"] for entry in entries}
    if moves_kv(role):
        entries += [entry for entry in nixl_environment(deployment) if entry["name"] not in written]
    return entries + [{"name": n, "value": v} for n, v in sorted(ours.items()) if n not in written]
