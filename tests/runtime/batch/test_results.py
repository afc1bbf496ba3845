from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypertier.batch.results import Output, Result, answered
from hypertier.errors import BatchError

GOOD = Result("a", "batch-1", 200, b'{"id": "x"}')
FAILED = Result("b", "batch-2", 400, b"no JSON", "too long")


def test_answers_and_failures_stand_in_openais_form(tmp_path: Path) -> None:
    with Output(tmp_path / "out") as output:
        for result in (GOOD, FAILED, Result("c", "batch-3", None, b"", "closed")):
            output.add(result)

    assert json.loads((tmp_path / "out").read_text()) == {
        "id": "batch-1",
        "custom_id": "a",
        "response": {"status_code": 200, "request_id": "batch-1", "body": {"id": "x"}},
        "error": None,
    }
    one, other = map(json.loads, (tmp_path / "out.errors").read_text().splitlines())
    assert one["response"] == {"status_code": 400, "request_id": "batch-2", "body": "no JSON"}
    assert one["error"] == {"code": "status_400", "message": "too long"}
    assert (other["response"], other["error"]) == (None, {"code": "no_answer", "message": "closed"})


def test_without_failures_there_is_no_file_of_them(tmp_path: Path) -> None:
    with Output(tmp_path / "out") as output:
        output.add(GOOD)

    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_line_that_broke_off_anywhere_is_cut_and_sent_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "out"
    path.write_bytes(GOOD.line() + Result("b", "batch-2", 200, b"{}").line()[:cut])

    assert answered(path) == {"a"}
    assert path.read_bytes() == GOOD.line()


@pytest.mark.parametrize(
    "text",
    [
        "precious",
        "precious\n",
        '{"custom_id": "a"}\n',
        '{"custom_id": "a", "response": null}\n',
        "[1]\n",
        "1\n",
    ],
)
def test_a_file_that_is_no_output_is_refused_and_stays_as_it_was(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine"
    path.write_text(text)

    with pytest.raises(BatchError, match="mine:1: this is no answer of a batch; --output names a new file"):
        answered(path)

    assert path.read_text() == text


def test_a_place_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(BatchError, match="no/such/out can't be written: No such file"):
        Output(tmp_path / "no" / "such" / "out").__enter__()
    with pytest.raises(BatchError, match="can't be read and written: Is a directory"):
        answered(tmp_path)
