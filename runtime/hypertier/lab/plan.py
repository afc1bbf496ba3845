"""What the lab is going to start for a rendered endpoint. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypertier.errors import ConfigError
from hypertier.lab.differences import Difference
from hypertier.lab.model import ModelShape
from hypertier.lab.overlay import ENGINE, ROUTER
from hypertier.lab.process_spec import ProcessSpec
from hypertier.lab.rules import LEFT_OUT, MIB, Place
from hypertier.lab.translate import (
    RenderedEndpoint,
    engine_process,
    router_process,
    served_model_name,
)

ENGINES = ("vllm", "simulated")
MAX_REPLICAS = 8
LARGEST_L1_BYTES = 128 * MIB
SMALLEST_L1_BYTES = 16 * MIB
WHY_REPLICAS = "enough to see one replica load what another computed"
WHY_ROUTERS = "one client needs one router"
BASE_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class LabSettings:
    """What is asked of the lab: which engine, how many replicas of it, and the ports of 127.0.0.1 to use.

    `ports` are one for the router, one for Valkey, one for the router's metrics, one per replica, and one per
    replica for its KV events, whose next one is free as well.
    `without` names options and variables of the containers to leave out. `routes_file` is for the router.
    """

    engine: str
    replicas: int
    ports: tuple[int, ...]
    model_directory: Path
    engine_command: tuple[str, ...]
    router_command: tuple[str, ...]
    routes_file: Path = Path("routes.yaml")
    l1_bytes: int = LARGEST_L1_BYTES
    without: tuple[str, ...] = ()
    l2_password: str = field(default="", repr=False)


@dataclass(frozen=True)
class LabPlan:
    """The processes, in the order in which they start, and what differs from the manifests."""

    model_name: str
    l2_port: int | None
    engines: tuple[ProcessSpec, ...]
    router: ProcessSpec
    router_url: str
    router_metrics_url: str
    replica_urls: tuple[str, ...]
    l1_bytes: int
    differences: tuple[Difference, ...]
    left_out: tuple[str, ...]


def check_settings(engine: str, replicas: int) -> None:
    """Refuse an engine that does not exist and a number of replicas that cannot work.

    Raises:
        ConfigError: names the flag.
    """
    if engine not in ENGINES:
        raise ConfigError("--engine", engine, f"one of {', '.join(ENGINES)}")
    if not 1 <= replicas <= MAX_REPLICAS:
        raise ConfigError(
            "--replicas", replicas, f"1 to {MAX_REPLICAS}: each is a process with a model of its own"
        )


def plan_lab(endpoint: RenderedEndpoint, settings: LabSettings, environ: Mapping[str, str]) -> LabPlan:
    """Translate the endpoint.

    Raises:
        ConfigError: something rendered that the overlay does not understand.
    """
    router_port, l2_port, metrics_port, *rest = settings.ports
    engine_ports, events_ports = rest[: settings.replicas], rest[settings.replicas :]
    base_env = {name: environ[name] for name in BASE_ENVIRONMENT if name in environ}
    has_l2 = "HYPERTIER_L2_URL" in endpoint.engine.env
    model_name = served_model_name(endpoint.engine)
    replica_urls = tuple(f"http://127.0.0.1:{port}" for port in engine_ports)
    engine_places = [
        Place(
            port=port,
            model_directory=str(settings.model_directory),
            served_model_name=model_name,
            l1_bytes=settings.l1_bytes,
            l2_port=l2_port,
            l2_password=settings.l2_password if has_l2 else "",
            events_port=events_port,
            replay_port=events_port + 1,
        )
        for port, events_port in zip(engine_ports, events_ports, strict=True)
    ]
    router_place = Place(
        port=router_port,
        replica_urls=replica_urls,
        metrics_port=metrics_port,
        l1_tokens=settings.l1_bytes // ModelShape().kv_bytes_per_token,
        replica_events=tuple(f"127.0.0.1:{port}" for port in events_ports),
        routes_file=str(settings.routes_file),
    )
    engines, engine_differences = _engines(endpoint, settings, engine_places, base_env)
    router, router_differences = router_process(
        endpoint.router, router_place, settings.router_command, base_env, ROUTER.without(settings.without)
    )
    differences = [
        *_fewer("replicas", endpoint.engine.replicas, settings.replicas, WHY_REPLICAS),
        *engine_differences,
        *router_differences,
    ]
    check_left_out(settings.without, differences)
    has_metrics_port = "--metrics-port" in router.argv
    return LabPlan(
        model_name=model_name,
        l2_port=l2_port if has_l2 else None,
        engines=engines,
        router=router,
        router_url=f"http://127.0.0.1:{router_port}",
        router_metrics_url=f"http://127.0.0.1:{metrics_port if has_metrics_port else router_port}",
        replica_urls=replica_urls,
        l1_bytes=settings.l1_bytes,
        differences=(*differences, *_fewer("router replicas", endpoint.router.replicas, 1, WHY_ROUTERS)),
        left_out=endpoint.left_out,
    )


def _engines(
    endpoint: RenderedEndpoint, settings: LabSettings, places: Sequence[Place], base_env: Mapping[str, str]
) -> tuple[tuple[ProcessSpec, ...], list[Difference]]:
    """A process for each place, and what differs, of later ones only what no earlier one has."""
    overlay = ENGINE.without(settings.without)
    specs: list[ProcessSpec] = []
    differences: list[Difference] = []
    for number, place in enumerate(places):
        spec, changes = engine_process(
            endpoint.engine, place, f"engine-{number}", settings.engine_command, base_env, overlay
        )
        specs.append(spec)
        differences += changes if number == 0 else [each for each in changes if each not in differences]
    return tuple(specs), differences


def _fewer(setting: str, rendered: int, here: int, why: str) -> Sequence[Difference]:
    return () if rendered == here else (Difference(setting, str(rendered), str(here), why),)


def check_left_out(names: Sequence[str], differences: Sequence[Difference]) -> None:
    """Refuse to leave out what is not there.

    Raises:
        ConfigError: the name is misspelled, or the setting is not in the manifests.
    """
    settings = {each.setting for each in differences if each.why == LEFT_OUT}
    for name in names:
        if name not in settings:
            raise ConfigError("--without", name, "an argument or variable of the rendered engine or router")


def l1_bytes_for(free_shm_bytes: int, replicas: int) -> int:
    """L1 of each replica such that all fit into half of the shared memory that is free, whole MiB.

    Raises:
        ConfigError: too little is free.
    """
    share = free_shm_bytes // 2 // replicas // MIB * MIB
    if share < SMALLEST_L1_BYTES:
        raise ConfigError(
            "/dev/shm",
            f"{free_shm_bytes // MIB} MiB free",
            f"{2 * replicas * SMALLEST_L1_BYTES // MIB} MiB or more for the L1 of {replicas} replicas: "
            "in a container, start it with --shm-size 1g",
        )
    return min(share, LARGEST_L1_BYTES)
