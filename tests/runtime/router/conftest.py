"""Property tests judge what comes out, not how fast the machine was."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("router", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("router")
