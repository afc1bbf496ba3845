from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.errors import ManifestError
from hypertier.simulation.trace import BLOCK_TOKENS, TracedRequest, merged, read_trace, stretched, with_load

ROW: dict[str, Any] = {"timestamp": 1500, "input_length": 513, "output_length": 7, "hash_ids": [4, 9]}


def write(path: Path, *rows: object) -> Path:
    file = path / "trace.jsonl"
    file.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8"
    )
    return file


def test_a_trace_is_read_in_seconds_and_in_order_of_time(tmp_path: Path) -> None:
    file = write(tmp_path, ROW, {**ROW, "timestamp": 500, "session": "a"}, "")

    first, second = read_trace(file)

    assert first == TracedRequest(0.5, 513, 7, (4, 9), "a")
    assert second == TracedRequest(1.5, 513, 7, (4, 9), "4-9")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("{", id="no JSON"),
        pytest.param([1], id="no object"),
        pytest.param({k: v for k, v in ROW.items() if k != "hash_ids"}, id="a field less"),
        pytest.param({**ROW, "hash_ids": [4]}, id="a block less"),
        pytest.param({**ROW, "hash_ids": ["x", "y"]}, id="blocks that are no numbers"),
        pytest.param({**ROW, "timestamp": -1}, id="before the beginning"),
        pytest.param({**ROW, "timestamp": float("nan")}, id="no time"),
        pytest.param({**ROW, "input_length": 0, "hash_ids": []}, id="an empty prompt"),
        pytest.param({**ROW, "output_length": float("inf")}, id="an endless answer"),
    ],
)
def test_what_is_no_request_is_refused_with_its_line(row: object, tmp_path: Path) -> None:
    file = write(tmp_path, ROW, row)

    with pytest.raises(
        ManifestError, match=r"trace\.jsonl:2:(\d+:)? .*expected \{\"timestamp\": milliseconds"
    ):
        read_trace(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", ": holds no request; expected one JSON object a line", id="empty"),
        pytest.param(b"\n\n", ": holds no request; expected one JSON object a line", id="blank lines"),
        pytest.param(b"\n\xff\xfe", ":2: is not UTF-8 text", id="no text"),
        pytest.param(None, ": cannot be read: No such file or directory", id="no file"),
    ],
)
def test_a_file_without_a_request_is_refused_and_named_once(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "trace.jsonl"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ManifestError) as error:
        read_trace(file)

    assert str(error.value) == f"{file}{said}"


def test_traces_side_by_side_share_no_block_and_no_session() -> None:
    one = [TracedRequest(0.0, 600, 1, (0, 1), "a"), TracedRequest(2.0, 600, 1, (0, 2), "a")]

    both = merged([one, one])

    assert [request.at for request in both] == [0.0, 0.0, 2.0, 2.0]
    assert {request.blocks[0] for request in both} == {0, 3}
    assert {request.session for request in both} == {"0/a", "1/a"}


@given(st.floats(0.1, 10.0), st.lists(st.tuples(st.floats(0, 1000), st.integers(1, 5000)), min_size=2))
def test_a_load_is_work_over_time(capacity: float, sent: list[tuple[float, int]]) -> None:
    sent = [*sent, (2000.0, 1)]
    trace = [TracedRequest(at, tokens, 1, (0,) * -(-tokens // BLOCK_TOKENS)) for at, tokens in sorted(sent)]

    loaded = with_load(trace, capacity, lambda start, end: float(end - start))

    span = loaded[-1].at - loaded[0].at
    assert sum(request.input_tokens for request in loaded) == pytest.approx(capacity * span)


def test_requests_at_one_moment_cannot_be_squeezed() -> None:
    trace = [TracedRequest(1.0, 5, 1, (0,))]

    assert with_load(trace, 1.0, lambda start, end: 1.0) == trace
    assert stretched(trace, 2.0)[0].at == 2.0
