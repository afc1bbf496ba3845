"""From a deployment file to a lab that can be started: render, plan, and tell what differs."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hypertier.errors import ConfigError, MissingPackageError
from hypertier.lab.differences import summary, table
from hypertier.lab.engine_env import find_engine_python
from hypertier.lab.lab import Lab
from hypertier.lab.model import build_model
from hypertier.lab.plan import LabPlan, LabSettings, check_settings, l1_bytes_for, plan_lab
from hypertier.lab.processes import free_ports
from hypertier.lab.running import check_is_down, lab_directory, make_directory
from hypertier.lab.translate import read_endpoint
from hypertier.lab.valkey import find_server, valkey_process
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.located import located
from hypertier.tier.preflight import Host

RENDERER_GROUP = "hypertier.renderer"
QUIET_NODE = ("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
DIFFERENCES = "differences.txt"
ROUTES = "strategyByHeader: true  # x-hypertier-strategy chooses, as `hypertier compare` does\n"
SUMMARY_WIDTH = 100
SIMULATED = (
    "SIMULATED ENGINE: no model computes here. Text and prefill times are made up; the prefix cache, L1, L2 "
    "and the router are real."
)
Say = Callable[[str], None]


def render_file(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Render a deployment file by the installed renderer; returns the deployment's name and the objects.

    Raises:
        HypertierError: the file does not work, or no renderer is installed.
    """
    with located(path):
        return _render(load_deployment(path))


def _render(deployment: Deployment) -> tuple[str, list[dict[str, Any]]]:
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
        HypertierError: something rendered that is not understood, something that is missing here, or a lab of
            that name that is up.
    """
    check_settings(engine, replicas)
    directory = lab_directory(name)
    check_is_down(directory)  # its files are those of the lab that runs
    endpoint = read_endpoint(objects)
    model_directory = (directory / "model").absolute()
    settings = LabSettings(
        engine=engine,
        replicas=replicas,
        ports=tuple(free_ports(3 + 2 * replicas)),
        model_directory=model_directory,
        engine_command=engine_command(engine),
        router_command=(str(Path(sys.executable).with_name("hypertier")),),
        routes_file=(directory / "routes.yaml").absolute(),
        l1_bytes=l1_bytes(replicas),
        without=tuple(without),
        l2_password=secrets.token_urlsafe(24),
    )
    plan = plan_lab(endpoint, settings, os.environ)
    valkey = None
    if plan.l2_port is not None:
        valkey = valkey_process(find_server(os.environ), plan.l2_port, settings.l2_password, os.environ)
    tell_differences(plan, directory, say, brief=brief)
    if not settings.routes_file.exists():
        settings.routes_file.write_text(ROUTES, encoding="utf-8")
    if engine == "simulated":
        say(SIMULATED)
    elif not (model_directory / "model.safetensors").is_file():
        say(f"making a small Llama in {model_directory}")
        build_model(model_directory)
    return Lab(plan, engine, valkey, directory, say)


def tell_differences(plan: LabPlan, directory: Path, say: Say, *, brief: bool) -> None:
    """Say what differs here from the manifests, and keep the whole table in a file."""
    lines = table(plan.differences)
    make_directory(directory)
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
