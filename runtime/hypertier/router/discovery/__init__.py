"""Which addresses engines and other routers have: as listed, by DNS, or by Kubernetes."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "discovery")
