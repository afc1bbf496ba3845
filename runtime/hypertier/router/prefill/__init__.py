"""Prefill on replicas of its own, before decode elsewhere."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "prefill")
