"""What engines themselves say of their caches, and which of their blocks a prompt is."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "kv")
