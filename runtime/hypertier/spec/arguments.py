"""Options on an engine's command line, found as vLLM's parser finds them.

`--max_model_len 8192`, `--max-model-len=8192`, `--max-model-len 8192` and `--max-model 8192` are one option
to it, and the last one wins (vLLM 0.32, `vllm/utils/argparse_utils.py`, read 2026-12-01).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hypertier.catalog.vllm_options import OPTIONS

PLACES = ("spec.worker.args", "spec.pdSpec.prefillSpec.args", "spec.pdSpec.decodingSpec.args")
"""Where a manifest gives arguments to engines: to all, and more to those that prefill or decode alone."""


@lru_cache(maxsize=4096)
def option_name(word: str) -> str:
    """The option that a word begins, in full, with `-` for `_`; behind its first dot are keys of JSON.

    What is short for several options, or for none, stays as it is.
    """
    head, dot, keys = as_written(word).partition(".")
    return _in_full(head) + dot + keys


def as_written(word: str) -> str:
    """The option that a word begins, with `-` for `_` up to the first dot: also of another program."""
    name = word.partition("=")[0]
    if not name.startswith("--"):
        return name
    head, dot, keys = name.partition(".")
    return head.replace("_", "-") + dot + keys


def _in_full(name: str) -> str:
    if name in OPTIONS or len(name) <= len("--") or not name.startswith("--"):
        return name
    meant = [option for option in OPTIONS if option.startswith(name)]
    return meant[0] if len(meant) == 1 else name


def find_option(words: Sequence[str], *names: str) -> tuple[int, str] | None:
    """Where the value of an option stands and what it is, or None; for `--name=value` it is the tail."""
    found = None
    for index, word in enumerate(words):
        if option_name(word) not in names:
            continue
        _, equals, tail = word.partition("=")
        if equals:
            found = (index, tail)
        elif index + 1 < len(words):
            found = (index + 1, words[index + 1])
    return found


def option_value(words: Sequence[str], *names: str) -> str | None:
    """The value of an option, or None."""
    found = find_option(words, *names)
    return None if found is None else found[1]
