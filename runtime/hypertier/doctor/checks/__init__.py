"""What is asked of AWS about a deployment, a module for each part of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from hypertier.doctor.check import Check
from hypertier.doctor.checks import contents, eks, hyperpod, network, quotas, stacks, stored, zones
from hypertier.spec.deployment import Deployment


def checks_of(deployment: Deployment, account: str, now: datetime) -> tuple[Check, ...]:
    """Every check of `deployment`, deployed to `account` from `now` on, in the order of the report."""
    return tuple(_checks(deployment, account, now))


def _checks(deployment: Deployment, account: str, now: datetime) -> Iterator[Check]:
    yield from stacks.checks(deployment, account)
    yield from quotas.checks(deployment)
    yield from zones.checks(deployment)
    yield from network.checks(deployment)
    yield from eks.checks(deployment)
    yield from hyperpod.checks(deployment, now)
    yield from stored.checks(deployment)
    yield from contents.checks(deployment)
