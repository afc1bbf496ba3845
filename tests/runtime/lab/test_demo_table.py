from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hypertier.lab.client import Answer
from hypertier.lab.demo_table import Row, broken_promises, table
from hypertier.lab.measuring import Measurement


def measured(source: str, ttft_seconds: float = 0.1, text: str = "abc", cached: int = 96) -> Measurement:
    answer = Answer(text, "127.0.0.1:1", 100, cached, ttft_seconds, 1.0)
    return Measurement(answer, "engine-0", source, cached, ttft_seconds)


GOOD = [
    Row("1  first time", "none", measured("none", 3.5, cached=0)),
    Row("2  again", "GPU", measured("GPU")),
    Row("3  restarted", "L2", measured("L2", 0.25)),
]


def test_the_table_shows_each_request_under_a_heading() -> None:
    assert table(GOOD) == [
        "request        served by  hit source  cached tokens  TTFT",
        "-------------  ---------  ----------  -------------  ------",
        "1  first time  engine-0   none        0 of 100       3.50 s",
        "2  again       engine-0   GPU         96 of 100      0.10 s",
        "3  restarted   engine-0   L2          96 of 100      0.25 s",
    ]


def test_nothing_is_said_when_all_is_well() -> None:
    assert list(broken_promises(GOOD)) == []


def test_the_first_answer_may_differ_in_its_last_digits() -> None:
    assert list(broken_promises([replace(GOOD[0], measured=measured("none", 3.5, "x")), *GOOD[1:]])) == []


@pytest.mark.parametrize(
    ("spoiled", "message"),
    [
        pytest.param(
            measured("none"), "request 3  restarted: the hit source is none; expected L2", id="miss"
        ),
        pytest.param(measured("L2", 4.0), "its TTFT, 4.00 s, is not below 3.50 s", id="slow"),
        pytest.param(measured("L2", 0.1, "xyz"), "the answers to one prompt differ", id="other answer"),
    ],
)
def test_what_did_not_come_out_is_named(spoiled: Measurement, message: str) -> None:
    rows = [*GOOD[:2], replace(GOOD[2], measured=spoiled)]

    assert re.search(re.escape(message), "; ".join(broken_promises(rows)))
