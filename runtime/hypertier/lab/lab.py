"""The lab itself: brings up what the charts rendered, restarts engines, and leaves nothing behind."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hypertier.errors import ConfigError, LabError, MissingPackageError
from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.interrupts import uninterrupted
from hypertier.lab.metrics import healthy_replicas
from hypertier.lab.model import build_model
from hypertier.lab.overlay import summary, table
from hypertier.lab.plan import LabPlan, LabSettings, check_settings, l1_bytes_for, plan_lab
from hypertier.lab.process_spec import ProcessSpec
from hypertier.lab.processes import POLL_SECONDS, Processes, ProcessRecord, free_ports, is_alive, signal_group
from hypertier.lab.state import LAB_DIRECTORY, LabState, forget_state, load_state, save_state
from hypertier.lab.translate import read_endpoint
from hypertier.lab.valkey import find_server, valkey_process
from hypertier.spec.deployment import load_deployment
from hypertier.tier.preflight import Host, sweep_regions

RENDERER_GROUP = "hypertier.renderer"
QUIET_NODE = ("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
START_SECONDS = 600.0
ROUTER_SECONDS = 60.0
DIFFERENCES = "differences.txt"
SUMMARY_WIDTH = 100
SIMULATED = (
    "SIMULATED ENGINE: no model computes here. Text and prefill times are made up; the prefix cache, L1, L2 "
    "and the router are real."
)
Say = Callable[[str], None]


class Lab:
    """The processes of one endpoint. Tells what it does through `say`.

    As a context manager it is up inside and down afterwards, whatever happens.
    """

    def __init__(
        self, plan: LabPlan, engine: str, valkey: ProcessSpec | None, directory: Path, say: Say
    ) -> None:
        self.plan = plan
        self._specs = {spec.name: spec for spec in (valkey, *plan.engines, plan.router) if spec is not None}
        self.directory = directory
        self._say = say
        self._processes = Processes(directory)
        self._state = LabState(engine, plan.model_name, plan.router_url, plan.replica_urls)

    @property
    def records(self) -> tuple[ProcessRecord, ...]:
        """What was started and not stopped again."""
        return self._state.processes

    def __enter__(self) -> Lab:
        self.up()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.down()

    def up(self) -> None:
        """Start everything, and return when the router answers. What does not come up whole is ended.

        Raises:
            LabError: this lab is up already, or a process did not start.
        """
        state = load_state(self.directory)
        if state is not None and any(is_alive(record) for record in state.processes):
            raise LabError(
                f"this lab is up already, at {state.router_url}; end it with: hypertier lab down FILE"
            )
        try:
            self.start([name for name in self._specs if name == "valkey"])
            self.start(self.engine_names)
            self.start(["router"])
        except BaseException:
            self.down()
            raise

    @property
    def engine_names(self) -> tuple[str, ...]:
        """`engine-0` and so on, whether they run or not."""
        return tuple(spec.name for spec in self.plan.engines)

    @property
    def missing(self) -> tuple[str, ...]:
        """The processes that do not run, in the order in which they start."""
        running = {record.name for record in self.records if self._processes.is_running(record)}
        return tuple(name for name in self._specs if name not in running)

    def start(self, names: Sequence[str]) -> None:
        """Start processes at once and wait until all are ready, engines in the router's eyes too.

        Raises:
            LabError: one of them did not start.
        """
        started = []
        for name in names:
            record = self._processes.start(self._specs[name])
            started.append(record)
            self._keep((*(each for each in self.records if each.name != name), record))
            self._say(f"{name} starts (process {record.pid}, log {record.log})")
        self._processes.wait_ready(
            started,
            START_SECONDS,
            lambda record, seconds: self._say(f"{record.name} is ready after {seconds:.0f} s"),
            lambda waiting, seconds: self._say(
                f"waiting for {', '.join(record.name for record in waiting)} ({seconds:.0f} s)"
            ),
        )
        if "router" not in self.missing:
            self._wait_until_router_knows(
                {
                    url
                    for engine, url in zip(self.engine_names, self.plan.replica_urls, strict=True)
                    if engine in names
                }
            )

    def stop(self, names: Sequence[str]) -> None:
        """End processes of this lab. With an engine goes its L1; L2 lives as long as `valkey`."""
        records = [record for record in self.records if record.name in names]
        self._processes.stop(records)
        self._keep(tuple(record for record in self.records if record not in records))
        sweep(self._state.engine)

    def kill(self, name: str) -> None:
        """End a process at once, as a crash would."""
        for record in self.records:
            if record.name == name:
                signal_group(record, signal.SIGKILL)

    def down(self) -> None:
        """End everything, the router first."""
        with uninterrupted():
            router = [record for record in self.records if record.name == "router"]
            self._processes.stop(router)
            self._processes.stop([record for record in self.records if record not in router])
            self._keep(())
            sweep(self._state.engine)
            forget_state(self.directory)

    def _wait_until_router_knows(self, replica_urls: set[str]) -> None:
        deadline = time.monotonic() + ROUTER_SECONDS
        while unknown := replica_urls - healthy_replicas(self.plan.router_metrics_url):
            if time.monotonic() > deadline:
                raise LabError(
                    f"the router does not find {', '.join(sorted(unknown))} healthy; "
                    f"its log, {self.directory / 'router.log'}, says why"
                )
            time.sleep(POLL_SECONDS)

    def _keep(self, records: tuple[ProcessRecord, ...]) -> None:
        self._state = replace(self._state, processes=records)
        save_state(self.directory, self._state)


def prepare_lab(
    objects: Sequence[Mapping[str, Any]],
    name: str,
    engine: str,
    replicas: int,
    say: Say,
    *,
    without: Sequence[str] = (),
    brief: bool = False,
) -> Lab:
    """Plan a lab for rendered objects; nothing is started yet.

    Tells what differs from the manifests, all of it or in brief.

    Raises:
        HypertierError: something rendered that is not understood, or something that is missing here.
    """
    check_settings(engine, replicas)
    directory = lab_directory(name)
    endpoint = read_endpoint(objects)
    model_directory = (directory / "model").absolute()
    settings = LabSettings(
        engine=engine,
        replicas=replicas,
        ports=tuple(free_ports(3 + replicas)),
        model_directory=model_directory,
        engine_command=engine_command(engine),
        router_command=(str(Path(sys.executable).with_name("hypertier")),),
        l1_bytes=l1_bytes(replicas),
        without=tuple(without),
        l2_password=secrets.token_urlsafe(24),
    )
    plan = plan_lab(endpoint, settings, os.environ)
    valkey = None
    if plan.l2_port is not None:
        valkey = valkey_process(find_server(os.environ), plan.l2_port, settings.l2_password, os.environ)
    tell_differences(plan, directory, say, brief=brief)
    if engine == "simulated":
        say(SIMULATED)
    elif not (model_directory / "model.safetensors").is_file():
        say(f"making a small Llama in {model_directory}")
        build_model(model_directory)
    return Lab(plan, engine, valkey, directory, say)


def tell_differences(plan: LabPlan, directory: Path, say: Say, *, brief: bool) -> None:
    """Say what differs here from the manifests, and keep the whole table in a file."""
    lines = table(plan.differences)
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / DIFFERENCES
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    say("What the charts rendered runs here as processes. What differs, and why:")
    for line in summary(plan.differences, SUMMARY_WIDTH) if brief else lines:
        say(f"  {line}")
    if plan.left_out:
        say(f"  left out, as there is no CloudWatch here: {', '.join(plan.left_out)}")
    if brief:
        say(f"  these, and what the manifests leave to defaults, setting by setting: {file}")


def engine_command(engine: str) -> tuple[str, ...]:
    """What runs `serve MODEL ...` here."""
    if engine == "simulated":
        return (sys.executable, "-m", "hypertier.lab.simulated")
    return (str(find_engine_python(os.environ, Path.cwd())), "-m", "hypertier.tier.launch")


def l1_bytes(replicas: int) -> int:
    """L1 of each replica, by what is free in shared memory."""
    shm = Host().shm
    return l1_bytes_for(shutil.disk_usage(shm).free if shm.is_dir() else 2**30, replicas)


def lab_directory(name: str) -> Path:
    """Where a lab keeps its logs, model and state."""
    return LAB_DIRECTORY / name


def render_file(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Render a deployment file by the installed renderer; returns the deployment's name and the objects.

    Raises:
        HypertierError: the file does not work, or no renderer is installed.
    """
    deployment = load_deployment(path)
    if deployment.serving != "selfhosted":
        raise ConfigError(
            "serving", deployment.serving, "selfhosted: the lab runs pods that our charts render, not AWS's"
        )
    renderers = entry_points(group=RENDERER_GROUP)
    if not renderers:
        raise MissingPackageError("hypertier lab", "cdk8s", "cdk")
    os.environ.setdefault(*QUIET_NODE)  # read when cdk8s is imported
    render = next(iter(renderers)).load()
    return deployment.name, list(render(deployment))


def stop_lab(directory: Path) -> int:
    """End the lab whose state is in `directory`; returns how many processes were still there."""
    state = load_state(directory)
    if state is None:
        return 0
    alive = [record for record in state.processes if is_alive(record)]
    Processes(directory).stop(state.processes)
    sweep(state.engine)
    forget_state(directory)
    return len(alive)


def sweep(engine: str) -> None:
    """Remove the memory regions of engines that are gone: vLLM leaves them behind."""
    if engine == "vllm" and Host().shm.is_dir():
        sweep_regions(Host())


def running_lab(path: Path) -> LabState:
    """Find the lab of a deployment file.

    Raises:
        LabError: it is not up, or its router ended.
    """
    state = load_state(lab_directory(load_deployment(path).name))
    if state is None or not any(is_alive(record) for record in state.processes if record.name == "router"):
        raise LabError(f"the lab of {path} is not up; start it with: hypertier lab up {path}")
    return state
