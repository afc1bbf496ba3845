"""The rules: what no schema checks, as a table. Importing this package fills it."""

from hypertier.spec.rules import (
    cache,
    capture,
    cluster,
    deployed,
    deployment,
    disaggregation,
    engine,
    gateway,
    hygiene,
    memory,
    model_source,
    network,
    placement,
    routing,
    scaling,
    schema,
)
from hypertier.spec.rules.rule import RULES, Edit, Hit, Rule

__all__ = [
    "RULES",
    "Edit",
    "Hit",
    "Rule",
    "cache",
    "capture",
    "cluster",
    "deployed",
    "deployment",
    "disaggregation",
    "engine",
    "gateway",
    "hygiene",
    "memory",
    "model_source",
    "network",
    "placement",
    "routing",
    "scaling",
    "schema",
]
