"""Who may ask, how much, and when it is their turn: keys, JWTs, tenants, limits and the queue."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "access")
