"""Traffic as values: who asked when, with which prompt, and how traces of it are read and reshaped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypertier.errors import ManifestError

FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")
BLOCK_TOKENS = 512
"""Tokens of a block in Mooncake's traces, and in ours.

https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release/traces (read 2026-12-01)
"""


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """One request: `at` in seconds, lengths in tokens.

    `blocks[i]` names the content of the prompt up to and with its i-th block of `BLOCK_TOKENS`; the last
    block may be a part. `session` is what the client would send as its session, empty for none.
    """

    at: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    session: str = ""


Trace = Sequence[TracedRequest]


def read_trace(path: Path) -> list[TracedRequest]:
    """Read a trace in Mooncake's form: one JSON object a line, `timestamp` in milliseconds.

    Each line has `timestamp`, `input_length`, `output_length` and `hash_ids`; `session` is ours and optional.
    Where it is absent, the prompt's first two blocks stand for it, as a client's conversation would.

    Raises:
        ManifestError: a line is something else; names the file, the line and what was expected.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(str(path), None, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ManifestError(str(path), line, "is not UTF-8 text") from error
    requests = [_read_line(path, i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not requests:
        raise ManifestError(str(path), None, "holds no request; expected one JSON object a line")
    return sorted(requests, key=lambda request: request.at)


def _read_line(path: Path, number: int, line: str) -> TracedRequest:
    expected = (
        '{"timestamp": milliseconds, "input_length": tokens, "output_length": tokens, '
        f'"hash_ids": one whole number for each {BLOCK_TOKENS} tokens of input}}'
    )
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg}; expected {expected}"
        raise ManifestError(str(path), number, problem, error.colno) from None
    except (ValueError, RecursionError):
        raise ManifestError(str(path), number, f"is not JSON; expected {expected}") from None
    missing = [key for key in FIELDS if not isinstance(row, dict) or key not in row]
    if missing:
        raise ManifestError(str(path), number, f"has no {', '.join(missing)}; expected {expected}")
    try:
        at, num_input = float(row["timestamp"]), int(row["input_length"])
        num_output = int(row["output_length"])
        blocks = tuple(int(block) for block in row["hash_ids"])
        session = str(row.get("session", "-".join(map(str, blocks[:2]))))
    except (ValueError, TypeError, OverflowError) as error:
        raise ManifestError(str(path), number, f"is no request ({error}); expected {expected}") from None
    in_bounds = 0 <= at < float("inf") and num_input >= 1 and num_output >= 0
    if not in_bounds or len(blocks) != -(-num_input // BLOCK_TOKENS):
        problem = f"{num_input} tokens of input at {at:g} ms with {len(blocks)} hash_ids; expected {expected}"
        raise ManifestError(str(path), number, problem)
    return TracedRequest(at / 1000, num_input, num_output, blocks, session)


def stretched(trace: Trace, factor: float) -> list[TracedRequest]:
    """The same requests, `factor` times as far apart."""
    return [replace(request, at=request.at * factor) for request in trace]


def with_load(
    trace: Trace, capacity: float, prefill_seconds: Callable[[int, int], float]
) -> list[TracedRequest]:
    """The same requests, so close that computing every prompt whole keeps `capacity` replicas busy.

    `prefill_seconds(start, end)` is an engine's time for a part of a prompt.
    """
    work = sum(prefill_seconds(0, request.input_tokens) for request in trace)
    span = trace[-1].at - trace[0].at
    return stretched(trace, work / (capacity * span)) if span > 0 else list(trace)


def merged(traces: Iterable[Trace]) -> list[TracedRequest]:
    """Several users of one cluster: the traces side by side, sharing no block and no session."""
    requests: list[TracedRequest] = []
    offset = 0
    for number, trace in enumerate(traces):
        for request in trace:
            blocks = tuple(block + offset for block in request.blocks)
            requests.append(replace(request, blocks=blocks, session=f"{number}/{request.session}"))
        offset += 1 + max((max(request.blocks, default=0) for request in trace), default=0)
    return sorted(requests, key=lambda request: request.at)
