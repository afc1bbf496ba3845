"""Streams that another replica goes on with where their own broke off."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "migration")
