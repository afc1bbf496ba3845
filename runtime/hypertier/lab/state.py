"""What a lab is running, kept in a file, so that another command finds it again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hypertier.errors import LabError
from hypertier.lab.processes import ProcessRecord

FILE_NAME = "state.json"


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


def forget_state(directory: Path) -> None:
    """Remove the state: nothing runs any more."""
    (directory / FILE_NAME).unlink(missing_ok=True)
