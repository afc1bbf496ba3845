"""The router: OpenAI's HTTP API in front of N vLLM replicas, each request sent where its prefix is cached.

A request's way: `http/connection`, `front`, `asking`, `picking`, a strategy, `exchange`, `http/upstream`.
`app` builds it, `settings` says what can be set. A package tells in its first line what it is about.
"""

from hypertier.router import compiled

__path__ = compiled.path(__path__)
