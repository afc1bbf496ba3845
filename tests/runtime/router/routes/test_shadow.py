"""What copies of requests may hold."""

from __future__ import annotations

import pytest

from hypertier.router.routes.shadow import MAX_BODY_BYTES, MAX_IN_FLIGHT, ShadowClient, Shadows


@pytest.mark.parametrize(
    ("num_in_flight", "num_bytes", "expected"),
    [
        pytest.param(0, MAX_BODY_BYTES, True, id="largest"),
        pytest.param(0, MAX_BODY_BYTES + 1, False, id="larger"),
        pytest.param(MAX_IN_FLIGHT - 1, 1, True, id="last"),
        pytest.param(MAX_IN_FLIGHT, 1, False, id="one-more"),
    ],
)
def test_copies_are_bounded_and_what_is_not_copied_is_counted(
    num_in_flight: int, num_bytes: int, expected: bool
) -> None:
    shadows = Shadows()
    for _ in range(num_in_flight):
        ShadowClient(shadows)

    admitted = shadows.admits(num_bytes)

    assert admitted is expected
    assert shadows.ended["skipped"] == (0 if expected else 1)
