"""Which of an engine's paths tenants may ask: those that answer requests, not those that operate it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

# https://docs.vllm.ai/en/stable/serving/online_serving/ and the routes of vLLM 0.32 (read 2026-12-01). It
# serves /reset_prefix_cache, /sleep, /collective_rpc, /abort_requests and more beside these, some by a flag.
SERVED = (
    b"/v1/",
    b"/v2/",
    b"/cohere/v2/",
    b"/classify",
    b"/detokenize",
    b"/generative_scoring",
    b"/inference/v1/generate",
    b"/invocations",
    b"/metrics",  # the router's own: it says where that is
    b"/ping",
    b"/pooling",
    b"/rerank",
    b"/score",
    b"/tokenize",
    b"/version",
)
# The router answers these itself, spelled like this alone: spelled otherwise they would be an engine's own.
OF_THE_ROUTER = (b"/health", b"/metrics")
NOT_SERVED = (b"/v1/load_lora_adapter", b"/v1/unload_lora_adapter")

MAX_KNOWN = 1024
_DOTS = (b"/./", b"/../")


class Paths:
    """The paths above, and `further` ones; one that ends with `/` stands for all below it."""

    def __init__(self, further: Sequence[str] = ()) -> None:
        added = [path.encode() for path in further]
        self._exact = {path for path in (*SERVED, *added) if not path.endswith(b"/")}
        self._below = tuple(path for path in (*SERVED, *added) if path.endswith(b"/"))
        self._known: dict[bytes, bool] = {}
        self._not = {path for path in NOT_SERVED if path not in self._exact}

    def has(self, path: bytes) -> bool:
        """Tenants may ask it, whatever way it is spelled."""
        known = self._known.get(path)
        if known is None:
            known = self._decide(path)
            if len(self._known) < MAX_KNOWN:
                self._known[path] = known
        return known

    def _decide(self, path: bytes) -> bool:
        if b"%" in path:
            path = unquote_to_bytes(path)
            if path in OF_THE_ROUTER:
                return False
        # Whatever stands before an engine may read dots, and take one more slash for none.
        if path.rstrip(b"/") in self._not or b"//" in path or any(dots in path + b"/" for dots in _DOTS):
            return False
        return path.startswith(self._below) or path in self._exact
