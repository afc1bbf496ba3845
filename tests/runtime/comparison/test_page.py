"""The page of a comparison: well-formed, alone, and with every figure in the plots' bounds."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from hypertier.comparison.compare import Figures, Plan, Report
from hypertier.comparison.page import page
from hypertier.comparison.statistics import Ratio
from hypertier.workload import Workload

positive = st.floats(1e-6, 1e6)
ratios = st.lists(positive, min_size=3, max_size=3).map(sorted).map(lambda v: Ratio(v[1], v[0], v[2]))


def report(seconds: float, ratio: Ratio, model: str = "m") -> Report:
    times = {"ttft_p50": seconds, "ttft_p90": 2 * seconds}
    plan = Plan(strategies=("roundrobin", "session"), rounds=3, workload=Workload())
    figures = (
        Figures("roundrobin", times, None, 4.0, 0.5, 0, {}),
        Figures("session", times, 0.5, 5.0, 0.5, 1, dict.fromkeys(times, ratio)),
    )
    return Report("http://127.0.0.1:1", model, plan, 49.0, figures, ("session: <broke> off",))


@given(seconds=positive, ratio=ratios)
def test_plots_are_well_formed_and_hold_all_that_they_draw(seconds: float, ratio: Ratio) -> None:
    plots = re.findall(r"<svg.*?</svg>", page(report(seconds, ratio)))

    assert len(plots) == 2
    for plot in map(ElementTree.fromstring, plots):
        for shape in plot.iter():
            for name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(shape.get(name, 0)) <= 760


def test_nothing_is_loaded_and_what_others_wrote_is_text() -> None:
    text = page(report(0.1, Ratio(1.5, 1.3, 1.7), "<script>"), ["failed: a > b"])

    assert "<script" not in text
    assert not re.search(r"(src|href)=|url[(]|@import", text)
    assert "&lt;broke&gt; off" in text
    assert "failed: a &gt; b" in text
    assert text.count("1.50, later") == 2
