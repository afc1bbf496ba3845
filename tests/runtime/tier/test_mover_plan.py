"""What follows from settings."""

from __future__ import annotations

import pytest

from hypertier.tier import mover_plan
from hypertier.tier.mover_plan import MoverPlan, build_entries, gather_seconds
from hypertier.tier.settings import TierSettings
from hypertier.tier.tenants import Terms


@pytest.mark.parametrize(
    ("ttl_seconds", "tenants", "expected"),
    [
        (86_400, {}, 2.0),
        (8, {}, 0.5),
        (86_400, {"acme": Terms(ttl_seconds=16)}, 1.0),
        (86_400, {"acme": Terms(quota_bytes=10**9)}, 0.25),
    ],
    ids=["long lives", "short lives", "a tenant's short lives", "quotas"],
)
def test_upkeep_is_put_off_no_longer_than_lives_and_quotas_allow(
    ttl_seconds: int, tenants: dict[str, Terms], expected: float
) -> None:
    settings = TierSettings("redis://l2:6379", ttl_seconds=ttl_seconds, tenants=tenants)

    assert gather_seconds(settings) == expected


def test_engines_of_both_sides_of_a_rollout_see_nothing_of_each_other_where_entries_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = MoverPlan(TierSettings("redis://l2:6379"), "org/model", {}, 1 << 20)
    _, new = build_entries(plan, lambda: b"root")

    with monkeypatch.context() as patched:
        patched.setattr(mover_plan, "VERSION", mover_plan.VERSION - 1)
        _, old = build_entries(plan, lambda: b"root")
        names = old.names(b"k" * 40)

    assert not set(names) & set(new.names(b"k" * 40))
    assert new.names(b"k" * 40) == build_entries(plan, lambda: b"root")[1].names(b"k" * 40)
