"""How many engines there may be: `scaling` of a deployment file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypertier.errors import ConfigError
from hypertier.spec.quantities import parse_seconds
from hypertier.spec.schedules import ScalingSchedule, check_schedules

WHOLE = "engine"
ROLES = ("prefill", "decode")
BY_OPERATOR = "none with serving: operator, where pdSpec.autoScalingSpec of the manifest scales"
NO_ROLES = "none, as no endpoint has a pdSpec; scaling.min and scaling.max are of all engines"
ROLES_ALONE = "every endpoint has a pdSpec, whose engines scale by scaling.prefill and scaling.decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The fewest and the most engine replicas of one kind."""

    min: int = 1
    max: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToZero:
    """With a least of 0: after how long without a request no replica is left, and how routers hold.

    They hold at most `max_held` requests each, none for longer than `hold`.
    """

    idle: str = "30m"
    hold: str = "10m"
    max_held: int = 1024

    def __post_init__(self) -> None:
        idle = parse_seconds("scaling.toZero.idle", self.idle)
        if idle % 60 or not 300 <= idle <= 86_400:
            expected = "5m to 24h, in whole minutes: an engine that wakes costs minutes"
            raise ConfigError("scaling.toZero.idle", self.idle, expected)
        if not 1 <= self.hold_seconds <= 86_400:
            raise ConfigError("scaling.toZero.hold", self.hold, "1s to 24h: an engine takes minutes to start")
        if not 1 <= self.max_held <= 100_000:
            raise ConfigError("scaling.toZero.maxHeld", self.max_held, "1 to 100000 requests of each process")

    @property
    def idle_minutes(self) -> int:
        """Minutes without a request after which no replica is left."""
        return parse_seconds("scaling.toZero.idle", self.idle) // 60

    @property
    def hold_seconds(self) -> int:
        """The longest that a request is held."""
        return parse_seconds("scaling.toZero.hold", self.hold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How many engine replicas, when other bounds hold, and what a month may cost in US dollars.

    `prefill` and `decode` are of the engines of endpoints with a `pdSpec`; `min`, `max` and `schedules` of
    all others.
    """

    min: int = 1
    max: int = 1
    prefill: Bounds | None = None
    decode: Bounds | None = None
    to_zero: ToZero | None = None
    schedules: tuple[ScalingSchedule, ...] = ()
    monthly_budget_usd: float | None = None

    def __post_init__(self) -> None:
        for component in (WHOLE, *ROLES):
            setting, bounds = setting_of(component), self.bounds(component)
            if bounds is not None and bounds.min < (0 if component == WHOLE else 1):
                raise ConfigError(f"{setting}.min", bounds.min, "1 or more replicas")
            if bounds is not None and bounds.max < 1:
                raise ConfigError(f"{setting}.max", bounds.max, "1 or more replicas")
            if bounds is not None and bounds.max < bounds.min:
                expected = f"at least {setting}.min, which is {bounds.min}"
                raise ConfigError(f"{setting}.max", bounds.max, expected)
        budget = self.monthly_budget_usd
        if budget is not None and not 0 < budget < float("inf"):
            raise ConfigError("scaling.monthlyBudgetUsd", budget, "US dollars, more than 0")
        if self.to_zero is not None and self.zero_setting is None:
            expected = "scaling.min: 0 beside it, or a schedule with minReplicas: 0"
            raise ConfigError("scaling.toZero", "a section", expected)
        check_schedules(self.schedules, self.min, self.max)

    @property
    def zero_setting(self) -> str | None:
        """The key by which there may be no replica, always or from a schedule on; None where one stays."""
        if self.min == 0:
            return "scaling.min"
        named = (schedule.name for schedule in self.schedules if schedule.min_replicas == 0)
        return next((f"scaling.schedules.{name}.minReplicas" for name in named), None)

    @property
    def sleeps(self) -> ToZero | None:
        """How engines go to no replica and come back; None where one always stays."""
        return (self.to_zero or ToZero()) if self.zero_setting is not None else None

    def bounds(self, component: str) -> Bounds | None:
        """Those of a kind of engines: `engine`, which always has some, `prefill` or `decode`."""
        apart = {"prefill": self.prefill, "decode": self.decode}
        return apart[component] if component in apart else Bounds(min=self.min, max=self.max)

    def is_stepped(self, component: str = WHOLE) -> bool:
        """Whether the hook steps replicas: the bounds leave room for it, or schedules set some."""
        bounds = self.bounds(component)
        has_room = bounds is not None and bounds.max > bounds.min
        return has_room or (component == WHOLE and bool(self.schedules))

    def least(self, component: str = WHOLE) -> int:
        """The fewest replicas that any of the bounds allow."""
        bounds = self.bounds(component) or Bounds()
        if component != WHOLE:
            return bounds.min
        return min([bounds.min, *(schedule.bounds(self.min, self.max)[0] for schedule in self.schedules)])

    def most(self, component: str = WHOLE) -> int:
        """The most replicas that any of the bounds allow."""
        bounds = self.bounds(component) or Bounds()
        if component != WHOLE:
            return bounds.max
        return max([bounds.max, *(schedule.bounds(self.min, self.max)[1] for schedule in self.schedules)])


def setting_of(component: str) -> str:
    """The key that holds the bounds of a kind of engines."""
    return "scaling" if component == WHOLE else f"scaling.{component}"


def refuse_hook(scaling: Scaling, component: str, why: str) -> None:
    """Refuse bounds that the hook would step replicas of a kind between, where it can't; `why` not.

    Raises:
        ConfigError: names the setting that brings the hook.
    """
    if component == WHOLE and scaling.schedules:
        names = [schedule.name for schedule in scaling.schedules]
        raise ConfigError("scaling.schedules", names, f"none: {why}")
    setting, bounds = setting_of(component), scaling.bounds(component)
    if bounds is not None and bounds.max > bounds.min:
        raise ConfigError(f"{setting}.max", bounds.max, f"{bounds.min}, which is {setting}.min: {why}")


def check_scaling(scaling: Scaling, serving: str, splits: Sequence[bool]) -> None:
    """Refuse bounds of engines that no endpoint has, or that AWS's operator would not hold.

    `splits` says of each endpoint whether it has a `pdSpec`.

    Raises:
        ConfigError: names them.
    """
    if scaling.min == 0 and serving == "operator":
        raise ConfigError("scaling.min", 0, "1 with serving: operator, whose router holds no request")
    if scaling.min == 0 and all(splits):
        raise ConfigError("scaling.min", 0, f"1: {ROLES_ALONE}, 1 or more")
    for role in ROLES:
        bounds = scaling.bounds(role)
        if bounds is None:
            continue
        got = {"min": bounds.min, "max": bounds.max}
        if serving == "operator":
            raise ConfigError(setting_of(role), got, BY_OPERATOR)
        if not any(splits):
            raise ConfigError(setting_of(role), got, NO_ROLES)
    if serving != "operator" and all(splits):
        refuse_hook(scaling, WHOLE, ROLES_ALONE)
