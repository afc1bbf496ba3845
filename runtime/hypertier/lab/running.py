"""The labs of this working directory: where they keep things, which is up, and ending one."""

from __future__ import annotations

from pathlib import Path

from hypertier.errors import ConfigError, LabError
from hypertier.lab.processes import Processes, is_alive
from hypertier.lab.state import LabState, forget_state, load_state
from hypertier.spec.deployment import DEFAULT_NAME, NAME, NAME_FORM, load_deployment
from hypertier.spec.source import read_documents, read_text
from hypertier.tier.preflight import Host, sweep_regions

LAB_DIRECTORY = Path(".hypertier/lab")


def lab_directory(name: str) -> Path:
    """Where a lab keeps its logs, model and state."""
    return LAB_DIRECTORY / name


def make_directory(directory: Path) -> None:
    """Make a lab's directory.

    Raises:
        LabError: it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"{directory} cannot be made here, in {Path.cwd()}: {error.strerror}; "
            "the lab keeps its logs and model there: change to a directory that you may write to"
        ) from error


def check_is_down(directory: Path, file: str = "FILE") -> None:
    """Refuse to begin a lab where one is up; `file` is its deployment file.

    Raises:
        LabError: names where that one is served.
    """
    state = load_state(directory)
    if state is not None and any(is_alive(record) for record in state.processes):
        raise LabError(
            f"this lab is up already, at {state.router_url}; end it with: hypertier lab down {file}"
        )


def running_lab(path: Path) -> LabState:
    """Find the lab of a deployment file.

    Raises:
        LabError: it is not up, or its router ended.
    """
    state = load_state(lab_directory(load_deployment(path).name))
    if state is None or not any(is_alive(record) for record in state.processes if record.name == "router"):
        raise LabError(f"the lab of {path} is not up; start it with: hypertier lab up {path}")
    return state


def lab_of(path: Path) -> Path:
    """The directory of a deployment's lab, by a file that need not work any more: what runs can be ended.

    Raises:
        ManifestError: the file cannot be read.
        ConfigError: its name is none.
    """
    documents = read_documents(read_text(str(path)).removeprefix("\ufeff"), str(path))
    name = documents[0].view.text("name") if documents else None
    if name is not None and not NAME.fullmatch(name):
        raise ConfigError("name", name, NAME_FORM)
    return lab_directory(name or DEFAULT_NAME)


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
