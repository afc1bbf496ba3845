"""HTTP as bytes: a client's connection, an engine's, and what passes between the two."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "http")
