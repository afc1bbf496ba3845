"""What the routers of one endpoint tell one another, and how a strategy knows it."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "peers")
