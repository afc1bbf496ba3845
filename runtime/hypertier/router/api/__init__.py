"""What the router reads in a request of OpenAI's or Anthropic's API, and what it answers by itself."""

from __future__ import annotations

from hypertier.router import compiled

__path__ = compiled.path(__path__, "api")
