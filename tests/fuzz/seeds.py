"""What fuzzing begins with: chance alone never writes a head that ends, or a batch of events."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path


def plant(arguments: Sequence[str], inputs: Iterable[bytes]) -> None:
    """Write the inputs into FOLDER, the first that is no flag; a file in its place is an input of itself."""
    folder = next((Path(each) for each in arguments if not each.startswith("-")), None)
    if folder is not None and not folder.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for data in inputs:
            (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
