"""From Kubernetes objects to processes: what a container would run there, run here.

Of an object only the containers' `command`, `args` and `env` are read, and nothing here does I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypertier.errors import ConfigError
from hypertier.lab.arguments import Option, format_options, parse_engine_options, parse_options
from hypertier.lab.differences import Difference
from hypertier.lab.overlay import ENGINE, ROUTER
from hypertier.lab.process_spec import ProcessSpec
from hypertier.lab.rules import Overlay, Place, check_understood, lay_over_env, lay_over_options
from hypertier.tier.preflight import NIXL, OFFLOADING, connector_in, option, transfer_config

WORKLOAD_KINDS = ("Deployment", "StatefulSet", "LeaderWorkerSet", "CronJob")
ENGINE_COMMAND = ("-m", "hypertier.tier.launch", "serve")
ONE_EACH = "every engine has a port of its own here"
NO_NIXL = "NIXL and EFA are not here: an engine computes its prompts, as where nobody who prefills is healthy"
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True)
class Container:
    """One container as rendered. A value of None in `env` is filled by the cluster (`valueFrom`)."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str | None]
    replicas: int

    @property
    def role(self) -> str:
        """`engine`, `router`, `exporter`, `verify`, or `` for what the lab does not know."""
        if any(self.argv[i : i + 3] == ENGINE_COMMAND for i in range(len(self.argv))):
            return "engine"
        for argument in self.argv[:2]:
            if argument in ("router", "exporter", "verify"):
                return argument
        return ""

    @property
    def prefills(self) -> bool:
        """An engine that computes KV cache for others alone."""
        if self.role != "engine":
            return False
        return connector_in(self.transfer, NIXL).get("kv_role") == "kv_producer"

    @property
    def transfer(self) -> dict[str, Any]:
        """An engine's `--kv-transfer-config`; empty where it has none."""
        return transfer_config(option(self.arguments, "--kv-transfer-config"))

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows the command: vLLM's arguments, or the router's."""
        if self.role == "engine":
            return self.argv[self.argv.index("serve") + 1 :]
        return self.argv[self.argv.index(self.role) + 1 :]


@dataclass(frozen=True)
class RenderedEndpoint:
    """The engine and the router of one endpoint, and the names of what the lab leaves out.

    `prefill` are engines that prefill for others; without NIXL they have nothing to give.
    """

    engine: Container
    router: Container
    left_out: tuple[str, ...]
    prefill: tuple[str, ...] = ()


def read_containers(objects: Sequence[Mapping[str, Any]]) -> Iterator[Container]:
    """Yield the containers of all workloads among the objects; init containers prepare nodes and are left."""
    for item in objects:
        if item.get("kind") not in WORKLOAD_KINDS:
            continue
        job = item["spec"]["jobTemplate"]["spec"] if item["kind"] == "CronJob" else item["spec"]
        pod = job["template"]["spec"]
        for container in pod["containers"]:
            yield Container(
                name=f"{item['metadata']['name']}/{container['name']}",
                argv=(*container.get("command", ()), *container.get("args", ())),
                env={entry["name"]: entry.get("value") for entry in container.get("env", ())},
                replicas=int(item["spec"].get("replicas", 1)),
            )


def read_endpoint(objects: Sequence[Mapping[str, Any]]) -> RenderedEndpoint:
    """Find the engine and the router.

    Raises:
        ConfigError: none or several of them, or a container that is neither.
    """
    by_role: dict[str, list[Container]] = {"engine": [], "router": [], "exporter": [], "verify": []}
    prefill: list[str] = []
    for container in read_containers(objects):
        if container.prefills:
            prefill.append(container.name)
            continue
        if container.role not in by_role:
            raise ConfigError(
                f"{container.name}: command",
                " ".join(container.argv),
                "python3 -m hypertier.tier.launch serve, hypertier router, exporter or verify",
            )
        by_role[container.role].append(container)
    for role in ("engine", "router"):
        if len(by_role[role]) != 1:
            names = [container.name for container in by_role[role]]
            raise ConfigError(
                "endpoints",
                names,
                f"one endpoint with one {role} workload: the lab runs one endpoint",
            )
    left_out = [container.name for role in ("exporter", "verify") for container in by_role[role]]
    # They prepare nodes, of which there are none here.
    left_out += [item["metadata"]["name"] for item in objects if item.get("kind") == "DaemonSet"]
    return RenderedEndpoint(by_role["engine"][0], by_role["router"][0], tuple(left_out), tuple(prefill))


def served_model_name(engine: Container) -> str:
    """The name clients use: `--served-model-name`, or else the model as given."""
    positional, options = parse_engine_options(engine.arguments)
    names = [option.values[0] for option in options if option.name == "--served-model-name" and option.values]
    models = [option.text for option in options if option.name == "--model"]
    return (names or models or list(positional) or ["model"])[-1]


def engine_process(
    engine: Container,
    place: Place,
    name: str,
    python: Sequence[str],
    base_env: Mapping[str, str],
    overlay: Overlay = ENGINE,
) -> tuple[ProcessSpec, list[Difference]]:
    """One replica's process; `python` runs what follows `python3` in the manifest."""
    positional, options = parse_engine_options(engine.arguments)
    options, model = without_model(options, positional)
    first = Difference("MODEL", model, place.model_directory, "a small Llama made on the spot")
    options, moved = without_nixl(options, engine.transfer)
    check_understood(overlay, options, engine.env, engine.name)
    env, env_differences = laid_env(overlay, engine, place)
    options, differences = lay_over_options(overlay, expand(options, env), place)
    differences = [*moved, *differences]
    argv = (*python, "serve", place.model_directory, *format_options(options))
    spec = ProcessSpec(name, argv, f"http://127.0.0.1:{place.port}/health", {**base_env, **env})
    return spec, [first, *differences, *env_differences]


