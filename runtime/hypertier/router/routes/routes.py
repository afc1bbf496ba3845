"""What may change while the router runs: strategies, the split between models, shadows. Values alone.

strategy: prefixaware        # of all that is not named below; default: --strategy
strategyByHeader: true       # x-hypertier-strategy chooses; default: false
models:
  llama:                     # what clients ask for
    strategy: session
    split: {llama-v1: 95, llama-v2: 5}
    rollback: {errorPercent: 5, ttftRatio: 1.5, minRequests: 50}
    shadow: {model: llama-v3, percent: 1}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash
import yaml

from hypertier.errors import ConfigError
from hypertier.router.settings import STRATEGIES

MAX_BYTES = 2**20
MAX_MIN_REQUESTS = 500
"""Of the latest 1000 or so that count."""
STRATEGY_HEADER = b"x-hypertier-strategy"


@dataclass(frozen=True, slots=True)
class Rollback:
    """How much worse a model of a split may do than the largest one: further requests that fail, in 1.0, and
    times as long to the first byte. Neither is judged before each has so many requests.
    """

    error_ratio: float = 0.05
    ttft_ratio: float = 1.5
    min_requests: int = 50


@dataclass(frozen=True, slots=True)
class Route:
    """What happens to requests for one model; `split` holds models and their shares, which add up to 1.0."""

    strategy: str | None = None
    split: tuple[tuple[bytes, float], ...] = ()
    shadow: bytes | None = None
    shadow_ratio: float = 0.0
    rollback: Rollback | None = None

    @property
    def stable(self) -> bytes:
        """The model with the largest share, the first of them."""
        return max(self.split, key=lambda entry: entry[1])[0]

    def variant(self, key: bytes) -> bytes | None:
        """The model for requests of this key, always the same for one key; None where nothing is split."""
        if not self.split:
            return None
        draw = _draw(key, 1)
        for model, share in self.split:
            draw -= share
            if draw < 0:
                return model
        return self.split[-1][0]

    def is_shadowed(self, key: bytes) -> bool:
        """A copy of requests of this key goes to the shadow."""
        return self.shadow is not None and _draw(key, 2) < self.shadow_ratio


@dataclass(frozen=True, slots=True)
class Routes:
    """The whole file; without one, nothing of it applies. Clients may choose one of `by_header`."""

    strategy: str | None = None
    by_header: frozenset[str] = frozenset()
    models: Mapping[bytes, Route] = field(default_factory=dict)

    def strategy_of(self, model: bytes | None, header: bytes | None) -> str | None:
        """The strategy for a request; None is `--strategy`. A header that names no other is no wish."""
        wished = header.decode("latin-1") if header is not None else None
        if wished in self.by_header:
            return wished
        route = self.models.get(model) if model is not None else None
        return route.strategy if route is not None and route.strategy is not None else self.strategy

    @property
    def split_names(self) -> Mapping[bytes, tuple[bytes, ...]]:
        """What clients ask for by a name that no replica need know, and the models behind it."""
        return {name: tuple(model for model, _ in route.split) for name, route in self.models.items()}

    @property
    def strategies(self) -> set[str]:
        """Those that it names."""
        named = {self.strategy, *(route.strategy for route in self.models.values())}
        return {name for name in named if name is not None}


def _draw(key: bytes, seed: int) -> float:
    return float(xxhash.xxh3_64_intdigest(key, seed) / 2**64)


def parse(text: bytes, has_kvaware: bool, file: str = "a file") -> Routes:
    """Read the text of `file`. Raises ConfigError that names the key in it."""
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # of dates that are none, ValueError
        raise ConfigError("--routes", file, f"YAML ({' '.join(str(error).split())[:200]})") from error
    top = _mapping("routes", {} if raw is None else raw, {"strategy", "strategyByHeader", "models"})
    by_header = top.get("strategyByHeader", False)
    if not isinstance(by_header, bool):
        raise ConfigError("strategyByHeader", by_header, "true or false")
    models = {} if top.get("models") is None else top["models"]
    if not isinstance(models, Mapping):
        raise ConfigError("models", models, "models by their name")
    known = {name for name in STRATEGIES if name != "kvaware" or has_kvaware}
    return Routes(
        _strategy("strategy", top.get("strategy"), has_kvaware),
        frozenset(known if by_header else ()),
        {_name(name): _route(f"models.{name}", route, has_kvaware) for name, route in models.items()},
    )


def _mapping(where: str, raw: Any, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise ConfigError(where, raw, f"a mapping with {', '.join(sorted(known))}")
    for key in raw:
        if key not in known:
            raise ConfigError(f"{where}.{key}", raw[key], f"one of {', '.join(sorted(known))}")
    return raw


def _strategy(where: str, name: Any, has_kvaware: bool) -> str | None:
    if name is None:
        return None
    if name not in STRATEGIES:
        raise ConfigError(where, name, f"one of {', '.join(STRATEGIES)}")
    if name == "kvaware" and not has_kvaware:
        raise ConfigError(
            where, name, "kvaware only of a router with --strategy kvaware: events are its ears"
        )
    return str(name)


def _route(where: str, raw: Any, has_kvaware: bool) -> Route:
    route = _mapping(where, raw, {"strategy", "split", "shadow", "rollback"})
    split = {} if route.get("split") is None else route["split"]
    if not isinstance(split, Mapping) or not all(_is_weight(weight) for weight in split.values()):
        raise ConfigError(f"{where}.split", split, "models with weights of 0 or more")
    total = sum(split.values())
    if split and total <= 0:
        raise ConfigError(f"{where}.split", dict(split), "a weight above 0")
    shadow = route.get("shadow")
    model, percent = None, 0.0
    if shadow is not None:
        shadow = _mapping(f"{where}.shadow", shadow, {"model", "percent"})
        percent = shadow.get("percent", 100)
        if not isinstance(shadow.get("model"), str) or not shadow["model"]:
            raise ConfigError(f"{where}.shadow.model", shadow.get("model"), "the name of a model")
        if not _is_weight(percent) or percent > 100:
            raise ConfigError(f"{where}.shadow.percent", percent, "0 to 100")
        model = _name(shadow["model"])
    return Route(
        _strategy(f"{where}.strategy", route.get("strategy"), has_kvaware),
        tuple((_name(name), weight / total) for name, weight in split.items() if weight),
        model,
        percent / 100,
        _rollback(where, route["rollback"], split) if route.get("rollback") is not None else None,
    )


def _rollback(where: str, raw: Any, split: Mapping[Any, Any]) -> Rollback:
    written = _mapping(f"{where}.rollback", raw, {"errorPercent", "ttftRatio", "minRequests"})
    if sum(bool(weight) for weight in split.values()) < 2:
        raise ConfigError(
            f"{where}.split", dict(split), "two models or more with a weight, for rollback to compare"
        )
    known = Rollback()
    percent = written.get("errorPercent", 100 * known.error_ratio)
    if not _is_weight(percent) or percent > 100:
        raise ConfigError(
            f"{where}.rollback.errorPercent", percent, "0 to 100, in points above the largest's"
        )
    ratio = written.get("ttftRatio", known.ttft_ratio)
    if not _is_weight(ratio) or ratio < 1:
        raise ConfigError(f"{where}.rollback.ttftRatio", ratio, "1 or more, times the largest's")
    least = written.get("minRequests", known.min_requests)
    if not _is_weight(least) or least != int(least) or not 10 <= least <= MAX_MIN_REQUESTS:
        raise ConfigError(f"{where}.rollback.minRequests", least, f"10 to {MAX_MIN_REQUESTS}")
    return Rollback(percent / 100, float(ratio), int(least))


def _name(raw: Any) -> bytes:
    """A model's, as it stands in requests; what UTF-8 can't spell is nobody's name."""
    return str(raw).encode("utf-8", "replace")


def _is_weight(number: Any) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < 1e9
