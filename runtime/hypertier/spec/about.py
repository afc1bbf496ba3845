"""What a field of a manifest is, said where it is declared: a description, bounds, and since when it exists.

`hypertier lint` reads the bounds, `hypertier schema` all of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


def about(
    doc: str,
    *,
    manifest: str | None = None,
    since: str | None = None,
    alpha: bool = True,
    choices: Sequence[str] | None = None,
    pattern: str | None = None,
    like: str | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
    max_length: int | None = None,
    max_items: int | None = None,
    open_ended: bool = False,
    shape: type | None = None,
) -> Mapping[str, Any]:
    """Metadata of a dataclass field.

    Args:
        doc: what the field is for, in one line.
        manifest: its key, where that does not follow from the attribute's name.
        since: the first operator that has it, where that is newer than 3.2.
        alpha: whether `v1alpha1` has it.
        choices: the values that the API server takes.
        pattern: a regular expression that the API server searches for.
        like: the pattern in words, for messages.
        minimum: the least number.
        maximum: the greatest number.
        max_length: characters of a text.
        max_items: entries of a list.
        shape: the type of a subtree that is handed on as a plain mapping.
        open_ended: whether further keys are expected inside, as in a Kubernetes object's metadata.
    """
    said = {
        "doc": doc,
        "manifest": manifest,
        "since": since,
        "alpha": None if alpha else False,
        "choices": tuple(choices) if choices is not None else None,
        "pattern": pattern,
        "like": like,
        "minimum": minimum,
        "maximum": maximum,
        "max_length": max_length,
        "max_items": max_items,
        "open_ended": open_ended or None,
        "shape": shape,
    }
    return {key: value for key, value in said.items() if value is not None}


def optional(doc: str, **bounds: Any) -> Any:
    """A field that need not be written; None where it is not."""
    return dataclasses.field(default=None, metadata=about(doc, **bounds))