def router_process(
    router: Container,
    place: Place,
    command: Sequence[str],
    base_env: Mapping[str, str],
    overlay: Overlay = ROUTER,
) -> tuple[ProcessSpec, list[Difference]]:
    """The router's process; `command` runs what follows `hypertier` in the manifest."""
    positional, options = parse_options(router.arguments)
    if positional:
        raise ConfigError(f"{router.name}: args", " ".join(positional), "options alone")
    check_understood(overlay, options, router.env, router.name)
    env, env_differences = laid_env(overlay, router, place)
    expanded = expand(options, env)
    options, differences = lay_over_options(overlay, expanded, place)
    replicas = tuple(Option("--replica", (url,)) for url in place.replica_urls)
    why = "there is no Kubernetes here; the replicas are named"
    differences += [Difference("--replica", None, url, why) for url in place.replica_urls]
    if any(option.name == "--kv-events-port" for option in expanded):
        replicas += tuple(Option("--kv-events", (address,)) for address in place.replica_events)
        differences += [Difference("--kv-events", None, each, ONE_EACH) for each in place.replica_events]
    argv = (*command, "router", *format_options((*options, *replicas)))
    health_url = f"http://127.0.0.1:{place.port}/health"
    return ProcessSpec("router", argv, health_url, {**base_env, **env}), [*differences, *env_differences]


def without_model(
    options: Sequence[Option], positional: Sequence[str]
) -> tuple[tuple[Option, ...], str | None]:
    """Take the model out of the options, wherever it is named."""
    named: list[str | None] = [option.text for option in options if option.name == "--model"]
    rest = tuple(option for option in options if option.name != "--model")
    return rest, (named or [*positional, None])[0]


def without_nixl(
    options: Sequence[Option], transfer: Mapping[str, Any]
) -> tuple[tuple[Option, ...], list[Difference]]:
    """Keep the tiers alone of what a MultiConnector has beside NIXL's connector."""
    if not connector_in(transfer, NIXL):
        return tuple(options), []
    name, tiers = "--kv-transfer-config", connector_in(transfer, OFFLOADING)
    kept = [option for option in options if option.name != name]
    if tiers:
        kept.append(Option(name, (json.dumps(tiers),)))
    rest = str(tiers.get("kv_connector")) if tiers else None
    return tuple(kept), [Difference(f"{name}.kv_connector", str(transfer["kv_connector"]), rest, NO_NIXL)]


def laid_env(overlay: Overlay, container: Container, place: Place) -> tuple[dict[str, str], list[Difference]]:
    """The container's environment here, references to other variables filled in."""
    env, differences = lay_over_env(overlay, container.env, place)
    return {name: expand_text(value, env) for name, value in env.items()}, differences


def expand(options: Sequence[Option], env: Mapping[str, str]) -> tuple[Option, ...]:
    """Fill `$(NAME)` in options, as the kubelet does."""
    return tuple(Option(o.name, tuple(expand_text(value, env) for value in o.values)) for o in options)


def expand_text(text: str, env: Mapping[str, str]) -> str:
    """Fill `$(NAME)` with the variable; `$$` is a dollar, and an unknown name stays as it is.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    (read 2026-12-01)
    """
    return _REFERENCE.sub(
        lambda match: "$" if match[0] == "$$" else env.get(match[1], match[0]),
        text,
    )
