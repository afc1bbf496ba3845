from __future__ import annotations

from hypertier.lab.differences import Difference, summary, table


def test_the_table_has_one_line_for_equal_differences() -> None:
    difference = Difference("--x.a.b", "1", None, "why not")

    assert table([difference, difference]) == [
        "setting   in the manifest  here  why",
        "--------  ---------------  ----  ---",
        "--x ...b  1                -     why not",
    ]


def test_the_summary_has_what_the_manifest_set_once_by_reason() -> None:
    differences = [
        Difference("--port", "80", "1234", "one machine"),
        Difference("--port", "80", "1235", "one machine"),
        Difference("--host", "0.0.0.0", "127.0.0.1", "one machine"),
        Difference("--eager", None, "", "no graphs"),
        Difference("--x.a.b", "1", None, "why not"),
    ]

    assert summary(differences, 100) == [
        "--port 80 -> 1234, --host 0.0.0.0 -> 127.0.0.1: one machine",
        "b 1 -> -: why not",
    ]
