"""The router: OpenAI's HTTP API in front of N vLLM replicas, each request sent where its prefix is cached.

A request goes `app` → `openai` → `picking` → a strategy → `proxy`. Start with `app.serve`.
"""

from hypertier.router import compiled

__path__ = compiled.path(__path__)
