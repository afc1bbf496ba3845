"""The engines: which there are, which are well, which models they serve and how much they keep."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "replicas")
