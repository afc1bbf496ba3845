"""Whether the models behind a split do as well as the largest of them; one that does not gets no more.

Each model's latest requests are compared with those of the largest: the share that failed, and how long the
first byte took. A difference counts where it is above what the file allows and above what chance makes of so
few requests. What was found bad stays out until the file says something else of that name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from hypertier.router.routes.routes import Rollback, Route, Routes
from hypertier.router.telemetry.decisions import Decision

FAILURES = ("5xx", "broken")
"""What a model is to blame for; not 4xx, nor clients that went away."""
LATEST = 1000
"""So many requests count, about: what was before fades."""
LEAST_TIMED = 10
"""Of fewer times it is not known how much they vary."""
SIGMAS = 4.0
"""Of chance, above which a difference of times is one; it is looked for with every request."""
UNLIKELY = math.exp(-(SIGMAS**2) / 2)
"""As likely, at most, are failures by chance that are taken for a difference."""


class Arm:
    """One model's latest requests: how many, how many failed, and the logarithms of first bytes' times.

    `num_ended` are all that there were.
    """

    def __init__(self) -> None:
        self.num_ended = 0
        self.num = 0.0
        self.num_failed = 0.0
        self.num_timed = 0.0
        self._sum = 0.0
        self._squares = 0.0

    def add(self, status: str, first_byte_seconds: float | None) -> None:
        """One request ended; clients that went away tell nothing."""
        if status == "client_closed":
            return
        fade = 1.0 - 1.0 / LATEST
        self.num_ended += 1
        self.num = self.num * fade + 1.0
        self.num_failed = self.num_failed * fade + (status in FAILURES)
        if first_byte_seconds is not None and status == "2xx":
            log = math.log(max(first_byte_seconds, 1e-6))
            self.num_timed = self.num_timed * fade + 1.0
            self._sum = self._sum * fade + log
            self._squares = self._squares * fade + log * log

    @property
    def failed_ratio(self) -> float:
        """The share that failed."""
        return self.num_failed / self.num if self.num else 0.0

    @property
    def mean_log(self) -> float:
        """Of first bytes' times."""
        return self._sum / self.num_timed if self.num_timed else 0.0

    @property
    def variance(self) -> float:
        """Of the same logarithms."""
        return max(0.0, self._squares / self.num_timed - self.mean_log**2) if self.num_timed else 0.0


def verdict(canary: Arm, stable: Arm, limits: Rollback) -> str | None:
    """`errors` or `ttft`, where the canary is worse than allowed by more than chance; None else."""
    if min(canary.num_ended, stable.num_ended) < limits.min_requests:
        return None
    allowed = min(1.0, (stable.num_failed + 1.0) / (stable.num + 2.0) + limits.error_ratio)
    if _chance(canary.num, canary.failed_ratio, allowed) < UNLIKELY:
        return "errors"
    if min(canary.num_timed, stable.num_timed) < LEAST_TIMED:
        return None
    chance = math.sqrt(canary.variance / canary.num_timed + stable.variance / stable.num_timed)
    if canary.mean_log - stable.mean_log > math.log(limits.ttft_ratio) + SIGMAS * chance:
        return "ttft"
    return None


def _chance(num: float, ratio: float, allowed: float) -> float:
    """How likely so large a share of `num` is, at most, where `allowed` is to fail (Chernoff's bound)."""
    if ratio <= allowed:
        return 1.0
    more = ratio * math.log(ratio / allowed)
    less = (1.0 - ratio) * math.log((1.0 - ratio) / (1.0 - allowed)) if ratio < 1.0 else 0.0
    return math.exp(-num * (more + less))


class Canaries:
    """Hears of every request that ended, and has `use` get the routes without the models that did worse.

    `report` is told of each. `rolled_back` counts them by name, model and cause.
    """

    def __init__(self, *, use: Callable[[Routes], None], report: Callable[[str], None]) -> None:
        self.rolled_back: Counter[tuple[str, str, str]] = Counter()
        self.fell_back: Counter[tuple[str, str]] = Counter()
        """Requests by the name that they asked for, and the model drawn for them that no replica had."""
        self.out: dict[bytes, set[bytes]] = {}
        """By name, the models that get nothing."""
        self._use = use
        self._report = report
        self._written = Routes()
        self._arms: dict[bytes, dict[bytes, Arm]] = {}
        self._missed: set[tuple[bytes, bytes]] = set()

    def follow(self, routes: Routes) -> None:
        """The file says this; of names of which it says what it said before, everything stays known."""
        before, self._written = self._written, routes
        self._missed.clear()
        kept = {name for name, route in routes.models.items() if before.models.get(name) == route}
        self.out = {name: models for name, models in self.out.items() if name in kept}
        self._arms = {
            name: self._arms.get(name, {}) if name in kept else {}
            for name, route in routes.models.items()
            if route.rollback is not None and len(route.split) > 1
        }
        for name, arms in self._arms.items():
            for model, _ in routes.models[name].split:
                arms.setdefault(model, Arm())
        self._use(self._without())

    def hear(self, decision: Decision) -> None:
        """A request ended."""
        if decision.model is not None and self._arms:
            self.ended(decision.model, decision.fault, decision.first_byte_seconds)

    def ended(self, model: bytes, status: str, first_byte_seconds: float | None = None) -> None:
        """A request for this model ended so."""
        for name, arms in self._arms.items():
            arm = arms.get(model)
            if arm is not None:
                arm.add(status, first_byte_seconds)
                self._judge(name, arms, model)

    def fall_back(self, name: bytes, model: bytes, instead: bytes) -> None:
        """A request for this name was to go to a model that no replica has, and goes to another."""
        names = [each.decode("utf-8", "replace") for each in (name, model, instead)]
        self.fell_back[names[0], names[1]] += 1
        if (name, model) not in self._missed:
            self._missed.add((name, model))
            self._report(
                f"no replica has {names[1]}, a model of the split of {names[0]}: {names[2]} answers instead"
            )
        self.ended(model, "5xx")

    def _judge(self, name: bytes, arms: dict[bytes, Arm], model: bytes) -> None:
        route = self._written.models[name]
        stable = route.stable
        if route.rollback is None or model == stable or model in self.out.get(name, ()):
            return
        cause = verdict(arms[model], arms[stable], route.rollback)
        if cause is None:
            return
        self.out.setdefault(name, set()).add(model)
        names = [each.decode("utf-8", "replace") for each in (name, model, stable)]
        self.rolled_back[names[0], names[1], cause] += 1
        self._report(
            f"{names[1]} gets no more requests for {names[0]} ({cause}): {_said(arms[model])}; "
            f"{names[2]}: {_said(arms[stable])}"
        )
        self._use(self._without())

    def _without(self) -> Routes:
        """What the file says, the shares of those that are out given to the stable one."""
        models = dict(self._written.models)
        for name, out in self.out.items():
            models[name] = _routed_around(models[name], out)
        return replace(self._written, models=models)


def _routed_around(route: Route, out: set[bytes]) -> Route:
    """Keys of the models that stay, stay with them."""
    stable = route.stable
    return replace(
        route, split=tuple((stable if model in out else model, share) for model, share in route.split)
    )


def _said(arm: Arm) -> str:
    typical = f", first byte typically {math.exp(arm.mean_log):.3f} s" if arm.num_timed else ""
    return f"{100 * arm.failed_ratio:.1f} % of the latest {arm.num:.0f} failed{typical}"
