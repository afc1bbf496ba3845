"""Who may ask, how much, and when it is their turn: keys, JWTs, tenants, limits and the queue."""

from hypertier.router import compiled

__path__ = compiled.path(__path__, "access")
