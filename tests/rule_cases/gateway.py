"""Rules of gateway, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import Case

from hypertier.spec.rules.rule import GATEWAY

CASES = [
    Case("gateway-without-authentication", {"spec.auth": {}}, "spec.auth.jwt", kind=GATEWAY),
    Case(
        "gateway-schedulers",
        {"spec.schedulers": [{"modelName": str(number)} for number in range(101)]},
        "spec.schedulers",
        kind=GATEWAY,
    ),
    Case(
        "gateway-adapters",
        {"spec.schedulers.0.adapters": [str(number) for number in range(51)]},
        "spec.schedulers[0].adapters",
        {"spec.schedulers.0.adapters": [str(number) for number in range(50)]},
        kind=GATEWAY,
    ),
    Case(
        "gateway-model-twice",
        {"spec.schedulers.1.modelName": "llama-8b"},
        "spec.schedulers[1].modelName",
        kind=GATEWAY,
    ),
    Case(
        "gateway-weights",
        {"spec.schedulers.0.configMapRef": {"name": "x"}},
        "spec.schedulers[0].weights",
        kind=GATEWAY,
    ),
    Case(
        "gateway-lru",
        {"spec.schedulers.1.weights": {"lru": 1}},
        "spec.schedulers[1].weights.lru",
        kind=GATEWAY,
    ),
]
