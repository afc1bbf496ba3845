"""What a lab is running, kept in files, so that other commands find it again."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hypertier.errors import LabError
from hypertier.lab.processes import ProcessRecord

FILE_NAME = "state.json"
L2_FILE_NAME = "l2.env"


@dataclass(frozen=True)
class LabState:
    """The processes of a lab, and where to reach them."""

    engine: str
    model_name: str
    router_url: str
    replica_urls: tuple[str, ...]
    processes: tuple[ProcessRecord, ...] = ()


def save_state(directory: Path, state: LabState) -> None:
    """Write the state, whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    part = directory / f".{FILE_NAME}"
    part.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    part.replace(directory / FILE_NAME)


def load_state(directory: Path) -> LabState | None:
    """Read the state, None when no lab is up.

    Raises:
        LabError: the file is not one of ours, or cannot be read.
    """
    path = directory / FILE_NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        processes = tuple(ProcessRecord(**record) for record in content.pop("processes"))
        replica_urls = tuple(content.pop("replica_urls"))
        return LabState(processes=processes, replica_urls=replica_urls, **content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise LabError(f"{path} is not a lab's state ({error}); remove it to start anew") from error


def save_l2(directory: Path, variables: Mapping[str, str]) -> None:
    """Write what a shell sources so that `hypertier cache` reaches L2; none but the user may read it."""
    path = directory / L2_FILE_NAME
    path.unlink(missing_ok=True)
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.writelines(lines)


def forget_state(directory: Path) -> None:
    """Remove the state: nothing runs any more."""
    for name in (FILE_NAME, L2_FILE_NAME):
        (directory / name).unlink(missing_ok=True)
