"""What may change while the router runs: strategies, splits, canaries and shadows."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "routes")
