"""What the router says of itself: metrics, decisions and spans."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "telemetry")
