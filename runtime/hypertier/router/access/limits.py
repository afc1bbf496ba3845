"""A tenant's limits: requests and tokens a minute, and requests at once. No clock of its own."""

from __future__ import annotations

import math
import re

from hypertier.router.api.openai import MAX_FRONT_BYTES, Refusal, front_of
from hypertier.spec.access import TenantDefault

BYTES_PER_TOKEN = 4
"""Of a request's body: OpenAI's rule of thumb
(https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them, read 2026-12-01)."""

# Clients write it before the prompt or behind it; a limit hidden in the middle is not seen.
_ENDS_BYTES = 4096
_ROUNDING = 1e-9
_MAX_TOKENS = re.compile(rb'"max_(?:completion_|output_)?tokens"\s*+:\s*+([0-9]{1,9})(?![0-9.eE])')
_TOKENS, _BEFORE_TOKENS = b'_tokens"', len(b'"output')
_USED = re.compile(rb'"(total_tokens|input_tokens|output_tokens)"\s*+:\s*+([0-9]{1,9})(?![0-9.eE])')


class Bucket:
    """A minute's worth of something, which fills up again in a minute.

    `level` may be negative where more was used than was taken for it.
    """

    __slots__ = ("_at", "_form", "_level", "_name", "per_minute")

    def __init__(self, name: bytes, per_minute: float, now: float) -> None:
        self._name = name
        self._at = now
        self._set(per_minute, per_minute)

    def _set(self, per_minute: float, level: float) -> None:
        self.per_minute = per_minute
        self._level = level
        self._form = (
            b"x-ratelimit-limit-%b: %d\r\nx-ratelimit-remaining-%b: %%d\r\nx-ratelimit-reset-%b: %%b\r\n"
        ) % (self._name, per_minute, self._name, self._name)

    def level(self, now: float) -> float:
        """What is left."""
        if now > self._at:
            level = self._level + (now - self._at) * self.per_minute / 60
            self._level = level if level < self.per_minute else self.per_minute
            self._at = now
        return self._level

    def take(self, amount: float) -> None:
        """Use that much; less than nothing gives back."""
        self._level = min(self.per_minute, self._level - amount)

    def resize(self, per_minute: float, now: float) -> None:
        """Another limit from now on; what was used stays used, in proportion."""
        self._set(per_minute, self.level(now) * per_minute / self.per_minute)

    def seconds_until(self, amount: float, now: float) -> float:
        """How long until that much is there: all of it, where it is more than there can be."""
        missing = min(amount, self.per_minute) - self.level(now)
        return max(0.0, missing * 60 / self.per_minute)

    def has(self, amount: float, now: float) -> bool:
        """That much is left; all of it, where it is more than there can be, or such a request never could."""
        level = self.level(now) + _ROUNDING
        return level >= amount or level >= self.per_minute

    def headers(self, now: float) -> bytes:
        """Lines with the limit, what is left, and when it is full again."""
        level = self.level(now)
        left = int(level + _ROUNDING) if level > 0 else 0
        return self._form % (left, _duration((self.per_minute - level) * 60 / self.per_minute))


class Limits:
    """What one tenant may do here and has done. None is no limit."""

    __slots__ = ("in_flight", "max_concurrent", "requests", "tokens")

    def __init__(self, tenant: TenantDefault, num_routers: int, now: float) -> None:
        self.requests: Bucket | None = None
        self.tokens: Bucket | None = None
        self.max_concurrent: int | None = None
        self.in_flight = 0
        self.change(tenant, num_routers, now)

    def change(self, tenant: TenantDefault, num_routers: int, now: float) -> None:
        """These limits from now on, each router having its part of them; what was used stays used."""
        self.requests = _resized(b"requests", self.requests, tenant.requests_per_minute, num_routers, now)
        self.tokens = _resized(b"tokens", self.tokens, tenant.tokens_per_minute, num_routers, now)
        concurrent = tenant.concurrent_requests
        self.max_concurrent = None if concurrent is None else math.ceil(concurrent / num_routers)

    def admit(self, num_tokens: int, now: float) -> Refusal | None:
        """Count one request of so many tokens; or what to answer, and nothing is counted."""
        if self.max_concurrent is not None and self.in_flight >= self.max_concurrent:
            return _refusal(
                "concurrent_requests", f"{self.max_concurrent} requests at once", 1.0, self.headers(now)
            )
        requests, tokens = self.requests, self.tokens
        if requests is not None and not requests.has(1, now):
            wait = requests.seconds_until(1, now)
            return _refusal(
                "requests", f"{requests.per_minute:g} requests per minute", wait, self.headers(now)
            )
        if tokens is not None and not tokens.has(num_tokens, now):
            wait = tokens.seconds_until(num_tokens, now)
            return _refusal("tokens", f"{tokens.per_minute:g} tokens per minute", wait, self.headers(now))
        if requests is not None:
            requests.take(1)
        if tokens is not None:
            tokens.take(num_tokens)
        self.in_flight += 1
        return None

    def never_sent(self, num_tokens: int) -> None:
        """A request that was admitted reached no engine: it counts as one, and took no tokens."""
        self.in_flight -= 1
        if self.tokens is not None:
            self.tokens.take(-num_tokens)

    def headers(self, now: float) -> bytes:
        """Header lines with what is left, named as OpenAI's
        (https://platform.openai.com/docs/guides/rate-limits, read 2026-12-01)."""
        lines = self.requests.headers(now) if self.requests is not None else b""
        return lines + self.tokens.headers(now) if self.tokens is not None else lines

    def is_full(self, now: float) -> bool:
        """Nothing was used in the last minute: a new one would be the same."""
        return self.in_flight == 0 and all(
            bucket is None or bucket.has(bucket.per_minute, now) for bucket in (self.requests, self.tokens)
        )


