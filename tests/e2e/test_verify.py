"""`hypertier verify` against real vLLM behind the router, as the charts render both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hypertier.lab.lab import Lab
from hypertier.verification.checks import HIT_RATIO
from hypertier.verification.endpoint import Endpoint
from hypertier.verification.verify import Report, Verifier, Wish

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

WISH = Wish(prompt_tokens=200, timeout_seconds=600)


def told(report: Report) -> list[tuple[str, str]]:
    return [(check.name, check.result) for check in report.checks]


def test_real_engines_pass_every_check_and_a_restarted_one_has_the_prompt_from_l2(lab: Lab) -> None:
    verifier = Verifier(Endpoint(lab.plan.router_url), WISH)
    report = verifier.run()
    lab.stop(["engine-0"])
    lab.start(["engine-0"])
    restarted = Endpoint(lab.plan.replica_urls[0])
    again = Verifier(restarted, replace(WISH, asks_l2=False), salt=verifier.salt).run()

    assert {result for _, result in told(report)} == {"passed"}, report
    assert report.asked[0].answer.cached_tokens == 0
    assert len({asked.answer.replica for asked in report.asked}) == 2
    assert again.asked[0].answer.holds(HIT_RATIO), again
    assert again.asked[0].answer.tokens == report.asked[0].answer.tokens


def test_a_model_that_real_engines_do_not_serve_is_named(lab: Lab) -> None:
    report = Verifier(Endpoint(lab.plan.router_url), replace(WISH, model="another")).run()

    assert told(report)[0] == ("endpoint", "failed")
    assert lab.plan.model_name in report.checks[0].why