def _resized(
    name: bytes, bucket: Bucket | None, limit: int | None, num_routers: int, now: float
) -> Bucket | None:
    if limit is None:
        return None
    if bucket is None:
        return Bucket(name, limit / num_routers, now)
    bucket.resize(limit / num_routers, now)
    return bucket


def _duration(seconds: float) -> bytes:
    """As OpenAI writes it: `12ms`, `1s`, `6m0s`."""
    if seconds < 1:
        return b"%dms" % math.ceil(seconds * 1000)
    whole = math.ceil(seconds)
    return b"%dm%ds" % divmod(whole, 60) if whole >= 60 else b"%ds" % whole


def _refusal(kind: str, limit: str, wait_seconds: float, headers: bytes) -> Refusal:
    return Refusal(
        429,
        f"the tenant's limit is {limit} on this router; try again in {math.ceil(wait_seconds)} s",
        "rate_limit_exceeded",
        retry_after_seconds=max(1, math.ceil(wait_seconds)),
        kind=kind,
        headers=headers,
    )


def estimate_tokens(body: bytes | bytearray, path: bytes) -> int:
    """Tokens that a request may take: its body's bytes by four, and what it asks for at most."""
    size = len(body)
    front = front_of(body, path)
    if front:
        asked, begin = _asked_in_front(front), len(front)
    else:
        begin = min(size, _ENDS_BYTES)
        asked = _asked(body, 0, begin)
    return -(-size // BYTES_PER_TOKEN) + max(asked, _asked(body, max(begin, size - _ENDS_BYTES), size))


_asked_in_fronts: dict[bytes, int] = {}
_MAX_FRONTS = 256


def _asked_in_front(front: bytes) -> int:
    if len(front) > MAX_FRONT_BYTES:
        return _asked(front, 0, min(len(front), _ENDS_BYTES))
    asked = _asked_in_fronts.get(front)
    if asked is None:
        if len(_asked_in_fronts) >= _MAX_FRONTS:
            _asked_in_fronts.clear()
        asked = _asked_in_fronts[front] = _asked(front, 0, len(front))
    return asked


def _asked(body: bytes | bytearray, begin: int, end: int) -> int:
    """The largest of the limits that begin there."""
    asked = 0
    while (begin := body.find(b'"max_', begin, end)) >= 0:
        found = _MAX_TOKENS.match(body, begin)
        if found is not None:
            asked = max(asked, int(found[1]))
        begin += 5
    return asked


def used_tokens(end_of_answer: bytes) -> int | None:
    """Tokens that an answer says it took, where its end has the `usage`; None where not."""
    last = end_of_answer.rfind(b'"total_tokens"')
    total = _USED.match(end_of_answer, last) if last >= 0 else None
    if total is not None:
        return int(total[2])
    first = end_of_answer.find(_TOKENS)
    if first < 0:
        return None
    used = {
        found[1]: int(found[2]) for found in _USED.finditer(end_of_answer, max(0, first - _BEFORE_TOKENS))
    }
    if b"total_tokens" in used:
        return used[b"total_tokens"]
    if b"input_tokens" in used and b"output_tokens" in used:
        return used[b"input_tokens"] + used[b"output_tokens"]
    return None
